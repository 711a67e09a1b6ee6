# SPDX-License-Identifier: MIT
"""A link in closed form to try searches and the evaluator on, instead of the engine.

With T the threshold (ms) and W the window (ms), an epoch of hardness h delivers

    utilization = 1 - h exp(-T / 20) - 0.02 ln(W / 60)^2

and its packets wait uniformly up to h (T + 10) + W / 10 ms. So the best point has
W near 60 and T as large as the target lets it be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.objective import Objective, Tally
from training.space import Dimension, Point, Space

EDGES_US = np.arange(1, 10_001, dtype=np.float64) * 100.0
THRESHOLDS_US = (25_000, 50_000, 100_000)

SPACE = Space((Dimension("w", 10_000, 1_000_000), Dimension("d", 1000, 100_000), Dimension("t", 2000, 400_000)))


@dataclass(frozen=True)
class ClosedEpoch:
    key: str
    capacity_bytes: int
    hardness: float


class ClosedRunner:
    """A `Runner` whose runs are the formulas above; counts what it is asked for."""

    edges_us: NDArray[np.float64] = EDGES_US

    def __init__(self) -> None:
        self.runs: list[tuple[str, Point]] = []

    def run(self, epochs: Sequence[ClosedEpoch], points: Sequence[Point]) -> list[list[Tally]]:
        self.runs += [(epoch.key, point) for epoch in epochs for point in points]
        return [[self.tally(epoch, point) for point in points] for epoch in epochs]

    @staticmethod
    def tally(epoch: ClosedEpoch, point: Point) -> Tally:
        window_ms, _, threshold_ms = (value / 1000 for value in point)
        utilization = 1 - epoch.hardness * math.exp(-threshold_ms / 20) - 0.02 * math.log(window_ms / 60) ** 2
        packets = int(max(utilization, 0.01) * epoch.capacity_bytes / 1500)
        longest_us = 1000 * (epoch.hardness * (threshold_ms + 10) + window_ms / 10)
        shares = np.clip(EDGES_US / longest_us, 0, 1)
        reached = np.floor(shares * packets).astype(np.int64)
        delays = np.diff(reached, prepend=0).astype(np.uint32)
        return Tally(
            duration_s=30.0,
            capacity_bytes=epoch.capacity_bytes,
            delivered_bytes=packets * 1500,
            packets=packets,
            delays=delays,
        )


def epochs(count: int = 12) -> list[ClosedEpoch]:
    return [
        ClosedEpoch(
            key=f"{i * 7919 % 1000:03d}-{i}", capacity_bytes=3_000_000 + 400_000 * i, hardness=0.8 + 0.05 * (i % 5)
        )
        for i in range(count)
    ]


def objective(threshold: int = 1, *, margin_se: float = 0.0) -> Objective:
    return Objective(
        percentile=95,
        aim_us=THRESHOLDS_US[threshold],
        edges_us=EDGES_US,
        margin_se=margin_se,
    )
