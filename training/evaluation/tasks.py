# SPDX-License-Identifier: MIT
"""The tasks that a study gives to an executor: a search over one group of states, all delay classes in step, and how
its result is confirmed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, JointSearch, Request
from training.evaluation.runner import CaseRunner
from training.objectives import Objective
from training.searches import Evaluation, Found, Point, Search, SearchSettings, Space
from training.workloads import Case


@dataclass(frozen=True)
class Part:
    """The result of a task: the best point of each delay class, its cost in runs, and all evaluations in order."""

    found: tuple[Found, ...]
    runs: int
    evaluations: tuple[Evaluation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON data; floats come back exactly."""
        data: dict[str, Any] = _PART.dump_python(self, mode="json")
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Part:
        """From the data of `to_json`."""
        return _PART.validate_python(data)


_PART = TypeAdapter(Part)
EVALUATIONS = TypeAdapter(tuple[Evaluation, ...])
"""Evaluations as JSON data, and back."""


@dataclass(frozen=True)
class ClassTask:
    """The search of one delay class.

    candidates: points of the space that are evaluated, too, the baseline first. seeds: of the initial samples, which
    the classes of a group share, and of the steps. confirming: the objective on the cases that confirm.
    """

    space: Space
    objective: Objective
    confirming: Objective
    candidates: tuple[Point, ...]
    seeds: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class SearchTask:
    """A search over cases; picklable, and its result depends on nothing else.

    name: of its part. names: the parameters of a point. fresh: cases that confirm; none: unconfirmed. stage: its name.
    levels: the group's level on each axis of the stage. These two only describe the task.
    """

    name: str
    cca: str
    names: tuple[str, ...]
    search: SearchSettings
    classes: tuple[ClassTask, ...]
    cases: tuple[Case, ...]
    rounds: tuple[float, ...]
    fresh: tuple[Case, ...] = ()
    lenience_se: float = 0.0
    stage: str = ""
    levels: tuple[tuple[str, int], ...] = ()

    @cached_property
    def amount(self) -> float:
        """Its work at most, in bytes: evaluations times what the cases carry.

        The first points of a search often serve several classes.
        """
        searches = [self.search_of(one) for one in self.classes]
        budget = sum(search.budget for search in searches)
        first = [proposal.point for search in searches for proposal in search.ask(search.budget)]
        evaluations = budget - len(first) + len(set(first))
        return float(evaluations * carried(self.cases) + self.finalists * carried(self.fresh))

    @property
    def finalists(self) -> int:
        """The points that the confirmation evaluates, at most."""
        return sum(len(one.candidates) + 1 for one in self.classes)

    def search_of(self, one: ClassTask) -> Search:
        """The search of a delay class, at its beginning."""
        samples, steps = one.seeds
        return self.search.make(one.space, one.candidates, samples=samples, steps=steps)

    def begin(self, threads: int, snapshot: Any = None) -> SearchRun:
        """Begin it on so many threads, or continue from the snapshot of an earlier run."""
        return SearchRun(self, threads, snapshot)


class SearchRun:
    """A search task that has begun. Its last step is the confirmation, if there is one.

    part: the result, once it is there. A snapshot holds the evaluations so far. The searches receive them again, and so
    come to the same state.
    """

    def __init__(self, task: SearchTask, threads: int, snapshot: Any) -> None:
        self._task = task
        self._runner = CaseRunner(task.cca, task.names, [one.objective for one in task.classes], threads=threads)
        evaluator = Evaluator(self._runner, task.cases, rounds=task.rounds)
        self._joint = JointSearch(evaluator, [(task.search_of(one), one.objective) for one in task.classes])
        self.part: Part | None = None
        if snapshot:
            try:
                self._joint.repeat(EVALUATIONS.validate_python(snapshot))
            except ValueError as error:
                raise TrainingError(
                    f"{task.name}: expected a snapshot of this search, got {error}; "
                    f"remove {task.name}.begun from the folder of parts, and resume"
                ) from error

    def step(self) -> float:
        """Ask, evaluate and tell once, or confirm; the work of it in bytes."""
        if not self._joint.done:
            return self._search()
        again = Evaluator(self._runner, self._task.fresh, rounds=(1.0,))
        best = [
            confirmed(again, [*one.candidates, each.point], one.confirming, least_se=self._task.lenience_se)
            for one, each in zip(self._task.classes, self._joint.best, strict=True)
        ]
        self._end(best, more_runs=again.runs)
        return float(self._task.finalists * carried(self._task.fresh))

    def _search(self) -> float:
        work = self._joint.step() * carried(self._task.cases)
        if self._joint.done and not self._task.fresh:
            self._end(self._joint.best)
        return float(work)

    def _end(self, found: Sequence[Found], *, more_runs: int = 0) -> None:
        self.part = Part(tuple(found), self._joint.runs + more_runs, tuple(self._joint.evaluations))

    def figures(self) -> dict[str, Any]:
        """The state of the search, as JSON data: numbers of scored points and runs, and the best point of each class.

        `class0` and so on hold the point's parameters in the core's units, its cost, its violation, and whether it
        meets the requirement. A class without a complete score is left out. At the end these are the task's result.
        """
        best = self.part.found if self.part else [search.best for search in self._joint.searches]
        return {
            "evaluations": len(self._joint.evaluations),
            "runs": self.part.runs if self.part else self._joint.runs,
            **{
                f"class{number}": {
                    **dict(zip(self._task.names, found.point, strict=True)),
                    "cost": found.score.cost, "violation": found.score.violation, "meets": found.score.feasible,
                    **found.score.metrics,
                }
                for number, found in enumerate(best) if found is not None
            },
        }  # fmt: skip

    def snapshot(self) -> Any:
        """The evaluations so far, as JSON data."""
        return EVALUATIONS.dump_python(tuple(self._joint.evaluations), mode="json")


def confirmed(evaluator: Evaluator, points: Sequence[Point], objective: Objective, *, least_se: float) -> Found:
    """The best of the points on these cases among the first one and those that cost less than it beyond chance.

    Beyond chance: the mean over the cases of the cost is less by more than least_se standard errors of the difference,
    case by case. If the first one misses a requirement, the best of all.
    """
    distinct = list(dict.fromkeys(points))
    scores = evaluator.evaluate([Request(point, objective) for point in distinct])
    found = [Found(point, score) for point, score in zip(distinct, scores, strict=True)]
    costs = [objective.case_costs(evaluator.tallies(point)) for point in distinct]
    eligible = [found[0]]
    for each, cost in zip(found[1:], costs[1:], strict=True):
        apart = cost - costs[0]
        error = float(apart.std(ddof=1)) / math.sqrt(len(apart)) if len(apart) > 1 else 0.0
        if not found[0].score.feasible or float(apart.mean()) < -least_se * error:
            eligible.append(each)
    return min(eligible, key=lambda each: each.score.rank)


def carried(cases: Sequence[Case]) -> int:
    """The most that the links of these cases carry, in bytes."""
    return sum(case.capacity_bytes for case in cases)
