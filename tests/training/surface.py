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

import numpy as np

from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from training.objectives import DelayObjective, Tally
from training.searches import Dimension, Point, Space
from training.workloads import Case

EDGES_US = np.arange(1, 10_001, dtype=np.float64) * 100.0
THRESHOLDS_US = (25_000, 50_000, 100_000)

SPACE = Space((Dimension("w", 10_000, 1_000_000), Dimension("d", 1000, 100_000), Dimension("t", 2000, 400_000)))


class ClosedRunner:
    """A `Runner` whose runs are the formulas above; counts the requested runs."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, Point]] = []

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        self.runs += [(epoch.key, point) for epoch in cases for point in points]
        return [[self.tally(epoch, point) for point in points] for epoch in cases]

    @staticmethod
    def tally(epoch: Case, point: Point) -> Tally:
        window_ms, _, threshold_ms = (value / 1000 for value in point)
        utilization = 1 - epoch.limit_mbps * math.exp(-threshold_ms / 20) - 0.02 * math.log(window_ms / 60) ** 2
        packets = int(max(utilization, 0.01) * epoch.capacity_bytes / 1500)
        longest_us = 1000 * (epoch.limit_mbps * (threshold_ms + 10) + window_ms / 10)
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


SCENARIO = Scenario(name="closed", link=LinkSpec(rate_mbps=1), flows=(FlowSpec(cca="gr"),), duration_s=30)


def epochs(count: int = 12) -> list[Case]:
    """Cases with their hardness in place of a limit."""
    return [
        Case(f"{i * 7919 % 1000:03d}-{i}", SCENARIO, (0,), "epoch", 3_000_000 + 400_000 * i, 0.8 + 0.05 * (i % 5))
        for i in range(count)
    ]


def objective(threshold: int = 1, *, margin_se: float = 0.0) -> DelayObjective:
    """The class of 25, 50 or 100 ms."""
    return DelayObjective(95, THRESHOLDS_US[threshold], margin_se=margin_se, edges_us=EDGES_US)
