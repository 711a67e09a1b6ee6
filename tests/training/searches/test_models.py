# SPDX-License-Identifier: MIT
from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, cast

import numpy as np
import pytest

from training.errors import TrainingError
from training.searches import BotorchChoice, Dimension, Point, RayChoice, Score, Space
from training.searches.models import MET, ModelSearch, ModelSettings, Propose, Seen

SPACE = Space((Dimension("w", 10_000, 1_000_000), Dimension("t", 2000, 400_000)))
CANDIDATE = SPACE.point([0.9, 0.1])
CHOICES = {
    "optuna": RayChoice(kind="ray", searcher="optuna", evaluations=40, initial=10),
    "ax": RayChoice(kind="ray", searcher="ax", evaluations=14, initial=8),
    "botorch": BotorchChoice(kind="botorch", evaluations=16, initial=8),
}
CHOICES["imported"] = RayChoice(
    kind="ray", searcher="ray.tune.search.optuna:OptunaSearch", arguments={}, evaluations=40, initial=10
)
each_search = pytest.mark.parametrize("name", CHOICES)


def made(name: str) -> ModelSearch:
    search = CHOICES[name].make(SPACE, [CANDIDATE], samples=(1,), steps=(1, 2))
    assert isinstance(search, ModelSearch)
    return search


def scored(point: Point) -> Score:
    """The cost falls with the second position up to its bound of 0.5: the optimum is 0.5, at (0.3, 0.5)."""
    x, y = SPACE.positions(point)
    return Score(max(2 * y - 1, 0.0), (x - 0.3) ** 2 + 1 - y, 1)


def drive(search: ModelSearch, *, points: int = 1000, backwards: bool = False, stops: bool = False) -> list[Point]:
    """Tell the scores; backwards: the last of a batch first; stops: of hopeless points only a bound."""
    seen: list[Point] = []
    while not search.done and len(seen) < points:
        proposals = search.ask(4)
        for proposal in reversed(proposals) if backwards else proposals:
            score = scored(proposal.point)
            bound = Score(0.9 * score.violation, score.cost - 1, 1, complete=False)
            is_stopped = stops and search.hopeless(proposal.number, bound)
            search.tell(proposal.number, bound if is_stopped else score)
        seen += [proposal.point for proposal in proposals]
    return seen


@cache
def whole(name: str) -> tuple[ModelSearch, list[Point]]:
    search = made(name)
    return search, drive(search)


def search_of(propose: Propose) -> ModelSearch:
    return ModelSearch(SPACE, [], settings=ModelSettings(evaluations=30, initial=8), samples=(1,), steps=(1,),
                       propose=propose)  # fmt: skip


@each_search
def test_the_optimum_under_the_constraint_is_found_after_the_candidates(name: str) -> None:
    search, points = whole(name)
    assert points[0] == CANDIDATE
    assert len(points) == search.budget == CHOICES[name].evaluations + 1
    assert search.best is not None
    assert search.best.score.feasible
    assert search.best.score.cost < 0.52
    sampled = min(scored(point).rank for point in points[: CHOICES[name].initial + 1])
    assert search.best.score.cost < sampled[1] - 0.02


@pytest.mark.parametrize("name", ["imported", "botorch"])
def test_threads_and_the_random_numbers_of_the_process_change_nothing(name: str) -> None:
    _, points = whole(name)
    np.random.seed(5)  # a library might use it
    count = CHOICES[name].initial + 3
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: drive(made(name), points=count), range(2)))
    assert found == [points[:count]] * 2


def test_where_hopeless_points_stop_changes_no_point_nor_does_the_order_of_the_scores() -> None:
    def propose(seen: object, seed: int) -> list[float]:
        digits = [int(c) for c in repr(seen).encode()]  # depends on everything that a model sees
        return [float(x) for x in np.random.default_rng([seed, *digits]).random(2)]

    plain, stopping = search_of(propose), search_of(propose)
    assert drive(plain) == drive(stopping, stops=True, backwards=True)
    assert plain.best == stopping.best
    known = [one for one in stopping.seen if one.cost is not None]
    stopped = [one for one in stopping.seen if one.cost is None]
    assert stopped
    assert {one.violation for one in stopped} == {0.5}
    assert all(one.violation == -MET or 0 < one.violation < 0.5 for one in known)


