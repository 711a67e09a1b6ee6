# SPDX-License-Identifier: MIT
from __future__ import annotations

import numpy as np
import pytest
from links import constant, recording, study

from emulation.traces import Recording
from training.workloads.states import StateEpoch, Turn, confusion, epochs_of

AXIS = study().levels["throughput"]


def epochs(link: Recording, turns: list[Turn]) -> list[StateEpoch]:
    return epochs_of(link, turns, AXIS, shortest_s=3, least_bytes_per_s=2500)


def test_levels_follow_the_papers_quantisation() -> None:
    assert [AXIS.level(v) for v in (0, 124_999, 125_000, 999_999, 10**9)] == [0, 0, 1, 7, 7]


def test_an_epoch_has_the_level_that_was_measured_when_it_began() -> None:
    turns = [Turn(1000, 130_000), Turn(6000, 500_000)]
    found = epochs(constant(3.0, seconds=12), turns)
    assert [(e.start_ms, e.end_ms, e.level) for e in found] == [(1000, 6000, 1), (6000, 12_000, 4)]


def test_what_is_left_of_a_recording_is_an_epoch_when_it_is_long_enough() -> None:
    turns = [Turn(0, 1), Turn(5000, 1), Turn(10_000, 1)]
    assert len(epochs(constant(3.0, seconds=12), turns)) == 2
    assert len(epochs(constant(3.0, seconds=13), turns)) == 3


def test_an_outage_is_no_epoch() -> None:
    quiet = constant(0.015, seconds=10)
    assert epochs(quiet, [Turn(0, 1), Turn(5000, 1)]) == []


def test_equal_pieces_of_a_link_have_equal_keys_and_others_do_not() -> None:
    one, other = recording("a"), recording("b", seed=2)
    assert StateEpoch(one, 0, 5000, 1).key == StateEpoch(recording("renamed"), 0, 5000, 7).key
    assert StateEpoch(one, 0, 5000, 1).key != StateEpoch(one, 0, 5001, 1).key
    assert StateEpoch(one, 0, 5000, 1).key != StateEpoch(other, 0, 5000, 1).key


def test_the_confusion_counts_measured_against_mean_levels() -> None:
    link = constant(3.5, seconds=20)
    seen = [StateEpoch(link, 0, 5000, 3), StateEpoch(link, 5000, 10_000, 4), StateEpoch(link, 10_000, 15_000, 1)]
    found = confusion(seen, AXIS)
    assert np.argwhere(found.counts).tolist() == [[1, 3], [3, 3], [4, 3]]
    assert found.within == pytest.approx({0: 1 / 3, 1: 2 / 3, 2: 1.0})
    assert found.mean_error_levels == pytest.approx(-1 / 3)
