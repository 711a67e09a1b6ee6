# SPDX-License-Identifier: MIT
from __future__ import annotations

from training.finals import finalists
from training.search import Found, Score


def found(*points: tuple[int, ...]) -> list[Found]:
    return [Found(point, Score(0.0, 0.9, 9.0, 40.0, 0.95, 8)) for point in points]


LEVELS = {2: found((2, 20), (2, 200)), 3: found((3, 30), (3, 300)), 5: found((5, 50), (5, 500))}
SINGLE = found((9, 90), (3, 300))


def test_the_levels_own_point_comes_first_then_its_neighbours_and_the_single_set() -> None:
    assert finalists(3, 0, LEVELS, SINGLE, neighbours=1) == [(3, 30), (2, 20), (9, 90)]
    assert finalists(3, 0, LEVELS, SINGLE, neighbours=2) == [(3, 30), (2, 20), (5, 50), (9, 90)]
    assert finalists(5, 0, LEVELS, SINGLE, neighbours=0) == [(5, 50), (9, 90)]


def test_a_point_that_was_found_twice_takes_part_once() -> None:
    assert finalists(3, 1, LEVELS, SINGLE, neighbours=1) == [(3, 300), (2, 200)]
