# SPDX-License-Identifier: MIT
"""What a run gave. The same metrics, whatever ran it.

Throughput counts wire bytes over the bottleneck, goodput what arrived new and in
order. Queueing delay is a packet's, at the bottleneck, from its arrival there to
its departure, so without propagation. Percentiles come from histograms that can
be added up (`Delays`): never too low, too high by at most the width of a bin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Delays", "EpochTurn", "FlowQoS", "QoS", "Windows", "jain_index"]

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, eq=False)
class Delays:
    """A distribution of delays: counts uint [n_bins] in bins that end at edges_us float [n_bins]."""

    edges_us: NDArray[np.float64]
    counts: NDArray[np.integer]

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    def percentile_ms(self, percentile: float) -> float:
        """The smallest edge that holds this percentile (0 to 100); 0 without samples."""
        cumulated = np.cumsum(self.counts, dtype=np.int64)
        if not len(cumulated) or cumulated[-1] == 0:
            return 0.0
        index = int(np.searchsorted(cumulated, percentile / 100 * cumulated[-1] - 1e-9))
        return float(self.edges_us[min(index, len(self.edges_us) - 1)]) / 1000

    def share_within(self, delay_us: float) -> float:
        """Share of samples in bins that end at or below delay_us; 1 without samples."""
        bins = int(np.searchsorted(self.edges_us, delay_us, side="right"))
        return float(self.counts[:bins].sum()) / self.total if self.total else 1.0

    def __add__(self, other: Delays) -> Delays:
        return Delays(self.edges_us, self.counts.astype(np.int64) + other.counts)

    def summary_ms(self) -> dict[str, float]:
        """p50, p95 and p99."""
        return {f"p{p}": self.percentile_ms(p) for p in PERCENTILES}


@dataclass(frozen=True, eq=False)
class Windows:
    """Accounting by windows of time, n of them; delays are counts uint32 [n, n_bins]."""

    start_ms: NDArray[np.int64]
    capacity_bytes: NDArray[np.uint64]
    delivered_bytes: NDArray[np.uint64]
    packets: NDArray[np.uint64]
    delay_counts: NDArray[np.uint32]
    edges_us: NDArray[np.float64]

    def delays(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp] = slice(None)) -> Delays:
        """The delays of these windows together."""
        return Delays(self.edges_us, self.delay_counts[chosen].sum(axis=0, dtype=np.int64))


@dataclass(frozen=True)
class EpochTurn:
    """The end of a flow's epoch: what it had measured, and the state of the next (None: no table)."""

    at_ms: float
    measured_bytes_per_s: int
    epoch: int
    state: int | None
    kind: str


@dataclass(frozen=True, eq=False)
class FlowQoS:
    """One flow's part, in the measured time; turns and completion are of the whole run.

    undone: episodes of losses (a recovery, or timeouts in a row) that proved spurious.
    complete_s: when all of its size was acknowledged.
    """

    throughput_mbps: float
    goodput_mbps: float
    retransmission_rate: float
    timeouts: int
    undone: int
    complete_s: float | None
    rtt: Delays
    turns: tuple[EpochTurn, ...]


@dataclass(frozen=True, eq=False)
class QoS:
    """A run's result; see the module's text for what counts.

    Of the whole run, warm-up included, are the packets sent, simulated_packets (that left
    the bottleneck), dropped (by the full queue), queued (at the end) and lost_at_random
    (behind the bottleneck): sent = simulated + dropped + queued.
    """

    scenario: str
    throughput_mbps: float
    goodput_mbps: float
    capacity_mbps: float
    utilization: float
    queueing_delay: Delays
    mean_queueing_delay_ms: float
    retransmission_rate: float
    packets: int
    simulated_packets: int
    sent: int
    queued: int
    dropped: int
    lost_at_random: int
    flows: tuple[FlowQoS, ...]
    windows: Windows
    series: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def fairness(self) -> float:
        """Jain's index over the flows' throughput, 1/n to 1."""
        return jain_index([flow.throughput_mbps for flow in self.flows])

    def summary(self) -> dict[str, object]:
        """The figures as JSON data."""
        rtt = self.flows[0].rtt
        for flow in self.flows[1:]:
            rtt = rtt + flow.rtt
        return {
            "scenario": self.scenario,
            "throughput_mbps": self.throughput_mbps,
            "goodput_mbps": self.goodput_mbps,
            "capacity_mbps": self.capacity_mbps,
            "utilization": self.utilization,
            "queueing_delay_ms": {**self.queueing_delay.summary_ms(), "mean": self.mean_queueing_delay_ms},
            "rtt_ms": rtt.summary_ms(),
            "retransmission_rate": self.retransmission_rate,
            "packets": self.packets,
            "dropped": self.dropped,
            "lost_at_random": self.lost_at_random,
            "fairness": self.fairness,
            "flows": [
                {
                    "throughput_mbps": flow.throughput_mbps,
                    "goodput_mbps": flow.goodput_mbps,
                    "retransmission_rate": flow.retransmission_rate,
                    "timeouts": flow.timeouts,
                    "rtt_ms": flow.rtt.summary_ms(),
                    "epochs": [
                        {
                            "at_ms": turn.at_ms,
                            "measured_mbps": turn.measured_bytes_per_s * 8e-6,
                            "state": turn.state,
                            "kind": turn.kind,
                        }
                        for turn in flow.turns
                    ],
                }
                for flow in self.flows
            ],
        }


def jain_index(shares: list[float]) -> float:
    """(sum x)^2 / (n sum x^2), Jain, Chiu, Hawe 1984; 1 when nobody got anything."""
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
