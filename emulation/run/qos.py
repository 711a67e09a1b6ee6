# SPDX-License-Identifier: MIT
"""The result of a run (QoS). The metrics are the same for every runner.

Throughput counts wire bytes over the bottleneck. Goodput counts payload that
arrived new and in order. The queueing delay of a packet is the time from its
arrival at the bottleneck to its departure, without propagation. Percentiles are
computed from histograms that can be added (`Delays`). They are never too low, and
too high by at most the width of a bin.

In the simulator, every sent packet is received, dropped by an element of the
path, or inside an element. For each of `QoS.elements`, entered = passed + dropped
+ inside. All sent packets enter the first element, and all packets that an
element passed enter the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (50, 95, 99)

# The columns that the series of every runner has.
# Rates and retransmissions are for the time since the previous point, other columns are values at time_s.
# The simulator also has `mode`, the number of the algorithm's mode, and `smoothed_rtt_ms` (RFC 6298).
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


def fields_of(value: object, *names: str) -> dict[str, object]:
    """Return the fields and properties of these names as JSON data."""
    return {name: getattr(value, name) for name in names}


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
        """Return the upper edge, in ms, of the bin with this percentile (0 to 100); 0 without samples."""
        cumulated = np.cumsum(self.counts, dtype=np.int64)
        if not len(cumulated) or cumulated[-1] == 0:
            return 0.0
        index = int(np.searchsorted(cumulated, percentile / 100 * cumulated[-1] - 1e-9))
        return float(self.edges_us[min(index, len(self.edges_us) - 1)]) / 1000

    def share_within(self, delay_us: float) -> float:
        """Return the share of samples in bins that end at or below delay_us; 1 without samples."""
        bins = int(np.searchsorted(self.edges_us, delay_us, side="right"))
        return float(self.counts[:bins].sum()) / self.total if self.total else 1.0

    def __add__(self, other: Delays) -> Delays:
        return Delays(self.edges_us, self.counts.astype(np.int64) + other.counts)

    def summary_ms(self) -> dict[str, float]:
        """Return the percentiles p50, p95 and p99, in ms."""
        return {f"p{p}": self.percentile_ms(p) for p in PERCENTILES}


@dataclass(frozen=True, eq=False)
class Windows:
    """Results for each of n windows of time. delay_counts is uint32 [n, n_bins], the other columns have shape [n]."""

    start_ms: NDArray[np.int64]
    capacity_bytes: NDArray[np.uint64]
    delivered_bytes: NDArray[np.uint64]
    packets: NDArray[np.uint64]
    delay_counts: NDArray[np.uint32] = field(repr=False)
    edges_us: NDArray[np.float64] = field(repr=False)

    def delays(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp] = slice(None)) -> Delays:
        """Return the sum of the delay distributions of the chosen windows."""
        return Delays(self.edges_us, self.delay_counts[chosen].sum(axis=0, dtype=np.int64))


@dataclass(frozen=True)
class LimitEstimate:
    """R-TCP's estimate of the rate limiter of a flow, from at_ms on: B in bytes, R in payload bytes per second.

    kind:
        unknown    detection has begun, there are no B and R yet
        limited    a limiter was found
        cleared    there is no limiter, or none any more; detection is over
        split      the client's flows pass several limiters; nothing is shared

    An estimate that changes by more than 1/256 is reported as a new one.
    """

    at_ms: float
    kind: str
    bucket_bytes: int
    bytes_per_s: int


@dataclass(frozen=True)
class EpochEnd:
    """The end of a flow's epoch: the rate that it measured, and the state of the next epoch (None: no table)."""

    at_ms: float
    measured_bytes_per_s: int
    epoch: int
    state: int | None
    kind: str


@dataclass(frozen=True)
class TransferQoS:
    """A data object: when its data were passed to the connection, and when all of it was acknowledged."""

    size_bytes: int
    start_s: float
    complete_s: float | None

    @property
    def duration_s(self) -> float | None:
        """The time from its start to its completion; None if the run ended before."""
        return None if self.complete_s is None else self.complete_s - self.start_s

    @property
    def goodput_mbps(self) -> float | None:
        """Its size over its duration; None if it is not complete."""
        return None if not self.duration_s else self.size_bytes * 8e-6 / self.duration_s

    def summary(self) -> dict[str, object]:
        """Return the figures as JSON data."""
        return fields_of(self, "size_bytes", "start_s", "complete_s", "goodput_mbps")


@dataclass(frozen=True, eq=False)
class ElementQoS:
    """The result of one element of the path: packets of the whole run, delays of the measured time.

    dropped: packets dropped by a full queue, a token bucket, random loss or CoDel. codel_dropped: those that CoDel
    dropped. delay: how long the element held the packets that passed. Elements that hold no packets have no samples.
    """

    name: str
    entered: int
    passed: int
    dropped: int
    codel_dropped: int
    inside: int
    delay: Delays = field(repr=False)

    def summary(self) -> dict[str, object]:
        """Return the figures as JSON data."""
        counts = fields_of(self, "name", "entered", "passed", "dropped", "codel_dropped", "inside")
        return {**counts, "delay_ms": self.delay.summary_ms()}


