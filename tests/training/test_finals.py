# SPDX-License-Identifier: MIT
from __future__ import annotations

from training.finals import finalists, scaled
from training.search import Found, Score
from training.space import Dimension, Space


def found(*points: tuple[int, ...]) -> list[Found]:
    return [Found(point, Score(0.0, 0.9, 9.0, 40.0, 0.95, 8)) for point in points]


LEVELS = {2: found((2, 20), (2, 200)), 3: found((3, 30), (3, 300)), 5: found((5, 50), (5, 500))}
SINGLES = ([(9, 90)], [(3, 300)])


def test_the_levels_own_point_comes_first_then_its_neighbours_and_the_single_set() -> None:
    assert finalists(3, 0, LEVELS, SINGLES[0], neighbours=1) == [(3, 30), (2, 20), (9, 90)]
    assert finalists(3, 0, LEVELS, SINGLES[0], neighbours=2) == [(3, 30), (2, 20), (5, 50), (9, 90)]
    assert finalists(5, 0, LEVELS, SINGLES[0], neighbours=0) == [(5, 50), (9, 90)]


def test_a_point_that_was_found_twice_takes_part_once() -> None:
    assert finalists(3, 1, LEVELS, SINGLES[1], neighbours=1) == [(3, 300), (2, 200)]


def test_the_single_set_takes_part_with_its_own_parameters_scaled_within_their_ranges() -> None:
    space = Space((Dimension("window_us", 1000, 9000), Dimension("threshold_us", 1000, 9000)))
    assert scaled((4000, 5000), space, ("threshold_us",), 0.9) == (4000, 4500)
    assert scaled((4000, 5000), space, ("threshold_us",), 0.1) == (4000, 1000)
    assert scaled((4000, 5000), space, (), 0.5) == (4000, 5000)
