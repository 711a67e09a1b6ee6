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
from typing import Any, Protocol

from training.errors import TrainingError
from training.objectives.tally import Objective, Pool, Rest, Tally
from training.searches.search import Evaluation, Found, Score, Search
from training.searches.space import Point
from training.workloads.case import Case

__all__ = ["Evaluator", "JointSearch", "Request", "Runner", "optimise"]


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
        self._counted: dict[Point, int] = {}  # rounds whose runs of a point are in `runs`
        self.runs = 0

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
        for point in missing:
            if self._counted.get(point, 0) <= number:
                self._counted[point] = number + 1
                self.runs += len(cases)

    def snapshot(self) -> dict[str, Any]:
        """How many runs there were, and of which points, as JSON data. The runs themselves are not kept."""
        return {"runs": self.runs, "counted": [[list(point), rounds] for point, rounds in self._counted.items()]}

    def restore(self, data: dict[str, Any]) -> None:
        """Continue from a snapshot. A point that is needed again runs again, and is not counted again."""
        self.runs = data["runs"]
        self._counted = {tuple(point): rounds for point, rounds in data["counted"]}


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
    the engine's threads. batch: points requested at once from each search. evaluations: all scores so far, in order; a
    snapshot does not hold them.
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

    def step(self) -> int:
        """Evaluate what each unfinished search proposes, and give it the scores; the number of distinct points."""
        proposed = [(c, search, objective, search.ask(self._batch))
                    for c, (search, objective) in enumerate(self._searches) if not search.done]  # fmt: skip
        requests = [
            Request(proposal.point, objective, partial(search.hopeless, proposal.number))
            for _, search, objective, proposals in proposed for proposal in proposals
        ]  # fmt: skip
        scores = iter(self._evaluator.evaluate(requests))
        for c, search, _, proposals in proposed:
            for proposal in proposals:
                score = next(scores)
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

    def snapshot(self) -> list[dict[str, Any]]:
        """The state of each search between two steps, as JSON data."""
        return [search.snapshot() for search, _ in self._searches]

    def restore(self, data: Sequence[dict[str, Any]]) -> None:
        """Continue from a snapshot."""
        for (search, _), its in zip(self._searches, data, strict=True):
            search.restore(its)


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