def test_the_model_proposes_once_the_cost_of_one_point_is_known() -> None:
    known: list[int] = []

    def propose(seen: Sequence[Seen], seed: int) -> list[float]:
        del seed
        known.append(sum(one.cost is not None for one in seen))
        return [0.5, 0.5]

    search = search_of(propose)
    while not search.done:
        for proposal in search.ask(4):
            search.tell(proposal.number, Score(5.0 if proposal.number else 0.0, 0.5, 1))
    assert known == [1] * 22


def test_a_missing_extra_is_named_when_the_search_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in (("optuna", "optuna"), ("ax", "ax"), ("botorch", "botorch")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(TrainingError, match=rf"package {module} .*pip install 'ccatune\[search\]'"):
                made(name)


def test_commands_import_none_of_the_libraries() -> None:
    code = (
        "import sys, training.cli, training.commands, training.reports.cli\n"
        "from training.searches import BotorchChoice, RayChoice\n"
        "print(*{'ax', 'botorch', 'optuna', 'ray', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def imported(searcher: str, **more: Any) -> RayChoice:
    return RayChoice(kind="ray", searcher=searcher, evaluations=9, initial=2, **more)


def test_a_searcher_of_ones_own_learns_its_points_alone_and_may_finish_early() -> None:
    import steps_searcher

    choice = imported("steps_searcher:Steps", arguments={"xs": [0.25, 0.5, 0.75]})
    search = choice.make(SPACE, [CANDIDATE], samples=(1,), steps=(1,))
    steps_searcher.RECEIVED.clear()
    points = drive(cast("ModelSearch", search))
    assert points[3:] == [SPACE.point([0.25, 0.03]), SPACE.point([0.5, 0.04]), SPACE.point([0.75, 0.05])]
    (received,) = steps_searcher.RECEIVED.values()
    scores = [scored(point) for point in points[3:]]
    assert [(number, result["penalised"], result["cost"]) for number, result in received] == [
        (str(3 + i), pytest.approx(score.cost), pytest.approx(score.cost)) for i, score in enumerate(scores)
    ]
    assert search.done
    assert search.ask(1) == []


@pytest.mark.parametrize(
    ("searcher", "arguments", "says"),
    [
        ("no_such:Thing", {}, r"expected the searcher no_such:Thing, its import failed: ModuleNotFound.*PYTHONPATH"),
        ("ray.tune:NoSuch", {}, "its import failed: AttributeError"),
        ("json:JSONDecoder", {}, r"expected json:JSONDecoder to be a subclass of ray\.tune\.search\.Searcher, got"),
        (
            "steps_searcher:Steps",
            {"ys": 3},
            r"Steps to accept its arguments \(ys=3\), got TypeError.*'ys'",
        ),
        ("ray.tune.search:Searcher", {}, "to take its space by set_search_properties and to return true, got false"),
    ],
)
def test_a_class_that_cannot_search_is_refused_before_any_run(searcher: str, arguments: Any, says: str) -> None:
    with pytest.raises(TrainingError, match=says):
        imported(searcher, arguments=arguments).make(SPACE, [], samples=(1,), steps=(1,))


@pytest.mark.parametrize(("xs", "says"), [([2.0], "suggest values from 0 to 1 of w, t, got"), (["a"], "got {'w': 'a'")])
def test_a_suggestion_outside_of_the_space_ends_the_search(xs: list[Any], says: str) -> None:
    search = imported("steps_searcher:Steps", arguments={"xs": xs}).make(SPACE, [], samples=(1,), steps=(1,))
    with pytest.raises(TrainingError, match=says):
        drive(cast("ModelSearch", search))


def test_only_an_imported_class_has_arguments() -> None:
    with pytest.raises(ValueError, match=r"expected arguments only with .* got them with optuna"):
        RayChoice(kind="ray", searcher="optuna", arguments={"seed": 1})
    with pytest.raises(ValueError, match="should match pattern"):
        RayChoice(kind="ray", searcher="hyperopt")
