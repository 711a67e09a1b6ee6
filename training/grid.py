# SPDX-License-Identifier: MIT
"""Brute force: every combination of equally spaced positions (PQSA, section IV).

The accuracy that other searches are measured against. `counts` samples each
dimension at that many positions, both ends included, so log-spaced values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from training._pending import Pending
from training.errors import TrainingError
from training.search import Found, Proposal, Score
from training.space import Point, Space

__all__ = ["GridSearch", "check_counts", "grid_points"]


def check_counts(counts: Sequence[int], *, dimensions: int) -> None:
    """Refuse counts of no grid.

    Raises:
        TrainingError: not one count per dimension, or one below 2.
    """
    if len(counts) != dimensions or min(counts) < 2:
        raise TrainingError(f"grid: expected {dimensions} counts of at least 2, got {list(counts)}")


def grid_points(space: Space, counts: Sequence[int]) -> list[Point]:
    """The points of the grid, each once, the last dimension varying fastest.

    Raises:
        TrainingError: not one count per dimension, or one below 2.
    """
    check_counts(counts, dimensions=len(space.dimensions))
    axes = [[i / (n - 1) for i in range(n)] for n in counts]
    return list(dict.fromkeys(space.point(positions) for positions in itertools.product(*axes)))


class GridSearch:
    """All points of a grid, in order; a `Search`."""

    def __init__(self, space: Space, *, counts: Sequence[int]) -> None:
        self._points = grid_points(space, counts)
        self._pending = Pending()

    @property
    def done(self) -> bool:
        """All points have been told."""
        return self._pending.told >= len(self._points)

    @property
    def best(self) -> Found | None:
        """The best point told so far."""
        return self._pending.best

    @property
    def budget(self) -> int:
        """The number of points."""
        return len(self._points)

    def ask(self, count: int) -> list[Proposal]:
        """The next `count` points of the grid."""
        asked = self._pending.asked
        return self._pending.hand_out(self._points[asked : asked + count])

    def tell(self, number: int, score: Score) -> None:
        """Keep the best."""
        self._pending.take(number, score)

    def hopeless(self, number: int, bound: Score) -> bool:
        """It cannot become the best."""
        del number
        return self._pending.cannot_win(bound)

    def snapshot(self) -> dict[str, Any]:
        """How far it is, and the best."""
        return self._pending.snapshot()

    def restore(self, data: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self._pending.restore(data)
