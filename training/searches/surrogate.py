# SPDX-License-Identifier: MIT
"""A model of the points that have a score: where the target's boundary lies, and how low the cost may be.

The boundary. Throughput and queueing delay rise together, so the best point of a space lies where the delay reaches its
target, and a step away from there is mostly wasted. Around a position x the delay of a point is modelled as

    ln delay(y) = ln delay(x) + b . (y - x)

fitted by weighted least squares to all complete points. The weights are exp(-|y - x|^2 / (2 REACH^2)). A small ridge
keeps b at 0 where there are too few points. A position is moved to the boundary along the one dimension in which the
delay rises most steeply. The boundary lies between the longest delay of a point that met the target and the shortest
delay to which a point that missed it can be reduced: delay / (1 + violation), which is the target, or less where a
margin is required. It is assumed to be halfway (in ln delay), or at the former where the two are in the wrong order.

The promise of a position is the negative cost that may be found there: mean plus one standard deviation of a Gaussian
process (Rasmussen and Williams 2006, eq. 2.25 and 2.26) over all complete points, around a linear trend. Its covariance
is squared exponential with the length LENGTH in every position, and its noise is the share NOISE of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.searches.search import Score

LEAST_POINTS = 6
REACH = 0.25
LENGTH = 0.35
NOISE = 0.05
# A slope below this, in e-folds of delay over a whole range, says nothing of where the boundary is.
LEAST_SLOPE = 0.3
_DELAY_RIDGE = 0.005
_TREND_RIDGE = 0.05
_EVERYWHERE = 1e-3
_LEAST_VARIANCE = 1e-8

Floats = NDArray[np.float64]


def _with_one(positions: Floats) -> Floats:
    return np.column_stack([np.ones(len(positions)), positions])


def _least_squares(basis: Floats, values: Floats, weights: Floats, *, ridge: float) -> Floats:
    """Coefficients of the basis, whose first column is the constant, which no ridge holds."""
    held = np.diag([0.0, *[ridge] * (basis.shape[1] - 1)])
    return np.asarray(np.linalg.solve(basis.T @ (basis * weights[:, None]) + held, basis.T @ (weights * values)))


def _alike(a: Floats, b: Floats) -> Floats:
    """Covariance of two sets of positions, as a share of the variance."""
    away = ((a[:, None, :] - b[None]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-away / (2 * LENGTH**2)))


class Surrogate:
    """The model, which learns from one point after the other."""

    def __init__(self) -> None:
        self._rows: list[list[float]] = []  # positions, -cost, ln of the bounded measure, violation

    def add(self, position: Sequence[float], score: Score) -> None:
        """Learn from a point. An incomplete score, or one without a bounded measure, does not count."""
        if score.complete and score.bounded > 0:
            self._rows.append([*position, -score.cost, math.log(score.bounded), score.violation])

    def land(self, position: Sequence[float], *, beside: float) -> list[float]:
        """The position moved to the boundary and `beside` it (in ln delay); unmoved where too little is known."""
        if len(self._rows) < LEAST_POINTS:
            return list(position)
        rows, here = np.array(self._rows), np.array(position)
        away = rows[:, :-3] - here
        weights = np.exp(-np.sum(away**2, axis=1) / (2 * REACH**2)) + _EVERYWHERE
        delay, *slopes = _least_squares(_with_one(away), rows[:, -2], weights, ridge=_DELAY_RIDGE)
        steepest = int(np.argmax(slopes))
        if slopes[steepest] < LEAST_SLOPE:
            return list(position)
        landed = list(position)
        moved = landed[steepest] + float(self._at(rows) + beside - delay) / float(slopes[steepest])
        landed[steepest] = min(max(moved, 0.0), 1.0)
        return landed

    def promise(self, positions: Sequence[Sequence[float]]) -> list[float]:
        """What may be used of the link at each position; 0 everywhere where too little is known."""
        if len(self._rows) < LEAST_POINTS:
            return [0.0] * len(positions)
        rows, asked = np.array(self._rows), np.array(positions)
        known, used = rows[:, :-3], rows[:, -3]
        trend = _least_squares(_with_one(known), used, np.ones(len(rows)), ridge=_TREND_RIDGE)
        rest = used - _with_one(known) @ trend
        variance = float(rest.var()) + _LEAST_VARIANCE
        near = _alike(asked, known)
        solved = np.linalg.solve(_alike(known, known) + NOISE * np.eye(len(rows)), np.column_stack([rest, near.T]))
        mean = _with_one(asked) @ trend + near @ solved[:, 0]
        unknown = 1.0 - np.einsum("ij,ji->i", near, solved[:, 1:])
        return [float(x) for x in mean + np.sqrt(variance * np.maximum(unknown, 0.0))]

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
