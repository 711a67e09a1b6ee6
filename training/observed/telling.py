# SPDX-License-Identifier: MIT
"""What an observed flow tells of its path and its ends.

Queueing delays are RTTs above the base RTT (links.py), so that jitter and held ACKs count. Their percentiles are
weighted by the bytes that each row delivered, as those of packets are. Let Q_i be the packets that were delivered
while the packet of row i waited, which were ahead of it in the queue, and Q the 99th percentile of all Q_i.

    full queue      a loss episode, its losses within one RTT of each other, before which Q_i came within FULL_SHARE of
                    Q, with at least LEAST_FULL_PKTS. buffer = the median of the largest Q_i of these episodes
    random          the losses of all other episodes, over the packets that were sent. Losses that a timeout declared
                    count as neither: many are needless
    policed         all losses of a flow with a rate limit, whose timeouts look like outages, which are not sought then
    ACK bunches     rows within BUNCH_US of each other while the flow is backlogged: elsewhere windows come in bunches,
                    too. ACKs are held if, weighted by bytes, the median bunch carries more than LEAST_BUNCH_PKTS,
                    follows LEAST_HELD_US without an ACK, and is shorter than that. None below LEAST_BUNCHES
    jitter          90th percentile of RTT - the least RTT of the rows around, less the time in which two packets are
                    delivered. None where ACKs are held, because these look alike. It contains how the rate of the
                    link varies within some ms. Links rebuilt from captures contain the same
    outage          nothing was delivered for longer than 2 (RTT + 200 ms), twice a retransmission timeout, while data
                    was in flight and the application was not the limit
    state           at the end of each EPOCH_S: V = what was delivered in the last 250 ms (PQSA, eq. 1), or in a log
                    between its last rows, and the least RTT so far, each with its level on the default axes of studies

A fact that the source does not hold is None. A log of samples has neither ACK gaps nor jitter, and its RTTs are
smoothed, so that short queues are missed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.traces import EPOCH_S
from training.observed.flow import Flow, Limit
from training.observed.links import (
    TokenBucket,
    backlogged,
    base_rtts_us,
    delivered_pkts,
    queueing_delays_us,
    queues_pkts,
    wire_factor,
)
from training.workloads.axes import LimitAxis, RttAxis, ThroughputAxis

PERCENTILES = (50, 95, 99)
FULL_SHARE = 0.7
LEAST_FULL_PKTS = 8.0
BUNCH_US = 1000.0
LEAST_BUNCH_PKTS = 4.0
LEAST_HELD_US = 2000.0
LEAST_BUNCHES = 20
LEAST_KNOWN = 0.1
MIN_RTO_US = 200_000.0
ESTIMATE_S = 0.25
BYTES_PER_S = 125_000  # of one Mbit/s

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outage:
    """Nothing was delivered from at_s of the flow's time on."""

    at_s: float
    duration_s: float


@dataclass(frozen=True)
class State:
    """The network state in which the epoch after at_s begins. limit_level: None without a limit."""

    at_s: float
    throughput_bytes_per_s: int
    throughput_level: int
    min_rtt_us: int
    min_rtt_level: int
    limit_level: int | None


