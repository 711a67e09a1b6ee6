# SPDX-License-Identifier: MIT
"""What a run gave. The same metrics, whatever ran it.

Throughput counts wire bytes over the bottleneck, goodput what arrived new and in
order. Queueing delay is a packet's, at the bottleneck, from its arrival there to
its departure, so without propagation. Percentiles come from histograms that can
be added up (`Delays`): never too low, too high by at most the width of a bin.

Every packet sent is received, dropped by one element of the path, or inside one:
each of `QoS.elements` counts entered = passed + dropped + inside, the first is
entered by all that is sent, and what one passed enters the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SERIES",
    "Delays",
    "ElementQoS",
    "ElementSeries",
    "EpochTurn",
    "FlowQoS",
    "LimitEstimate",
    "QoS",
    "TransferQoS",
    "Windows",
    "bandwidth_shares",
    "jain_index",
]

PERCENTILES = (50, 95, 99)

# What any runner's series holds: what stood at time_s, or (rates, retransmissions) happened since the point before.
# The simulator adds `mode`, the number of its algorithm's state, and `smoothed_rtt_ms` (RFC 6298).
SERIES = (
    "time_s",
    "flow",
    "capacity_mbps",
    "rate_mbps",
    "rtt_ms",
    "queue_pkts",
    "queueing_delay_ms",
    "cwnd_pkts",
    "pacing_mbps",
    "retransmitted_pkts",
)


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
class LimitEstimate:
    """What R-TCP takes a flow's rate limiter for, from at_ms on: B, and R in payload bytes a second.

    kind: limited, or cleared (it was none, or is no more; detection is over), or unknown (detection has begun: there is
    no B and R yet). Estimates that moved by more than a 256th follow each other.
    """

    at_ms: float
    kind: str
    bucket_bytes: int
    bytes_per_s: int


@dataclass(frozen=True)
class EpochTurn:
    """The end of a flow's epoch: what it had measured, and the state of the next (None: no table)."""

    at_ms: float
    measured_bytes_per_s: int
    epoch: int
    state: int | None
    kind: str


@dataclass(frozen=True)
class TransferQoS:
    """One data object: when its data were handed to the connection, and when all of it was acknowledged."""

    size_bytes: int
    start_s: float
    complete_s: float | None

    @property
    def duration_s(self) -> float | None:
        """From its start to its completion; None: the run ended before."""
        return None if self.complete_s is None else self.complete_s - self.start_s

    @property
    def goodput_mbps(self) -> float | None:
        """Its size over its duration; None: not complete."""
        return None if not self.duration_s else self.size_bytes * 8e-6 / self.duration_s

    def summary(self) -> dict[str, object]:
        """The figures as JSON data."""
        return {
            "size_bytes": self.size_bytes,
            "start_s": self.start_s,
            "complete_s": self.complete_s,
            "goodput_mbps": self.goodput_mbps,
        }


@dataclass(frozen=True, eq=False)
class ElementQoS:
    """What happened at one element of the path; packets of the whole run, delays of the measured time.

    dropped: by a full queue, a bucket, loss, or CoDel (codel_dropped of them). delay: how long it held what passed,
    without samples for elements that hold nothing.
    """

    name: str
    entered: int
    passed: int
    dropped: int
    codel_dropped: int
    inside: int
    delay: Delays

    def summary(self) -> dict[str, object]:
        """The figures as JSON data."""
        counts = {name: getattr(self, name) for name in ("entered", "passed", "dropped", "codel_dropped", "inside")}
        return {"name": self.name, **counts, "delay_ms": self.delay.summary_ms()}


@dataclass(frozen=True, eq=False)
class ElementSeries:
    """Samples of the elements, in the order of QoS.elements (m of them), n samples.

    dropped: uint64 [n, m], since the sample before; inside: uint64 [n, m].
    """

    time_s: NDArray[np.float64]
    dropped: NDArray[np.uint64]
    inside: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class FlowQoS:
    """One flow's part, in the measured time; turns, transfers, limits and completion are of the whole run.

    undone: episodes of losses (a recovery, or timeouts in a row) that proved spurious. complete_s: when all that it had
    to send was acknowledged. transfers: those that have begun; none where the application has no end. limits: when
    R-TCP began to look for a rate limiter, and what it found.
    """

    throughput_mbps: float
    goodput_mbps: float
    retransmission_rate: float
    timeouts: int
    undone: int
    complete_s: float | None
    rtt: Delays
    turns: tuple[EpochTurn, ...]
    transfers: tuple[TransferQoS, ...] = ()
    limits: tuple[LimitEstimate, ...] = ()

    def summary(self) -> dict[str, object]:
        """The figures as JSON data."""
        return {
            "throughput_mbps": self.throughput_mbps,
            "goodput_mbps": self.goodput_mbps,
            "retransmission_rate": self.retransmission_rate,
            "timeouts": self.timeouts,
            "rtt_ms": self.rtt.summary_ms(),
            "epochs": [
                {
                    "at_ms": turn.at_ms,
                    "measured_mbps": turn.measured_bytes_per_s * 8e-6,
                    "state": turn.state,
                    "kind": turn.kind,
                }
                for turn in self.turns
            ],
            "complete_s": self.complete_s,
            "transfers": [transfer.summary() for transfer in self.transfers],
            "limits": [
                {
                    "at_ms": limit.at_ms,
                    "kind": limit.kind,
                    "bucket_bytes": limit.bucket_bytes,
                    "mbps": limit.bytes_per_s * 8e-6,
                }
                for limit in self.limits
            ],
        }


@dataclass(frozen=True, eq=False)
class QoS:
    """A run's result; see the module's text for what counts.

    Of the whole run, warm-up included, are the packets sent, simulated_packets (that left
    the bottleneck), dropped (by its queue), queued (in it, at the end) and lost_at_random
    (by the link's own loss): without elements in front of the bottleneck
    sent = simulated + dropped + queued. elements holds a row for each element of the path
    in the order in which packets meet them, the bottleneck ("link") among them; acks is what
    ACKs met on their way back, None for plain propagation.

    series: columns of points over time, by the names of SERIES; a point a flow for each moment, in their order.
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
    elements: tuple[ElementQoS, ...] = ()
    element_series: ElementSeries | None = None
    acks: ElementQoS | None = None

    @property
    def fairness(self) -> float:
        """Jain's index over the flows' throughput, 1/n to 1."""
        return jain_index([flow.throughput_mbps for flow in self.flows])

    @property
    def bandwidth_shares(self) -> list[float]:
        """Each flow's part of all throughput; they add up to 1."""
        return bandwidth_shares([flow.throughput_mbps for flow in self.flows])

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
            "bandwidth_shares": self.bandwidth_shares,
            "flows": [flow.summary() for flow in self.flows],
            "elements": [element.summary() for element in self.elements],
            **({"acks": self.acks.summary()} if self.acks is not None else {}),
        }


def jain_index(shares: list[float]) -> float:
    """(sum x)^2 / (n sum x^2), Jain, Chiu, Hawe 1984; 1 when nobody got anything."""
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def bandwidth_shares(rates: list[float]) -> list[float]:
    """Each one's part of their sum; equal parts when nobody got anything."""
    total = sum(rates)
    return [rate / total if total else 1 / len(rates) for rate in rates]
