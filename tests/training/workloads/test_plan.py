# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from links import recording

from training.errors import TrainingError
from training.workloads.plan import LevelPlan, by_level, choose, gather, plan_levels
from training.workloads.states import StateEpoch

RECORDING = recording(seconds=60)


def epochs(**count_by_level: int) -> list[StateEpoch]:
    found = []
    for name, count in count_by_level.items():
        level = int(name.removeprefix("level"))
        found += [StateEpoch(RECORDING, i * 100, i * 100 + 5000, level) for i in range(count)]
    return found


def plans(found: list[StateEpoch], *, count: int) -> list[LevelPlan]:
    return plan_levels(found, count=count, minimum=5, maximum=8, reach=2)


def test_a_level_with_enough_epochs_trains_on_its_own() -> None:
    plan = plans(epochs(level2=6), count=4)[2]
    assert (plan.own, len(plan.epochs), plan.borrowed_from, plan.source) == (6, 6, (), 2)


def test_a_level_with_too_few_borrows_from_both_sides_and_says_so() -> None:
    plan = plans(epochs(level1=2, level2=1, level3=2, level4=9), count=6)[2]
    assert plan.borrowed_from == (1, 3)
    assert {epoch.level for epoch in plan.epochs} == {1, 2, 3}
    assert len(plan.epochs) == 5


def test_it_borrows_from_further_away_only_where_the_neighbours_do_not_suffice() -> None:
    plan = plans(epochs(level0=4, level2=1, level4=5), count=6)[2]
    assert plan.borrowed_from == (0, 4)


def test_a_level_keeps_all_of_its_own_before_it_takes_others() -> None:
    plan = plans(epochs(level2=4, level3=40), count=6)[2]
    assert sum(epoch.level == 2 for epoch in plan.epochs) == 4
    assert len(plan.epochs) == 8


def test_a_level_without_epochs_copies_the_nearest_and_the_lower_of_two() -> None:
    found = plans(epochs(level1=6, level5=6), count=9)
    assert [found[n].source for n in (0, 2, 3, 4, 8)] == [1, 1, 1, 5, 5]
    assert found[3].epochs == ()


def test_a_level_that_finds_too_few_even_with_its_neighbours_copies_too() -> None:
    plan = plans(epochs(level0=6, level5=2), count=6)[5]
    assert (plan.own, plan.source, plan.borrowed_from) == (2, 0, ())


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


def gathered(level: int, *, minimum: int, maximum: int = 8, reach: int = 2, **counts: int) -> list[int]:
    """The levels that the gathered epochs are of."""
    found = gather(level, by_level(epochs(**counts)), minimum=minimum, maximum=maximum, reach=reach)
    return sorted(epoch.level for epoch in found)


def test_the_finals_take_a_levels_own_epochs_and_no_more_where_these_suffice() -> None:
    assert gathered(2, minimum=4, level1=9, level2=4, level3=9) == [2] * 4
    assert gathered(2, minimum=4, level1=9, level2=20) == [2] * 8


def test_the_finals_fill_up_from_the_nearest_levels_on_both_sides() -> None:
    assert gathered(2, minimum=6, level1=1, level2=2, level3=1, level4=9) == [1, 2, 2, 3, 4, 4]
    assert gathered(2, minimum=6, level1=5, level2=2, level3=6) == [1, 1, 2, 2, 3, 3]


def test_the_finals_make_do_with_fewer_where_nothing_is_within_reach() -> None:
    assert gathered(2, minimum=6, reach=1, level2=2, level4=9) == [2, 2]
