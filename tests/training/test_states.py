# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools

import numpy as np
import pytest
from links import constant, recording, study

from training.flows import reference_turns
from training.states import StateEpoch, Turn, confusion, epochs_of, level_of


def test_levels_follow_the_papers_quantisation() -> None:
    assert [level_of(v, study()) for v in (0, 124_999, 125_000, 999_999, 10**9)] == [0, 0, 1, 7, 7]


def test_an_epoch_has_the_level_that_was_measured_when_it_began() -> None:
    turns = [Turn(1000, 130_000), Turn(6000, 500_000)]
    found = epochs_of(constant(3.0, seconds=12), turns, study())
    assert [(e.start_ms, e.end_ms, e.level) for e in found] == [(1000, 6000, 1), (6000, 12_000, 4)]


def test_what_is_left_of_a_recording_is_an_epoch_when_it_is_long_enough() -> None:
    turns = [Turn(0, 1), Turn(5000, 1), Turn(10_000, 1)]
    assert len(epochs_of(constant(3.0, seconds=12), turns, study())) == 2
    assert len(epochs_of(constant(3.0, seconds=13), turns, study())) == 3


def test_an_outage_is_no_epoch() -> None:
    quiet = constant(0.015, seconds=10)
    assert epochs_of(quiet, [Turn(0, 1), Turn(5000, 1)], study()) == []


def test_a_default_flow_measures_a_constant_link_at_its_goodput() -> None:
    # 1448 of the 1500 bytes of a packet are payload: 5 Mbit/s on the wire are 603,333 bytes/s.
    [turns] = reference_turns(study(), [constant(5.0, seconds=30)], threads=1)
    assert len(turns) >= 5
    assert 0 < turns[0].at_ms < 3000
    for turn, following in itertools.pairwise(turns[1:]):
        assert turn.measured_bytes_per_s == pytest.approx(603_333, rel=0.03)
        assert following.at_ms - turn.at_ms == pytest.approx(5000, abs=100)


def test_the_estimation_window_is_the_studys() -> None:
    link = recording(seconds=60, seed=4)
    short, long = (
        reference_turns(study(epochs={"epoch_s": 5, "shortest_s": 3, "estimate_ms": ms}), [link], threads=1)[0]
        for ms in (250, 5000)
    )
    assert [t.at_ms for t in short] == [t.at_ms for t in long]
    assert [t.measured_bytes_per_s for t in short[1:]] != [t.measured_bytes_per_s for t in long[1:]]


def test_equal_pieces_of_a_link_have_equal_keys_and_others_do_not() -> None:
    one, other = recording("a"), recording("b", seed=2)
    assert StateEpoch(one, 0, 5000, 1).key == StateEpoch(recording("renamed"), 0, 5000, 7).key
    assert StateEpoch(one, 0, 5000, 1).key != StateEpoch(one, 0, 5001, 1).key
    assert StateEpoch(one, 0, 5000, 1).key != StateEpoch(other, 0, 5000, 1).key


def test_the_confusion_counts_measured_against_mean_levels() -> None:
    link = constant(3.5, seconds=20)
    epochs = [StateEpoch(link, 0, 5000, 3), StateEpoch(link, 5000, 10_000, 4), StateEpoch(link, 10_000, 15_000, 1)]
    found = confusion(epochs, study())
    assert np.argwhere(found.counts).tolist() == [[1, 3], [3, 3], [4, 3]]
    assert found.within == pytest.approx({0: 1 / 3, 1: 2 / 3, 2: 1.0})
    assert found.mean_error_levels == pytest.approx(-1 / 3)
