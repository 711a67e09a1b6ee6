# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools
import math

import pytest

from training.searches.search import Score
from training.searches.surrogate import LEAST_POINTS, Surrogate

TARGET_MS = 50.0
GRID = list(itertools.product((0.1, 0.5, 0.9), repeat=3))


def delay_ms(position: tuple[float, ...]) -> float:
    """Rises by 2 e-folds along the last dimension, falls by half of one along the first."""
    return 30.0 * math.exp(2.0 * position[2] - 0.5 * position[0])


def told(delay: float, *, utilization: float = 0.9, complete: bool = True) -> Score:
    return Score(max(delay / TARGET_MS - 1, 0.0), 1 - utilization, 4, complete, delay)


def learnt(positions: list[tuple[float, ...]]) -> Surrogate:
    surrogate = Surrogate()
    for position in positions:
        surrogate.add(position, told(delay_ms(position)))
    return surrogate


@pytest.mark.parametrize("start", [(0.3, 0.2, 0.1), (0.7, 0.6, 0.9)])
def test_a_position_lands_between_the_longest_delay_that_met_the_target_and_the_target(
    start: tuple[float, ...],
) -> None:
    surrogate = learnt(GRID)
    longest = max(delay_ms(p) for p in GRID if delay_ms(p) <= TARGET_MS)
    landed = surrogate.land(start, beside=0.0)
    assert landed[:2] == list(start[:2])
    assert delay_ms(tuple(landed)) == pytest.approx(math.sqrt(longest * TARGET_MS), rel=0.06)


def test_beside_it_is_meant_in_the_logarithm_of_the_delay() -> None:
    surrogate = learnt(GRID)
    on, off = (delay_ms(tuple(surrogate.land((0.5, 0.5, 0.5), beside=b))) for b in (0.0, -0.2))
    assert off / on == pytest.approx(math.exp(-0.2), rel=0.02)


def test_before_a_point_meets_the_target_what_the_others_miss_it_by_gives_it_away() -> None:
    surrogate = learnt([p for p in GRID if delay_ms(p) > TARGET_MS])
    assert delay_ms(tuple(surrogate.land((0.5, 0.5, 0.9), beside=0.0))) == pytest.approx(TARGET_MS, rel=0.05)


def test_too_few_points_and_a_delay_that_hardly_changes_move_nothing() -> None:
    start = [0.2, 0.4, 0.6]
    few = learnt(GRID[: LEAST_POINTS - 1])
    assert few.land(start, beside=0.0) == start
    assert few.promise([(0.1, 0.2, 0.3), (0.4, 0.5, 0.6)]) == [0.0, 0.0]
    level = Surrogate()
    for position in GRID:
        level.add(position, told(40.0 + position[2]))
    assert level.land(start, beside=0.0) == start


def test_points_that_were_stopped_or_delayed_nothing_do_not_count() -> None:
    surrogate = learnt(GRID)
    before = surrogate.land((0.5, 0.5, 0.5), beside=0.0), surrogate.promise([(0.1, 0.2, 0.3)])
    surrogate.add((0.5, 0.5, 0.5), told(45.0, complete=False))
    surrogate.add((0.5, 0.5, 0.5), told(0.0))
    assert (surrogate.land((0.5, 0.5, 0.5), beside=0.0), surrogate.promise([(0.1, 0.2, 0.3)])) == before


def test_nobody_lands_outside_of_the_range() -> None:
    surrogate = learnt(GRID)
    assert surrogate.land((0.5, 0.5, 0.5), beside=5.0)[2] == 1.0
    assert surrogate.land((0.5, 0.5, 0.5), beside=-5.0)[2] == 0.0


def used(position: tuple[float, ...]) -> float:
    """Greatest at 0.3 of the first dimension; rises along the last."""
    return 0.9 - 0.2 * (position[0] - 0.3) ** 2 + 0.05 * position[2]


def test_promises_rank_positions_as_what_is_used_there() -> None:
    surrogate = Surrogate()
    for position in itertools.product((0.1, 0.3, 0.5, 0.7, 0.9), (0.2, 0.8), (0.2, 0.8)):
        surrogate.add(position, told(40.0, utilization=used(position)))
    asked = [(0.3, 0.5, 0.5), (0.6, 0.5, 0.5), (0.9, 0.5, 0.5)]
    promises = surrogate.promise(asked)
    assert promises == sorted(promises, reverse=True)
    assert promises == pytest.approx([used(position) - 1 for position in asked], abs=0.02)
    assert surrogate.promise([(0.3, 0.5, 0.8)]) > surrogate.promise([(0.3, 0.5, 0.2)])


def test_where_nothing_was_tried_more_may_be_found() -> None:
    surrogate = Surrogate()
    for at, first in enumerate((0.0, 0.1, 0.0, 0.1, 0.0, 0.1, 0.0, 0.1)):
        surrogate.add((first, 0.1, 0.1), told(40.0, utilization=0.9 + 0.01 * (at % 3)))
    known, unknown = surrogate.promise([(0.05, 0.1, 0.1), (0.05, 0.1, 0.9)])
    assert unknown > known + 0.003
