# SPDX-License-Identifier: MIT
from __future__ import annotations

import numpy as np
import pytest
from links import constant, recording, study

from emulation.traces import Recording
from training.errors import TrainingError
from training.workloads.levels import (
    LevelPlan,
    StateEpoch,
    Turn,
    by_level,
    choose,
    confusion,
    epochs_of,
    gather,
    plan_levels,
)  # fmt: skip

AXIS = study().levels["throughput"]


def cut(link: Recording, turns: list[Turn]) -> list[StateEpoch]:
    return epochs_of(link, turns, AXIS, shortest_s=3, least_bytes_per_s=2500)


def test_levels_follow_the_papers_quantisation() -> None:
    assert [AXIS.level(v) for v in (0, 124_999, 125_000, 999_999, 10**9)] == [0, 0, 1, 7, 7]


def test_an_epoch_has_the_level_that_was_measured_when_it_began() -> None:
    turns = [Turn(1000, 130_000), Turn(6000, 500_000)]
    found = cut(constant(3.0, seconds=12), turns)
    assert [(e.start_ms, e.end_ms, e.level) for e in found] == [(1000, 6000, 1), (6000, 12_000, 4)]


def test_what_is_left_of_a_recording_is_an_epoch_when_it_is_long_enough() -> None:
    turns = [Turn(0, 1), Turn(5000, 1), Turn(10_000, 1)]
    assert len(cut(constant(3.0, seconds=12), turns)) == 2
    assert len(cut(constant(3.0, seconds=13), turns)) == 3


def test_an_outage_is_no_epoch() -> None:
    quiet = constant(0.015, seconds=10)
    assert cut(quiet, [Turn(0, 1), Turn(5000, 1)]) == []


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


RECORDING = recording(seconds=60)


def epochs(**count_by_level: int) -> list[StateEpoch]:
    found = []
    for name, count in count_by_level.items():
        level = int(name.removeprefix("level"))
        found += [StateEpoch(RECORDING, i * 100, i * 100 + 5000, level) for i in range(count)]
    return found


def plans(found: list[StateEpoch], *, count: int) -> list[LevelPlan]:
    return plan_levels(found, count=count, minimum=5, maximum=8, reach=2)


@pytest.mark.parametrize(
    ("counts", "level", "trains", "borrowed"),
    [
        ({"level2": 6}, 2, [2] * 6, ()),
        ({"level1": 2, "level2": 1, "level3": 2, "level4": 9}, 2, [1, 1, 2, 3, 3], (1, 3)),
        ({"level0": 4, "level2": 1, "level4": 5}, 2, None, (0, 4)),
        ({"level2": 4, "level3": 40}, 2, [2] * 4 + [3] * 4, (3,)),
        ({"level0": 6, "level5": 2}, 5, [], ()),
    ],
    ids=["its own", "both neighbours", "further away", "all of its own first", "too few even so: copied"],
)
def test_a_level_with_too_few_epochs_borrows_from_its_neighbours(
    counts: dict[str, int], level: int, trains: list[int] | None, borrowed: tuple[int, ...]
) -> None:
    plan = plans(epochs(**counts), count=6)[level]
    assert (plan.own, plan.borrowed_from) == (counts[f"level{level}"], borrowed)
    assert trains is None or sorted(epoch.level for epoch in plan.epochs) == trains
    assert (plan.source == level) == bool(plan.epochs)


def test_a_level_without_epochs_copies_the_nearest_and_the_lower_of_two() -> None:
    found = plans(epochs(level1=6, level5=6), count=9)
    assert [found[n].source for n in (0, 2, 3, 4, 8)] == [1, 1, 1, 5, 5]
    assert found[3].epochs == ()


def test_of_many_epochs_the_chosen_are_spread_over_time() -> None:
    chosen = choose(epochs(level1=100), 4)
    assert [epoch.start_ms for epoch in chosen] == [1200, 3700, 6200, 8700]


def test_chosen_epochs_keep_the_datasets_shares() -> None:
    other = recording("b", dataset="other-train")
    many = epochs(level1=30) + [StateEpoch(other, i * 100, i * 100 + 5000, 1) for i in range(10)]
    chosen = choose(many, 8)
    assert sum(epoch.recording.dataset == "other-train" for epoch in chosen) == 2


def test_too_few_epochs_for_any_level_are_refused() -> None:
    with pytest.raises(TrainingError, match="expected a level with at least 5 epochs, got 2 over 1 levels"):
        plans(epochs(level1=2), count=4)


@pytest.mark.parametrize(
    ("counts", "minimum", "reach", "levels"),
    [
        ({"level1": 9, "level2": 4, "level3": 9}, 4, 2, [2] * 4),
        ({"level1": 9, "level2": 20}, 4, 2, [2] * 8),
        ({"level1": 1, "level2": 2, "level3": 1, "level4": 9}, 6, 2, [1, 2, 2, 3, 4, 4]),
        ({"level1": 5, "level2": 2, "level3": 6}, 6, 2, [1, 1, 2, 2, 3, 3]),
        ({"level2": 2, "level4": 9}, 6, 1, [2, 2]),
    ],
    ids=["its own suffice", "at most eight", "further away", "the nearest first", "fewer where none is in reach"],
)
def test_the_finals_fill_up_from_the_nearest_levels_on_both_sides(
    counts: dict[str, int], minimum: int, reach: int, levels: list[int]
) -> None:
    found = gather(2, by_level(epochs(**counts)), minimum=minimum, maximum=8, reach=reach)
    assert sorted(epoch.level for epoch in found) == levels
