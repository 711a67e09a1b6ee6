# SPDX-License-Identifier: MIT
"""The base of all searches: points that come first, points that depend on scores, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence

from training.errors import TrainingError
from training.searches.search import Found, Proposal, Score
from training.searches.space import Point

__all__ = ["BaseSearch"]


class BaseSearch:
    """A `Search`. Scores come in any order, and the result does not depend on it.

    first: points that depend on no score. steps: how many further points there are. Each is the `_next` of the search,
    and waits for the scores of all points before it.
    """

    def __init__(self, first: Sequence[Point], *, steps: int = 0) -> None:
        self._first = tuple(first)
        self._out: dict[int, Point] = {}  # proposals whose scores are still to come
        self._best: tuple[tuple[float, float], int, Found] | None = None  # rank, number: the earlier of two equals
        self._asked = 0
        self._scored = 0
        self.budget = len(self._first) + steps

    @property
    def done(self) -> bool:
        """The budget is spent."""
        return self._scored >= self.budget

    @property
    def best(self) -> Found | None:
        """The best complete score so far."""
        return None if self._best is None else self._best[2]

    def ask(self, count: int) -> list[Proposal]:
        """The first points, `count` at a time, and then one at a time."""
        if self._asked < len(self._first):
            points = self._first[self._asked : self._asked + count]
        elif self._out or self._asked >= self.budget:
            return []
        else:
            points = (self._next(self._asked),)
        made = [Proposal(self._asked + i, point) for i, point in enumerate(points)]
        self._out |= {proposal.number: proposal.point for proposal in made}
        self._asked += len(made)
        return made

    def tell(self, number: int, score: Score) -> None:
        """Receive the score of a proposal, and keep the best.

        Raises:
            TrainingError: no such proposal waits for its score.
        """
        if number not in self._out:
            waiting = ", ".join(map(str, sorted(self._out))) or "none"
            raise TrainingError(
                f"search: expected the score of a proposal that is out ({waiting}), got one of {number}"
            )
        point = self._out.pop(number)
        self._scored += 1
        if score.complete:
            found = (score.rank, number, Found(point, score))
            if self._best is None or found[:2] < self._best[:2]:
                self._best = found
        self._learn(number, point, score)

    def hopeless(self, number: int, bound: Score) -> bool:
        """Even at its very best it does not become the best."""
        del number
        return self.best is not None and bound.rank > self.best.score.rank

    def _next(self, number: int) -> Point:
        """Return the point of that number, after the first ones. Searches with further points define it."""
        raise TypeError(f"{type(self).__name__}: expected {len(self._first)} points and no further one, got {number}")

    def _learn(self, number: int, point: Point, score: Score) -> None:
        """Take note of a score."""