@dataclass(frozen=True)
class FlowFacts:
    """Facts about a flow; None: its source cannot tell.

    throughput_mbps: of payload. queueing_delay_ms, ack_gap_ms, ack_bytes: percentiles by name, such as p95, weighted by
    bytes. sent_pkts: those delivered and lost. random_loss, policed_loss, full_queue_loss: shares of them.
    buffer_pkts: where losses of a full queue began; None: the queue never overflowed. largest_queue_pkts: 99th
    percentile. ack_interval_ms: 0 if ACKs are not held. limited: share of the time by what limited the sender.
    """

    flow: str
    source: str
    kind: str
    algorithm: str
    duration_s: float
    throughput_mbps: float
    base_rtt_ms: float | None
    queueing_delay_ms: dict[str, float] | None
    largest_queue_pkts: int | None
    buffer_pkts: int | None
    sent_pkts: int
    random_loss: float | None
    policed_loss: float | None
    full_queue_loss: float | None
    ack_gap_ms: dict[str, float] | None
    ack_bytes: dict[str, float] | None
    ack_interval_ms: float | None
    jitter_ms: float | None
    outages: tuple[Outage, ...] | None
    limited: dict[str, float] | None
    states: tuple[State, ...]

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON data."""
        return asdict(self)


def facts_of(flow: Flow, *, limit: TokenBucket | None = None) -> FlowFacts:
    """What a flow tells. limit: a rate limit that was found on its path."""
    gained = np.diff(flow.steps["delivered_bytes"].astype(np.float64), prepend=flow.steps["delivered_bytes"][0])
    delays_us = _delays_us(flow)
    floors_us = queueing_delays_us(flow)
    queues = queues_pkts(flow, floors_us)
    others, full, buffer_pkts = _losses(flow, queues)
    policed = others + full if limit is not None else 0.0
    if limit is not None:
        others, full, buffer_pkts = 0.0, 0.0, None
    sent = float(gained.sum()) / flow.mss_bytes + _gained(flow.steps["lost_pkts"])
    gaps = _Gaps.of(flow, backlogged(flow, limit=limit))
    interval_ms = None if gaps is None else gaps.interval_ms(flow.mss_bytes)
    knows_losses, knows_queue = "lost_pkts" in flow.has, not np.isnan(queues).all()
    return FlowFacts(
        flow=flow.name,
        source=flow.source,
        kind=flow.kind,
        algorithm=flow.algorithm,
        duration_s=flow.duration_s,
        throughput_mbps=float(gained.sum()) * 8e-6 / flow.duration_s if flow.duration_s else 0.0,
        base_rtt_ms=flow.min_rtt_us / 1000 or None,
        queueing_delay_ms=_percentiles(delays_us / 1000, gained),
        largest_queue_pkts=round(float(np.nanpercentile(queues, 99))) if knows_queue else None,
        buffer_pkts=buffer_pkts if knows_losses else None,
        sent_pkts=round(sent),
        random_loss=others / max(sent, 1) if knows_losses and knows_queue else None,
        policed_loss=policed / max(sent, 1) if knows_losses and knows_queue else None,
        full_queue_loss=full / max(sent, 1) if knows_losses and knows_queue else None,
        ack_gap_ms=None if gaps is None else _percentiles(gaps.gaps_us / 1000, gaps.bytes),
        ack_bytes=None if gaps is None else _percentiles(gaps.bytes, gaps.bytes),
        ack_interval_ms=interval_ms,
        jitter_ms=_jitter_ms(flow, delays_us - floors_us, gained) if interval_ms == 0 else None,
        outages=_outages(flow) if "inflight_bytes" in flow.has and limit is None else None,
        limited=_limited(flow) if "limit" in flow.has else None,
        states=tuple(_states(flow, limit)),
    )


def _gained(counter: NDArray[np.uint64]) -> float:
    return float(int(counter[-1]) - int(counter[0]))


def _percentiles(values: Floats, weights: Floats) -> dict[str, float] | None:
    """Weighted percentiles of the values that are not NaN; None without any weight."""
    found = [_weighted(values, weights, share / 100) for share in PERCENTILES]
    return None if math.isnan(found[0]) else {f"p{p}": value for p, value in zip(PERCENTILES, found, strict=True)}


def _weighted(values: Floats, weights: Floats, share: float) -> float:
    """The least value up to which this share of the weight lies; NaN without any weight."""
    known = ~np.isnan(values) & (weights > 0)
    order = np.argsort(values[known])
    total = np.cumsum(weights[known][order])
    if not len(total):
        return math.nan
    return float(values[known][order][np.searchsorted(total, share * total[-1] - 1e-9)])


def _delays_us(flow: Flow) -> Floats:
    """The RTT of each row above the base; NaN without a sample."""
    rtts_us = flow.steps["rtt_us"].astype(np.float64)
    rtts_us[rtts_us == 0] = np.nan
    return np.asarray(rtts_us - base_rtts_us(flow))


def _losses(flow: Flow, queues: Floats) -> tuple[float, float, int | None]:
    """The packets that were lost without and with a full queue, and the buffer."""
    rows = np.flatnonzero(np.diff(flow.steps["lost_pkts"].astype(np.int64), prepend=flow.steps["lost_pkts"][0]) > 0)
    lost = np.diff(flow.steps["lost_pkts"].astype(np.int64), prepend=flow.steps["lost_pkts"][0])
    if not len(rows) or np.isnan(queues).all():
        return float(lost.sum()), 0.0, None
    times_us = flow.steps["time_us"].astype(np.float64)
    rtts_us = _filled(flow.steps["rtt_us"].astype(np.float64))
    delivers = np.diff(flow.steps["delivered_bytes"].astype(np.int64), prepend=-1) > 0
    delivered_us = np.maximum.accumulate(np.where(delivers, times_us, 0.0))
    largest = float(np.nanpercentile(queues, 99))
    others, full, buffers = 0.0, 0.0, []
    starts = np.flatnonzero(np.diff(times_us[rows], prepend=-np.inf) > rtts_us[rows])
    for first, end in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        row, number = rows[first], float(lost[rows[first:end]].sum())
        if times_us[row] - delivered_us[row] > MIN_RTO_US:
            continue
        # The rows of the RTT before, and the row before these: in samples there may be no other.
        since = max(int(np.searchsorted(times_us, times_us[row] - rtts_us[row])) - 1, 0)
        around = queues[since : row + 1]
        queue = float(np.nanmax(around)) if not np.isnan(around).all() else 0.0
        if queue >= max(FULL_SHARE * largest, LEAST_FULL_PKTS):
            full += number
            buffers.append(queue)
        else:
            others += number
    return others, full, round(float(np.median(buffers))) if buffers else None


def _filled(rtts_us: Floats) -> Floats:
    """RTTs where rows without one have that of the row before."""
    known = np.flatnonzero(rtts_us > 0)
    if not len(known):
        return np.full_like(rtts_us, MIN_RTO_US)
    return np.asarray(rtts_us[known[np.maximum(np.searchsorted(known, np.arange(len(rtts_us)), side="right") - 1, 0)]])


@dataclass(frozen=True, eq=False)
class _Gaps:
    """ACKs that delivered something: us since the one before, and bytes, float [n] each. times_us: float [n + 1]."""

    times_us: Floats
    gaps_us: Floats
    bytes: Floats
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, flow: Flow, known: NDArray[np.bool_]) -> _Gaps | None:
        """The ACKs of a capture; None for other sources. known: of `backlogged`."""
        delivered = flow.steps["delivered_bytes"].astype(np.int64)
        rows = np.flatnonzero(np.diff(delivered, prepend=delivered[0]) > 0)
        if not flow.has_each_ack or len(rows) < 2:
            return None
        times_us = flow.steps["time_us"][rows].astype(np.float64)
        return cls(times_us, np.diff(times_us), np.diff(delivered[rows]).astype(np.float64), known[rows[1:] - 1])

    def interval_ms(self, mss_bytes: int) -> float | None:
        """The time between bunches if ACKs are held, else 0; None if it is unknown."""
        firsts = np.flatnonzero(self.gaps_us > BUNCH_US)
        if self.known.mean() < LEAST_KNOWN:
            return None
        if len(firsts) <= LEAST_BUNCHES:
            return 0.0
        carried = np.add.reduceat(self.bytes, firsts)[:-1] * self.known[firsts][1:]
        apart_us = np.diff(self.times_us[firsts + 1])
        held_us = self.gaps_us[firsts][1:]
        size = _weighted(carried, carried, 0.5)
        interval_us, silence_us = (_weighted(values, carried, 0.5) for values in (apart_us, held_us))
        is_held = size > LEAST_BUNCH_PKTS * mss_bytes and silence_us > max(LEAST_HELD_US, interval_us / 2)
        return interval_us / 1000 if is_held else 0.0


def _jitter_ms(flow: Flow, above_us: Floats, gained: Floats) -> float | None:
    pkts_us = np.diff(flow.steps["time_us"].astype(np.float64), prepend=np.nan) * flow.mss_bytes
    per_pkt_us = _weighted(np.divide(pkts_us, gained, out=np.full_like(gained, np.nan), where=gained > 0), gained, 0.5)
    found = _weighted(above_us, gained, 0.9)
    return None if math.isnan(found) else max(found - 2 * per_pkt_us, 0.0) / 1000


def _outages(flow: Flow) -> tuple[Outage, ...]:
    steps = flow.steps
    rows = np.flatnonzero(np.diff(steps["delivered_bytes"].astype(np.int64), prepend=-1) > 0)
    times_us = steps["time_us"].astype(np.float64)
    most_us = 2 * (_filled(steps["rtt_us"].astype(np.float64)) + MIN_RTO_US)
    found = []
    for at in np.flatnonzero(np.diff(times_us[rows]) > most_us[rows[:-1]]).tolist():
        row, after = int(rows[at]), int(rows[at + 1])
        by_application = (steps["limit"][row + 1 : after + 1] == Limit.APPLICATION).any()
        if steps["inflight_bytes"][row:after].min() > 0 and not by_application:
            found.append(Outage(float(times_us[row]) / 1e6, float(times_us[after] - times_us[row]) / 1e6))
    return tuple(found)


def _limited(flow: Flow) -> dict[str, float]:
    """The share of the time by limit: a row's limit is that of the time since the row before."""
    seconds = np.diff(flow.steps["time_us"].astype(np.float64))
    total = float(seconds.sum())
    return {
        limit.name.lower(): float(seconds[flow.steps["limit"][1:] == limit].sum()) / total if total else 0.0
        for limit in Limit
    }


