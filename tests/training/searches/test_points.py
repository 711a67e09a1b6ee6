# SPDX-License-Identifier: MIT
from __future__ import annotations

import numpy as np
import pytest
from surface import SPACE

from training.errors import TrainingError
from training.searches import GridChoice, PointsSearch, Score, SobolChoice
from training.searches.points import grid_points, sobol_points


def score(cost: float) -> Score:
    return Score(0.0, cost, 1)


def test_a_grid_holds_every_combination_once_with_log_spaced_values() -> None:
    points = grid_points(SPACE, count=2, counts={"w": 3})
    assert len(points) == len(set(points)) == 12
    assert sorted({p[0] for p in points}) == [10_000, 100_000, 1_000_000]
    assert sorted({p[2] for p in points}) == [2000, 400_000]


def test_all_points_of_a_list_are_evaluated_and_the_best_is_kept() -> None:
    whole = grid_points(SPACE, count=2)
    grid = PointsSearch(whole)
    asked = []
    while not grid.done:
        for proposal in reversed(proposals := grid.ask(5)):
            grid.tell(proposal.number, score(float(proposal.point[0])))
        asked += [proposal.point for proposal in proposals]
    assert asked == whole
    assert grid.best is not None
    assert grid.best.point[0] == 10_000


def test_of_equal_scores_the_point_that_was_proposed_first_wins_whichever_comes_first() -> None:
    points = grid_points(SPACE, count=2)
    for order in (1, -1):
        grid = PointsSearch(points)
        for proposal in grid.ask(len(points))[::order]:
            grid.tell(proposal.number, score(0.5))
        assert grid.best is not None
        assert grid.best.point == points[0]


def test_a_sobol_sequence_fills_the_space_evenly_and_depends_on_its_seed() -> None:
    points = sobol_points(SPACE, count=64, seed=(1,))
    assert points == sobol_points(SPACE, count=64, seed=(1,)) != sobol_points(SPACE, count=64, seed=(2,))
    positions = np.array([SPACE.positions(point) for point in points])
    for column in positions.T:  # each sixteenth of each range holds four of 64 points, up to rounding to integers
        counts = np.histogram(column, bins=16, range=(0, 1))[0]
        assert counts.min() >= 3
        assert counts.max() <= 5
    assert sobol_points(SPACE, count=20, seed=(1,)) == points[:20]


def test_candidates_are_evaluated_first() -> None:
    candidate = SPACE.point([0.2, 0.3, 0.4])
    for choice in (GridChoice(kind="grid", count=2), SobolChoice(kind="sobol", points=4)):
        search = choice.make(SPACE, [candidate], samples=(1,), steps=(1,))
        assert search.ask(1)[0].point == candidate
        assert search.budget in (5, 9)


@pytest.mark.parametrize(("count", "counts"), [(1, {}), (3, {"w": 1}), (3, {"x": 4})])
def test_at_least_two_values_of_parameters_that_are_there_are_required(count: int, counts: dict[str, int]) -> None:
    with pytest.raises(TrainingError, match="expected at least 2 values of each of w, d, t"):
        grid_points(SPACE, count=count, counts=counts)
