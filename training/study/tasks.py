# SPDX-License-Identifier: MIT
"""The task of a stage: a search over one group of states, all delay classes in step, and how it is confirmed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.executors import Part
from training.evaluation.runner import CaseRunner
from training.objectives import Objective
from training.searches import Found, Point, Search, SearchSettings, Space
from training.workloads import Case

__all__ = ["ClassTask", "SearchTask", "confirmed"]


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
    """A search over cases. names: the parameters of a point. fresh: cases that confirm; none: unconfirmed."""

    name: str
    cca: str
    names: tuple[str, ...]
    search: SearchSettings
    classes: tuple[ClassTask, ...]
    cases: tuple[Case, ...]
    rounds: tuple[float, ...]
    fresh: tuple[Case, ...] = ()
    lenience_se: float = 0.0

    @property
    def amount(self) -> float:
        """Evaluations at most, times what the cases carry."""
        evaluations = sum(self._search(one).budget for one in self.classes)
        return float(evaluations * _carried(self.cases) + self._finalists * _carried(self.fresh))

    @property
    def _finalists(self) -> int:
        return sum(len(one.candidates) + 1 for one in self.classes)

    def _search(self, one: ClassTask) -> Search:
        samples, steps = one.seeds
        return self.search.make(one.space, one.candidates, samples=samples, steps=steps)

    def run(self, threads: int, advance: Callable[[float], None]) -> Part:
        """Search and confirm; see Task."""
        carried = _carried(self.cases)
        runner = CaseRunner(self.cca, self.names, [one.objective for one in self.classes], threads=threads)
        evaluator = Evaluator(runner, self.cases, rounds=self.rounds)
        best = optimise(evaluator, [(self._search(one), one.objective) for one in self.classes],
                        scored=lambda n: advance(float(n * carried)))  # fmt: skip
        if not self.fresh:
            return Part(tuple(best), evaluator.runs)
        again = Evaluator(runner, self.fresh, rounds=(1.0,))
        best = [confirmed(again, [*one.candidates, each.point], one.confirming, least_se=self.lenience_se)
                for one, each in zip(self.classes, best, strict=True)]  # fmt: skip
        advance(float(self._finalists * _carried(self.fresh)))
        return Part(tuple(best), evaluator.runs + again.runs)


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


def _carried(cases: Sequence[Case]) -> int:
    return sum(case.capacity_bytes for case in cases)