@dataclass(frozen=True, eq=False)
class ElementSeries:
    """Series of n samples for the m elements of QoS.elements, in their order.

    dropped: packets dropped since the previous sample, uint64 [n, m]. inside: packets inside, uint64 [n, m].
    """

    time_s: NDArray[np.float64]
    dropped: NDArray[np.uint64]
    inside: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class FlowQoS:
    """The result of one flow in the measured time. epoch_ends, transfers, limits and complete_s are for the whole run.

    undone: loss episodes (a recovery, or consecutive timeouts) that proved spurious and were undone.
    complete_s: when all its data was acknowledged; None if it was not.
    epoch_ends: the ends of its epochs.
    transfers: the transfers that have begun; none if the application has no end.
    limits: when R-TCP began to look for a rate limiter, and its estimates.
    """

    throughput_mbps: float
    goodput_mbps: float
    retransmission_rate: float
    timeouts: int
    undone: int
    complete_s: float | None
    rtt: Delays = field(repr=False)
    epoch_ends: tuple[EpochEnd, ...] = field(repr=False)
    transfers: tuple[TransferQoS, ...] = field(default=(), repr=False)
    limits: tuple[LimitEstimate, ...] = field(default=(), repr=False)

    def summary(self) -> dict[str, object]:
        """Return the figures as JSON data."""
        return {
            **fields_of(self, "throughput_mbps", "goodput_mbps", "retransmission_rate", "timeouts"),
            "rtt_ms": self.rtt.summary_ms(),
            "epochs": [
                {**fields_of(end, "at_ms", "state", "kind"), "measured_mbps": end.measured_bytes_per_s * 8e-6}
                for end in self.epoch_ends
            ],
            "complete_s": self.complete_s,
            "transfers": [transfer.summary() for transfer in self.transfers],
            "limits": [
                {**fields_of(limit, "at_ms", "kind", "bucket_bytes"), "mbps": limit.bytes_per_s * 8e-6}
                for limit in self.limits
            ],
        }


@dataclass(frozen=True, eq=False)
class QoS:
    """The result of a run. The module's docstring defines the metrics.

    These packet counts are for the whole run, including the warm-up. Without elements before the
    bottleneck, sent = simulated_packets + dropped + queued.

        sent                 packets that the senders sent
        simulated_packets    packets that left the bottleneck
        dropped              packets that its queue dropped
        queued               packets in its queue at the end
        lost_at_random       packets lost by the link's own random loss

    The other metrics are for the measured time.

    elements: a row for each element of the path, including the bottleneck ("link"), in the order in which packets
    meet them. acks: the element that the ACKs pass on their way back; None if that is only propagation delay.
    series: columns of points over time, by the names of SERIES. Each time has a point for each flow, in their order.
    servers: of a scenario with a proxy, the connections from the servers to it. buffered_bytes: the data of all flows
    that the proxy holds, at each time of the series, uint64 [n].
    """

    scenario: str
    throughput_mbps: float
    goodput_mbps: float
    capacity_mbps: float
    utilization: float
    queueing_delay: Delays = field(repr=False)
    mean_queueing_delay_ms: float
    retransmission_rate: float
    packets: int
    simulated_packets: int
    sent: int
    queued: int
    dropped: int
    lost_at_random: int
    flows: tuple[FlowQoS, ...]
    windows: Windows = field(repr=False)
    series: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    elements: tuple[ElementQoS, ...] = field(default=(), repr=False)
    element_series: ElementSeries | None = field(default=None, repr=False)
    acks: ElementQoS | None = field(default=None, repr=False)
    servers: QoS | None = field(default=None, repr=False)
    buffered_bytes: NDArray[np.uint64] | None = field(default=None, repr=False)

    @property
    def fairness(self) -> float:
        """Jain's index of the flows' throughputs, from 1/n to 1."""
        return jain_index([flow.throughput_mbps for flow in self.flows])

    @property
    def bandwidth_shares(self) -> list[float]:
        """The share of each flow in the total throughput. The shares add up to 1."""
        return bandwidth_shares([flow.throughput_mbps for flow in self.flows])

    def summary(self) -> dict[str, object]:
        """Return the figures as JSON data."""
        rtt = self.flows[0].rtt
        for flow in self.flows[1:]:
            rtt = rtt + flow.rtt
        return {
            **fields_of(self, "scenario", "throughput_mbps", "goodput_mbps", "capacity_mbps", "utilization"),
            "queueing_delay_ms": {**self.queueing_delay.summary_ms(), "mean": self.mean_queueing_delay_ms},
            "rtt_ms": rtt.summary_ms(),
            **fields_of(self, "retransmission_rate", "packets", "dropped", "lost_at_random"),
            **fields_of(self, "fairness", "bandwidth_shares"),
            "flows": [flow.summary() for flow in self.flows],
            "elements": [element.summary() for element in self.elements],
            **({"acks": self.acks.summary()} if self.acks is not None else {}),
            **({"servers": self.servers.summary()} if self.servers is not None else {}),
            **({"buffered_bytes": self.buffered_summary()} if self.buffered_bytes is not None else {}),
        }

    def buffered_summary(self) -> dict[str, int]:
        """Return the median, the 95th percentile and the maximum of the data that the proxy holds, in bytes."""
        held = np.zeros(1) if self.buffered_bytes is None or not len(self.buffered_bytes) else self.buffered_bytes
        return {name: round(float(np.percentile(held, at))) for name, at in (("p50", 50), ("p95", 95), ("max", 100))}


def jain_index(shares: list[float]) -> float:
    """Return Jain's fairness index (sum x)^2 / (n sum x^2), Jain, Chiu, Hawe 1984; 1 if all shares are 0."""
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def bandwidth_shares(rates: list[float]) -> list[float]:
    """Return the share of each rate in their sum; equal shares if all rates are 0."""
    total = sum(rates)
    return [rate / total if total else 1 / len(rates) for rate in rates]
