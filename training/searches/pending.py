# SPDX-License-Identifier: MIT
"""What every search keeps: the proposals whose scores are still to come, and the best of those that came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training.errors import TrainingError
from training.searches.search import Found, Proposal, Score
from training.searches.space import Point

__all__ = ["Pending"]


class Pending:
    """Proposals by their number. Scores come in any order, and what is kept does not depend on it."""

    def __init__(self) -> None:
        self._out: dict[int, Point] = {}
        self._best: tuple[tuple[float, float], int, Found] | None = None  # rank, number: the earlier of two equals
        self.asked = 0
        self.scored = 0

    @property
    def is_waiting(self) -> bool:
        """A score is still to come."""
        return bool(self._out)

    @property
    def best(self) -> Found | None:
        """The best complete score so far."""
        return None if self._best is None else self._best[2]

    def hand_out(self, points: Sequence[Point]) -> list[Proposal]:
        """Number these points, and wait for their scores."""
        made = [Proposal(self.asked + i, point) for i, point in enumerate(points)]
        self._out |= {proposal.number: proposal.point for proposal in made}
        self.asked += len(made)
        return made

    def take(self, number: int, score: Score) -> Point:
        """The proposal of that number has its score; its point. `best` is brought up to date.

        Raises:
            TrainingError: no such proposal is waited for.
        """
        if number not in self._out:
            waiting = ", ".join(map(str, sorted(self._out))) or "none"
            raise TrainingError(
                f"search: expected the score of a proposal that is out ({waiting}), got one of {number}"
            )
        point = self._out.pop(number)
        self.scored += 1
        if score.complete:
            found = (score.rank, number, Found(point, score))
            if self._best is None or found[:2] < self._best[:2]:
                self._best = found
        return point

    def cannot_win(self, bound: Score) -> bool:
        """At its very best it is behind the best that is known."""
        return self.best is not None and bound.rank > self.best.score.rank

    def snapshot(self) -> dict[str, Any]:
        """How far it is, and the best; while no score is waited for.

        Raises:
            TrainingError: a score is still to come.
        """
        if self._out:
            raise TrainingError(f"search: expected a snapshot while no score is waited for, {len(self._out)} are")
        best = None if self._best is None else {"number": self._best[1], **self._best[2].to_json()}
        return {"scored": self.scored, "best": best}

    def restore(self, data: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.asked = self.scored = data["scored"]
        self._best = None
        if data["best"] is not None:
            found = Found.from_json(data["best"])
            self._best = (found.score.rank, data["best"]["number"], found)