def _states(flow: Flow, limit: TokenBucket | None) -> Sequence[State]:
    times_s = flow.steps["time_us"].astype(np.float64) / 1e6
    throughput, rtt = ThroughputAxis().axis("throughput"), RttAxis().axis("min_rtt")
    limits = LimitAxis().axis("limit")
    limit_bytes_per_s = None if limit is None else int(limit.rate_mbps * BYTES_PER_S / wire_factor(flow.mss_bytes))
    known = np.where(flow.steps["rtt_us"] > 0, flow.steps["rtt_us"], np.uint32(2**32 - 1))
    least_us = np.minimum.accumulate(known)
    found = []
    for end_s in np.arange(times_s[0] + EPOCH_S, times_s[-1] + 1e-9, EPOCH_S):
        row = int(np.searchsorted(times_s, end_s, side="right")) - 1
        since_s = min(end_s - ESTIMATE_S, times_s[max(row - 1, 0)])
        pkts = float(delivered_pkts(flow, np.array([since_s * 1e6]), np.array([end_s * 1e6]))[0])
        rate = int(pkts * flow.mss_bytes / (end_s - since_s))
        if rate and least_us[row] < 2**32 - 1:
            by_limit = None if limit_bytes_per_s is None else limits.level(limit_bytes_per_s)
            found.append(State(float(end_s), rate, throughput.level(rate), int(least_us[row]),
                               rtt.level(int(least_us[row])), by_limit))  # fmt: skip
    return found
