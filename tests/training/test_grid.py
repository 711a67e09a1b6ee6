# SPDX-License-Identifier: MIT
from __future__ import annotations

import json

import pytest
from surface import SPACE

from training.errors import TrainingError
from training.grid import GridSearch, grid_points
from training.search import Score


def test_a_grid_holds_every_combination_once_with_log_spaced_values() -> None:
    points = grid_points(SPACE, (3, 2, 2))
    assert len(points) == len(set(points)) == 12
    assert sorted({p[0] for p in points}) == [10_000, 100_000, 1_000_000]
    assert sorted({p[2] for p in points}) == [2000, 400_000]


def test_the_grid_asks_for_all_points_and_keeps_the_best() -> None:
    grid = GridSearch(SPACE, counts=(3, 2, 2))
    asked = []
    while not grid.done:
        for proposal in reversed(proposals := grid.ask(5)):
            grid.tell(proposal.number, Score(0.0, 1 / (1 + proposal.point[0]), 1.0, 1.0, 1.0, 1))
        asked += [proposal.point for proposal in proposals]
    assert asked == grid_points(SPACE, (3, 2, 2))
    assert grid.best is not None
    assert grid.best.point[0] == 10_000


def test_a_resumed_grid_goes_on_where_it_was() -> None:
    grid, whole = GridSearch(SPACE, counts=(2, 2, 2)), grid_points(SPACE, (2, 2, 2))
    for proposal in grid.ask(3):
        grid.tell(proposal.number, Score(0.0, 0.5, 1.0, 1.0, 1.0, 1))
    again = GridSearch(SPACE, counts=(2, 2, 2))
    again.restore(json.loads(json.dumps(grid.snapshot())))
    assert [(proposal.number, proposal.point) for proposal in again.ask(8)] == list(enumerate(whole))[3:]
    assert again.best == grid.best


def test_a_count_for_each_dimension_is_asked_for() -> None:
    with pytest.raises(TrainingError, match=r"expected 3 counts of at least 2, got \[3, 1\]"):
        GridSearch(SPACE, counts=(3, 1))
