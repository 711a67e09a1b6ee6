# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from surface import SPACE, ClosedRunner, epochs, objective

from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.searches import DdsChoice, PointsSearch, Score, Search
from training.searches.points import grid_points

SETTINGS = DdsChoice(intervals=12, steps=18)
GRID = grid_points(SPACE, count=8, counts={"d": 4})


def dds(seed: int, delay_class: int) -> Search:
    return SETTINGS.make(SPACE, [], samples=(seed,), steps=(seed, delay_class))


class Patient:
    """A search that lets every point run to the end."""

    def __init__(self, inner: Search) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def hopeless(self, _number: int, _bound: Score) -> bool:
        return False


def test_a_point_runs_once_on_each_epoch_whatever_the_classes_ask() -> None:
    runner, seen = ClosedRunner(), epochs(8)
    optimise(Evaluator(runner, seen), [(Patient(dds(1, c)), objective(c)) for c in range(3)])  # type: ignore[arg-type]
    assert len(runner.runs) == len(set(runner.runs))
    shared = SETTINGS.intervals
    assert len(runner.runs) <= 8 * (shared + 3 * SETTINGS.steps)


@pytest.mark.parametrize("seed", range(6))
def test_stopping_hopeless_points_early_changes_nothing_but_the_work(seed: int) -> None:
    early, late = ClosedRunner(), ClosedRunner()
    asked = [objective(c) for c in range(3)]
    stopped = optimise(Evaluator(early, epochs()), [(dds(seed, c), asked[c]) for c in range(3)])
    patient = [(Patient(dds(seed, c)), asked[c]) for c in range(3)]
    assert stopped == optimise(Evaluator(late, epochs()), patient)  # type: ignore[arg-type]
    assert len(early.runs) < len(late.runs)


def test_a_grid_with_early_stopping_does_less_than_half_of_the_work() -> None:
    runner, seen = ClosedRunner(), epochs(24)
    optimise(Evaluator(runner, seen), [(PointsSearch(GRID), objective())], batch=8)
    assert len(runner.runs) < 0.5 * 24 * len(GRID)


def test_the_order_in_which_epochs_are_given_does_not_matter() -> None:
    results = [
        optimise(Evaluator(ClosedRunner(), order), [(dds(3, 1), objective())]) for order in (epochs(), epochs()[::-1])
    ]
    assert results[0] == results[1]


def test_a_stopped_point_is_marked_and_carries_its_bound() -> None:
    point = SPACE.point([0.5, 0.5, 1.0])
    [score] = Evaluator(ClosedRunner(), epochs()).evaluate([Request(point, objective(), lambda _bound: True)])
    assert not score.complete
    assert score.cases < 12
    assert score.violation > 0


def test_no_epochs_are_refused() -> None:
    with pytest.raises(TrainingError, match="expected at least one case"):
        Evaluator(ClosedRunner(), [])


@pytest.mark.parametrize("rounds", [(), (0.5,), (0.5, 0.25, 1.0), (0.0, 1.0)])
def test_rounds_must_ascend_to_the_whole(rounds: tuple[float, ...]) -> None:
    with pytest.raises(TrainingError, match="expected rounds that ascend to 1"):
        Evaluator(ClosedRunner(), epochs(), rounds=rounds)
