# SPDX-License-Identifier: MIT
"""What every search keeps: the points that are out, and the best that came back."""

from __future__ import annotations

from collections.abc import Sequence

from training.errors import TrainingError
from training.search import Found, Score
from training.space import Point

__all__ = ["Pending"]


class Pending:
    """The conversation of ask and tell, kept in order."""

    def __init__(self) -> None:
        self.points: tuple[Point, ...] = ()
        self.best: Found | None = None
        self.told = 0

    def hand_out(self, points: Sequence[Point]) -> list[Point]:
        """Remember what was asked for.

        Raises:
            TrainingError: earlier points are still out, or there are none to give.
        """
        if self.points:
            raise TrainingError(
                f"search: expected the scores of {len(self.points)} points before the next are asked for"
            )
        if not points:
            raise TrainingError("search: expected to be asked only while it is not done, got ask()")
        self.points = tuple(points)
        return list(points)

    def take(self, points: Sequence[Point], scores: Sequence[Score]) -> list[Found]:
        """The complete scores among what came back; `best` is brought up to date.

        Raises:
            TrainingError: these are not the points that were asked for.
        """
        if tuple(points) != self.points or len(scores) != len(points):
            raise TrainingError(
                f"search: expected the scores of {list(self.points)}, got {len(scores)} for {list(points)}"
            )
        self.points = ()
        self.told += len(points)
        found = [Found(p, s) for p, s in zip(points, scores, strict=True) if s.complete]
        for candidate in found:
            if self.best is None or candidate.score.rank < self.best.score.rank:
                self.best = candidate
        return found

    def cannot_win(self, bound: Score) -> bool:
        """At its very best it is behind the best that is known."""
        return self.best is not None and bound.rank > self.best.score.rank
