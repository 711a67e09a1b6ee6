# SPDX-License-Identifier: MIT
"""Runs the points that searches propose on the epochs of a state.

One run of a point on an epoch answers every delay class: runs are kept by
(epoch, point), and a run is done only when some class still needs it. Every
point runs on the same epochs in the same order, with the same random numbers
(the seed belongs to the epoch), so that differences are the points'.

Hopeless points stop early. Epochs run in rounds; after each, the best that a
point could still become is shown to the search that asked (`Search.hopeless`),
and the point goes on only while one of its searches may need it. A stopped
point could not have changed what any search does: who wins is the same as if
all had run (tests/training/test_evaluator.py holds the two against each other).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from training.errors import TrainingError
from training.objective import Pool, Rest, Tally
from training.search import Score
from training.space import Point

__all__ = ["Evaluator", "Request", "Runner", "Scores", "TrainingEpoch"]


class TrainingEpoch(Protocol):
    """What the evaluator asks of an epoch."""

    @property
    def key(self) -> str:
        """Names the epoch's content: equal keys, equal runs."""

    @property
    def capacity_bytes(self) -> int:
        """The most that its link carries."""


E = TypeVar("E", bound=TrainingEpoch)
E_contra = TypeVar("E_contra", bound=TrainingEpoch, contravariant=True)


class Runner(Protocol[E_contra]):
    """Runs flows on epochs; deterministic, and safe to call from several threads."""

    @property
    def edges_us(self) -> NDArray[np.float64]:
        """Upper edges of the delay bins of every tally."""

    def run(self, cases: Sequence[E_contra], points: Sequence[Point]) -> Sequence[Sequence[Tally]]:
        """A tally for every case and point: result[case][point]."""


class Scores(Protocol):
    """What a class asks of a point: the rank of its tallies."""

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """The score of a point on its epochs; with a rest, the best that it can become."""


@dataclass(frozen=True)
class Request:
    """A point, for one class, and the search's word on when to stop it."""

    point: Point
    objective: Scores
    hopeless: Callable[[Score], bool]


class Evaluator(Generic[E]):
    """Scores points on the epochs of one state; keeps every run.

    rounds: shares of the epochs' capacity after which hopeless points are let go,
    ascending, the last one 1.

    Raises:
        TrainingError: no epochs, or rounds that do not ascend to 1.
    """

    def __init__(
        self,
        runner: Runner[E],
        epochs: Sequence[E],
        *,
        rounds: Sequence[float] = (0.125, 0.25, 0.5, 1.0),
        ran: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        if not epochs:
            raise TrainingError("evaluator: expected at least one epoch, got none")
        if not rounds or list(rounds) != sorted(set(rounds)) or rounds[0] <= 0 or rounds[-1] != 1.0:
            raise TrainingError(f"evaluator: expected rounds that ascend to 1, got {list(rounds)}")
        self._runner = runner
        self._ran = ran
        # By key: an order that is fixed, and in which neighbours in time are apart.
        ordered = sorted(epochs, key=lambda epoch: epoch.key)
        self._rounds = _cut(ordered, rounds)
        self._tallies: dict[tuple[str, Point], Tally] = {}
        self.runs = 0

    def evaluate(self, requests: Sequence[Request]) -> list[Score]:
        """A score for each request, in order; incomplete where it was stopped."""
        pools = {request.point: Pool() for request in requests}
        scores: dict[int, Score] = {}
        for epochs, rest in self._rounds:
            alive = [i for i in range(len(requests)) if i not in scores]
            if not alive:
                break
            points = list(dict.fromkeys(requests[i].point for i in alive))
            self._run(epochs, points)
            for point in points:
                for epoch in epochs:
                    pools[point].add(self._tallies[epoch.key, point])
            for i in alive:
                request = requests[i]
                score = request.objective.score(pools[request.point], rest=rest)
                if score.complete or request.hopeless(score):
                    scores[i] = score
        return [scores[i] for i in range(len(requests))]

    def _run(self, epochs: Sequence[E], points: Sequence[Point]) -> None:
        missing = [p for p in points if any((e.key, p) not in self._tallies for e in epochs)]
        if not missing:
            return
        results = self._runner.run(epochs, missing)
        for epoch, row in zip(epochs, results, strict=True):
            for point, tally in zip(missing, row, strict=True):
                self._tallies[epoch.key, point] = tally
        self.runs += len(epochs) * len(missing)
        self._ran(len(missing) * sum(epoch.capacity_bytes for epoch in epochs))


def _cut(epochs: Sequence[E], rounds: Sequence[float]) -> list[tuple[list[E], Rest]]:
    """The epochs of each round, with what is left after it; rounds without epochs fall away."""
    total = sum(epoch.capacity_bytes for epoch in epochs)
    cut: list[list[E]] = [[] for _ in rounds]
    before = 0
    for epoch in epochs:
        share = before / total if total else 0.0
        cut[next(i for i, end in enumerate(rounds) if share < end)].append(epoch)
        before += epoch.capacity_bytes
    left = [[e for later in cut[i + 1 :] for e in later] for i in range(len(cut))]
    return [
        (now, Rest(epochs=len(rest), capacity_bytes=sum(e.capacity_bytes for e in rest)))
        for now, rest in zip(cut, left, strict=True)
        if now
    ]
