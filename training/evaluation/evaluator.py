# SPDX-License-Identifier: MIT
"""Scores the points that searches propose on the cases of a task.

One run of a point on a case serves every delay class: runs are kept by (case, point), and a run happens only while
some class still needs it. Every point runs on the same cases in the same order, with the same random numbers (the seed
belongs to the case), so that differences are due to the points.

Hopeless points stop early. Cases run in rounds. After each round the search receives the best score that the point can
still reach (`Search.hopeless`), and the point continues only while one of its searches may need it. A stopped point
could not have changed the result of any search (tests/training/evaluation compares it with running everything).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

from training.errors import TrainingError
from training.objectives.tally import Objective, Pool, Rest, Tally
from training.searches.search import Evaluation, Found, Score, Search
from training.searches.space import Point
from training.workloads.case import Case


class Runner(Protocol):
    """Runs points on cases; deterministic, and safe to call from several threads."""

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        """A tally for every case and point: result[case][point]."""


def never(_bound: Score) -> bool:
    """Do not stop a point early."""
    return False


@dataclass(frozen=True)
class Request:
    """A point to score with an objective, and the search's decision on when to stop it."""

    point: Point
    objective: Objective
    hopeless: Callable[[Score], bool] = never


class Evaluator:
    """Scores points on cases, and keeps every run.

    rounds: shares of the cases' capacity after which hopeless points stop, ascending, the last one 1.

    Raises:
        TrainingError: no cases, or rounds that do not ascend to 1.
    """

    def __init__(
        self, runner: Runner, cases: Sequence[Case], *, rounds: Sequence[float] = (0.125, 0.25, 0.5, 1.0)
    ) -> None:
        if not cases:
            raise TrainingError("evaluator: expected at least one case, got none")
        if not rounds or list(rounds) != sorted(set(rounds)) or rounds[0] <= 0 or rounds[-1] != 1.0:
            raise TrainingError(f"evaluator: expected rounds that ascend to 1, got {list(rounds)}")
        self._runner = runner
        # By key, which is a fixed order in which neighbours in time are apart.
        ordered = sorted(cases, key=lambda case: (case.order, case.key))
        self._rounds = _cut(ordered, rounds)
        self._tallies: dict[tuple[str, Point], Tally] = {}

    def evaluate(self, requests: Sequence[Request]) -> list[Score]:
        """A score for each request, in order; incomplete where it was stopped."""
        pools = {request.point: Pool() for request in requests}
        scores: dict[int, Score] = {}
        for number, (cases, rest) in enumerate(self._rounds):
            alive = [i for i in range(len(requests)) if i not in scores]
            if not alive:
                break
            points = list(dict.fromkeys(requests[i].point for i in alive))
            self._run(number, points)
            for point in points:
                for case in cases:
                    pools[point].add(self._tallies[case.key, point])
            for i in alive:
                request = requests[i]
                score = request.objective.score(pools[request.point], rest=rest)
                if score.complete or request.hopeless(score):
                    scores[i] = score
        return [scores[i] for i in range(len(requests))]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self._tallies)

    def tallies(self, point: Point) -> list[Tally]:
        """The runs of a point that was evaluated on all cases."""
        return [self._tallies[case.key, point] for cases, _ in self._rounds for case in cases]

    def _run(self, number: int, points: Sequence[Point]) -> None:
        cases, _ = self._rounds[number]
        missing = [p for p in points if any((case.key, p) not in self._tallies for case in cases)]
        if not missing:
            return
        results = self._runner.run(cases, missing)
        for case, row in zip(cases, results, strict=True):
            for point, tally in zip(missing, row, strict=True):
                self._tallies[case.key, point] = tally


