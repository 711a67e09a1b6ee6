# SPDX-License-Identifier: MIT
"""Where the target's boundary runs, as far as the points told so far show it.

Throughput and queueing delay rise together, so the best point of a space lies where
the delay reaches its target, and a step away from there is mostly wasted. Around a
position x the delay of a point is taken to be

    ln delay(y) = ln delay(x) + b . (y - x)

fitted by weighted least squares to all complete points: weights
exp(-|y - x|^2 / (2 REACH^2)), and a small ridge, which leaves b at 0 where too few
points tell. To land on the boundary is to move along the one dimension in which the
delay rises most steeply, the others as they are.

The boundary itself lies between the longest delay with which a point met the target
and the shortest to which a missed one can be brought down: delay / (1 + excess),
which is the target, or less where a margin is asked for. It is taken to be halfway
(in ln delay); at the former where the two are in the wrong order, as points differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.search import Score

__all__ = ["Boundary"]

LEAST_POINTS = 6
REACH = 0.25
# A slope below this, in e-folds of delay over a whole range, says nothing of where the boundary is.
LEAST_SLOPE = 0.3
_RIDGE = 0.005
_EVERYWHERE = 1e-3


class Boundary:
    """The points told, and what they say of the delay."""

    def __init__(self) -> None:
        self._rows: list[list[float]] = []  # positions, ln delay, excess

    def add(self, position: Sequence[float], score: Score) -> None:
        """Learn from a point; one that was stopped, or that delayed nothing, does not count."""
        if score.complete and score.delay_ms > 0:
            self._rows.append([*position, math.log(score.delay_ms), score.excess])

    def land(self, position: Sequence[float], *, beside: float) -> list[float]:
        """The position moved to the boundary and `beside` it (in ln delay); unmoved where too little is known."""
        if len(self._rows) < LEAST_POINTS:
            return list(position)
        rows, here = np.array(self._rows), np.array(position)
        away = rows[:, :-2] - here
        weights = np.exp(-np.sum(away**2, axis=1) / (2 * REACH**2)) + _EVERYWHERE
        basis = np.column_stack([np.ones(len(rows)), away])
        ridge = np.diag([0.0, *[_RIDGE] * len(here)])
        delay, *slopes = np.linalg.solve(
            basis.T @ (basis * weights[:, None]) + ridge, basis.T @ (weights * rows[:, -2])
        )
        steepest = int(np.argmax(slopes))
        if slopes[steepest] < LEAST_SLOPE:
            return list(position)
        landed = list(position)
        moved = landed[steepest] + float(self._at(rows) + beside - delay) / float(slopes[steepest])
        landed[steepest] = min(max(moved, 0.0), 1.0)
        return landed

    @staticmethod
    def _at(rows: NDArray[np.float64]) -> float:
        """ln delay of the boundary."""
        delays, excess = rows[:, -2], rows[:, -1]
        met = excess <= 0
        if met.all():
            return float(delays.max())
        above = float(np.min(delays[~met] - np.log1p(excess[~met])))
        if not met.any():
            return above
        below = float(delays[met].max())
        return max(below, (below + above) / 2)

    def snapshot(self) -> list[list[float]]:
        """All that was learnt."""
        return [list(row) for row in self._rows]

    def restore(self, rows: Sequence[Sequence[float]]) -> None:
        """Go on from a snapshot."""
        self._rows = [list(row) for row in rows]
