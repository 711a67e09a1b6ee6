# SPDX-License-Identifier: MIT
"""What objectives work on: the counts of one run on one case, and the sums over the cases of a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from emulation.run.measures import Trial
from kmod.ensemble import DelayClass
from training.fields import StudyPart
from training.searches.search import Score

WIRE_PACKET_BYTES = 1500

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one run on one case.

    duration_s: the measured time; of a file transfer the time during which its connections had data to send.
    capacity_bytes: what the bottleneck could carry. delivered_bytes: what it carried, retransmissions included.
    goodput_bytes: payload that was new at the receiver. packets: over the bottleneck; sent_pkts, retransmitted_pkts: of
    all flows. delays: packets by queueing delay, in the engine's compact bins. is_limited: R-TCP takes the client for
    rate-limited at the end of the run. group: the case's. references: runs of other algorithms, with their default
    parameters, on the same case with the same random numbers, by algorithm.

    Of a predicted run, retransmitted_pkts is an expected value and is_limited a probability.
    """

    duration_s: float
    capacity_bytes: int
    delivered_bytes: int
    packets: int
    delays: NDArray[np.integer]
    goodput_bytes: int = 0
    sent_pkts: int = 0
    retransmitted_pkts: float = 0
    is_limited: float = False
    group: str = ""
    references: Mapping[str, Tally] = field(default_factory=dict)

    @property
    def goodput_bytes_per_s(self) -> float:
        """Goodput over the measured time."""
        return self.goodput_bytes / self.duration_s


class ClasslessSettings(StudyPart):
    """The settings of an objective without delay classes, and so with a single search for each group of states."""

    delay_classes: ClassVar[tuple[DelayClass, ...]] = ()
    has_boundary: ClassVar[bool] = False

    def ranges(self, delay_class: int) -> dict[str, tuple[int, int]]:
        """The study's ranges alone."""
        del delay_class
        return {}


class Objective(Protocol):
    """The requirement on a point, and the cost to minimise."""

    @property
    def references(self) -> Mapping[str, Trial]:
        """The algorithms, with their parameters, whose runs it compares with, by name."""

    @property
    def needs_detection(self) -> bool:
        """Parameters have an effect only after R-TCP has begun to look for a rate limiter."""

    @property
    def needs_delays(self) -> bool:
        """It scores the queueing delays of packets."""

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """The score of a point on its cases; with a rest, the best that it can still reach.

        Expects at least one tally in the pool.
        """

    def case_costs(self, tallies: Sequence[Tally]) -> Floats:
        """The cost of each case that has one, float [cases]; for comparing two points case by case."""

    def merit(self, score: Score) -> float:
        """The cost as a figure of which a larger one is better, above 0, so that ratios can be compared."""


@dataclass(frozen=True)
class Rest:
    """Cases that have not run, by the most that they can carry; groups: how many of each group."""

    cases: int = 0
    capacity_bytes: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)

    @property
    def packets(self) -> int:
        """At most; each case may finish a packet that began before it."""
        return self.capacity_bytes // WIRE_PACKET_BYTES + self.cases


@dataclass
class Pool:
    """The tallies of one point, summed as they arrive."""

    tallies: list[Tally] = field(default_factory=list)
    duration_s: float = 0.0
    capacity_bytes: int = 0
    delivered_bytes: int = 0
    goodput_bytes: int = 0
    packets: int = 0
    delays: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Pool:
        """All of them."""
        pool = cls()
        for tally in tallies:
            pool.add(tally)
        return pool

    def add(self, tally: Tally) -> None:
        """Add one more case."""
        if not self.tallies:
            self.delays = np.zeros(len(tally.delays), dtype=np.int64)
        self.tallies.append(tally)
        self.duration_s += tally.duration_s
        self.capacity_bytes += tally.capacity_bytes
        self.delivered_bytes += tally.delivered_bytes
        self.goodput_bytes += tally.goodput_bytes
        self.packets += tally.packets
        self.delays += tally.delays


def percentile_us(
    delays: NDArray[np.integer], edges_us: NDArray[np.float64], *, share: float, waitless: int = 0
) -> float:
    """Upper edge (us) of the bin that holds the `share` quantile; 0 without packets.

    waitless: further packets, not in `delays`, that did not wait.
    """
    total = int(delays.sum()) + waitless
    needed = math.ceil(share * total - 1e-9)
    if needed <= waitless:
        return 0.0
    reached = np.cumsum(delays, dtype=np.int64) + waitless
    return float(edges_us[int(np.searchsorted(reached, needed))])


def ratio_error(parts: Floats, wholes: Floats) -> float:
    """The standard error of sum(parts) / sum(wholes) over cases (Cochran 1977, section 2.11).

    0 of a single case, and without wholes.
    """
    k, total = len(wholes), wholes.sum()
    if k < 2 or not total:
        return 0.0
    residuals = parts - parts.sum() / total * wholes
    return float(math.sqrt(k / (k - 1) * (residuals @ residuals)) / total)