def _cut(cases: Sequence[Case], rounds: Sequence[float]) -> list[tuple[list[Case], Rest]]:
    """The cases of each round, with the rest after it; rounds without cases are left out."""
    total = sum(case.capacity_bytes for case in cases)
    cut: list[list[Case]] = [[] for _ in rounds]
    before = 0
    for case in cases:
        share = before / total if total else 0.0
        cut[next(i for i, end in enumerate(rounds) if share < end)].append(case)
        before += case.capacity_bytes
    left = [[case for later in cut[i + 1 :] for case in later] for i in range(len(cut))]
    return [
        (now, Rest(len(rest), sum(case.capacity_bytes for case in rest), Counter(case.group for case in rest)))
        for now, rest in zip(cut, left, strict=True)
        if now
    ]


class JointSearch:
    """One search for each objective over the same cases, in step.

    Their requests meet in one call: equal points run once, and the cases and points of all searches are one batch for
    the engine's threads. batch: points requested at once from each search. evaluations: all scores so far, in order.
    """

    def __init__(self, evaluator: Evaluator, searches: Sequence[tuple[Search, Objective]], *, batch: int = 4) -> None:
        self._evaluator = evaluator
        self._searches = tuple(searches)
        self._batch = batch
        self.evaluations: list[Evaluation] = []

    @property
    def done(self) -> bool:
        """Every search is at its end."""
        return all(search.done for search, _ in self._searches)

    @property
    def searches(self) -> list[Search]:
        """The search of each class."""
        return [search for search, _ in self._searches]

    @property
    def runs(self) -> int:
        """The number of runs of points on cases, those of an interrupted search included."""
        cases: dict[Point, int] = {}
        for each in self.evaluations:
            cases[each.point] = max(cases.get(each.point, 0), each.score.cases)
        return sum(cases.values())

    def step(self) -> int:
        """Evaluate what each unfinished search proposes, and give it the scores; the number of distinct points."""
        return self._step(self._evaluator.evaluate)

    def repeat(self, evaluations: Sequence[Evaluation]) -> None:
        """Continue after these evaluations of the same search, which are not run again.

        Raises:
            ValueError: the search proposes other points.
        """
        scores = iter(each.score for each in evaluations)
        while len(self.evaluations) < len(evaluations) and not self.done:
            self._step(lambda requests: list(islice(scores, len(requests))))
        known, repeated = ([(each.delay_class, each.point) for each in its] for its in (evaluations, self.evaluations))
        if known != repeated:
            raise ValueError("other points than the search proposes")

    def _step(self, evaluate: Callable[[Sequence[Request]], Sequence[Score]]) -> int:
        proposed = [(c, search, objective, search.ask(self._batch))
                    for c, (search, objective) in enumerate(self._searches) if not search.done]  # fmt: skip
        requests = [
            Request(proposal.point, objective, partial(search.hopeless, proposal.number))
            for _, search, objective, proposals in proposed for proposal in proposals
        ]  # fmt: skip
        told = [(c, search, proposal) for c, search, _, proposals in proposed for proposal in proposals]
        for (c, search, proposal), score in zip(told, evaluate(requests), strict=True):
            search.tell(proposal.number, score)
            self.evaluations.append(Evaluation(c, proposal.point, score))
        return len({request.point for request in requests})

    @property
    def best(self) -> list[Found]:
        """The best point of each search.

        Raises:
            TrainingError: a search has no complete score.
        """
        found = [search.best for search, _ in self._searches]
        if any(best is None for best in found):
            raise TrainingError("search: expected at least one point to run on all cases, none did")
        return [best for best in found if best is not None]


def optimise(
    evaluator: Evaluator,
    searches: Sequence[tuple[Search, Objective]],
    *,
    batch: int = 4,
    scored: Callable[[int], None] = lambda _count: None,
) -> list[Found]:
    """Run a joint search to its end; the best point of each. scored: called with the number of points of each step.

    Raises:
        TrainingError: a search ended without a complete score.
    """
    joint = JointSearch(evaluator, searches, batch=batch)
    while not joint.done:
        scored(joint.step())
    return joint.best
