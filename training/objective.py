# SPDX-License-Identifier: MIT
"""Most throughput, subject to a percentile of the queueing delay (PQSA, eq. 4 and 5); or the other way around.

For the epochs of a state, the class (rho, Q) and the aim a (1 unless a study
trains to less than the target, because epochs that were not seen do worse):

    S = packets within aQ, of all epochs / packets of all epochs; required: S - z s >= rho / 100

    excess = max(0, q / aQ - 1), q the percentile of the delay over all epochs together

s is the standard error of S over the epochs: w_i of n_i packets of epoch i are
within, and for a ratio of two sums over k epochs (Cochran 1977, section 2.11)

    s^2 = k / (k - 1)  sum_i (w_i - S n_i)^2 / (sum_i n_i)^2

so that z (`margin_se`) asks for a margin where epochs are few or differ, as others
will from these, and for hardly any where they are many and alike.

All of it is counted in bins of delay: a packet is within aQ when its bin ends at
or below aQ, and q is the upper edge of its bin. So neither ever flatters; with the
engine's bins (at most 6.3 % wide) 50, 100 and 200 ms are asked for as 49.6, 99.2
and 198.4 ms.

DEVIATION: eq. 4 requires the target of every epoch. One epoch with an outage
would then make a state infeasible, or its flows slow. Here it is required of the
packets of all the state's epochs together, which is what a user is promised.

The goal "delay" turns the two around: of the points whose goodput is at least a share of
a rival's on the same epochs (an algorithm with its defaults: another one, or
the same) the one with the least percentile q wins.

    excess = max(0, (share + z s) R / D - 1), D and R the goodput of the point and of the
             rival, s the standard error of D / R over the epochs, as above
    cost   = ln(1 + q / 1 ms), so that equal steps of a search are equal ratios of q

DEVIATION: q is the queueing delay of packets, not the smoothed RTT that a sender sees.
Behind one bottleneck the RTT is q and the path's own.

Bounds. Before all epochs ran, a point can at best fill the rest of the capacity
with packets that do not wait: both sides of the rank are computed with that (and with
a rival that delivers nothing there).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.search import Score

__all__ = ["Objective", "Pool", "Rest", "Tally", "percentile_us", "ratio_error"]

WIRE_PACKET_BYTES = 1500
LEAST_EXCESS = 1e-6

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tally:
    """What one run counted on one epoch; delays: packets by queueing delay, in the runner's bins.

    delivered_bytes: over the bottleneck, retransmissions with it; goodput_bytes: what was new at the receiver.
    rivals_bytes: the goodput of each algorithm that a goal compares with, by name.
    """

    duration_s: float
    capacity_bytes: int
    delivered_bytes: int
    packets: int
    delays: NDArray[np.uint32]
    goodput_bytes: int = 0
    rivals_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rest:
    """Epochs that have not run, by the most that they can carry."""

    epochs: int = 0
    capacity_bytes: int = 0

    @property
    def packets(self) -> int:
        """At most; each epoch may finish a packet that was begun before it."""
        return self.capacity_bytes // WIRE_PACKET_BYTES + self.epochs


@dataclass
class Pool:
    """The tallies of one point, summed as they come in."""

    tallies: list[Tally] = field(default_factory=list)
    duration_s: float = 0.0
    capacity_bytes: int = 0
    delivered_bytes: int = 0
    goodput_bytes: int = 0
    packets: int = 0
    delays: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Pool:
        """All of them."""
        pool = cls()
        for tally in tallies:
            pool.add(tally)
        return pool

    def add(self, tally: Tally) -> None:
        """Take in one more epoch."""
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


def ratio_error(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> float:
    """The standard error of sum(parts) / sum(wholes) over epochs; 0 of a single one, and without wholes."""
    k, total = len(wholes), wholes.sum()
    if k < 2 or not total:
        return 0.0
    residuals = parts - parts.sum() / total * wholes
    return float(math.sqrt(k / (k - 1) * (residuals @ residuals)) / total)


@dataclass(frozen=True)
class Objective:
    """One delay class as training sees it.

    percentile: rho. aim_us: aQ. edges_us: upper edges of the runner's delay bins, ascending.
    margin_se: z. goodput_share: of the rival's, of the goal "delay".
    rival: whose, a name in the tallies' rivals_bytes.
    """

    percentile: int
    aim_us: float
    edges_us: NDArray[np.float64]
    margin_se: float = 0.0
    goal: Literal["throughput", "delay"] = "throughput"
    goodput_share: float = 1.0
    rival: str = "bbr"

    @cached_property
    def bins_within(self) -> int:
        """How many bins end at or below the aim."""
        return int(np.searchsorted(self.edges_us, self.aim_us, side="right"))

    @property
    def share(self) -> float:
        """rho as a share."""
        return self.percentile / 100

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """The score of a point on its epochs; with a rest, the best that it can become.

        Expects at least one tally in the pool.
        """
        left = rest or Rest()
        if self.goal == "delay":
            return self._least_delay(pool, left)
        return self._score(pool, left, excess=self._pooled(pool, left))

    def _score(
        self, pool: Pool, left: Rest, *, excess: float, cost: float | None = None, rival_share: float | None = None
    ) -> Score:
        capacity = pool.capacity_bytes + left.capacity_bytes
        return Score(
            excess=excess,
            utilization=(pool.delivered_bytes + left.capacity_bytes) / max(capacity, 1),
            throughput_mbps=pool.delivered_bytes * 8e-6 / pool.duration_s,
            delay_ms=percentile_us(pool.delays, self.edges_us, share=self.share) / 1000,
            share_within=self._within(pool.delays) / max(pool.packets, 1),
            epochs=len(pool.tallies),
            complete=left.epochs == 0,
            cost=cost,
            rival_share=rival_share,
        )

    def _least_delay(self, pool: Pool, left: Rest) -> Score:
        goodput = pool.goodput_bytes + left.capacity_bytes
        by_rival = [t.rivals_bytes[self.rival] for t in pool.tallies]
        margin = 0.0
        if not left.epochs and self.margin_se:
            by_point = [t.goodput_bytes for t in pool.tallies]
            margin = self.margin_se * ratio_error(np.array(by_point, dtype=np.float64), np.array(by_rival, np.float64))
        excess = max((self.goodput_share + margin) * sum(by_rival) / max(goodput, 1) - 1.0, 0.0)
        least_us = percentile_us(pool.delays, self.edges_us, share=self.share, waitless=left.packets)
        rival_share = pool.goodput_bytes / max(sum(by_rival), 1)
        return self._score(pool, left, excess=excess, cost=math.log1p(least_us / 1000), rival_share=rival_share)

    def _pooled(self, pool: Pool, rest: Rest) -> float:
        margin = 0.0 if rest.epochs else self.margin_se * self._standard_error(pool.tallies)
        return self._excess(pool.packets, pool.delays, waitless=rest.packets, margin=margin)

    def _standard_error(self, tallies: Sequence[Tally]) -> float:
        """s; 0 of a single epoch, and without packets."""
        packets = np.array([t.packets for t in tallies], dtype=np.float64)
        return ratio_error(np.array([self._within(t.delays) for t in tallies], dtype=np.float64), packets)

    def _within(self, delays: NDArray[np.integer]) -> int:
        return int(delays[: self.bins_within].sum())

    def _excess(self, packets: int, delays: NDArray[np.integer], *, waitless: int = 0, margin: float = 0.0) -> float:
        # In integers without a margin: (within + waitless) / (packets + waitless) >= percentile / 100.
        asked = self.percentile + 100 * margin if margin else self.percentile
        if (self._within(delays) + waitless) * 100 >= asked * (packets + waitless):
            return 0.0
        q_us = percentile_us(delays, self.edges_us, share=min(asked / 100, 1.0), waitless=waitless)
        return max(q_us / self.aim_us - 1.0, LEAST_EXCESS)
