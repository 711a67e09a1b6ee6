# SPDX-License-Identifier: MIT
"""Rebuilds the bottleneck link of an observed flow: its capacity over time, where the flow shows it.

A flow shows the capacity of its bottleneck only while packets wait there. Let q_i = RTT_i - base RTT be the queueing
delay that row i shows. The packet of that sample waited for q_i, so the bottleneck was busy in

    (t_i - q_i, t_i]                               of the sender's time, in a capture or in samples of ACKs

The capacity there is what was delivered, in wire bytes, over the time. Everywhere else it is unknown, and what was
delivered is a lower bound. A log of samples has the smoothed RTT, once per row. There, the time between two rows is
known if both show a queue, and nothing but the network limited the sender.

    base RTT    least RTT within BASE_WINDOW_S before and after, so that a change of the route is followed
    queue       RTT above the base by more than NOISE_US, in which LEAST_QUEUED_PKTS were delivered: those ahead of the
                packet. A capture's RTT is the least one within `_floor_us`, because jitter and held ACKs lengthen
                single samples. The smoothed RTT of samples falls too late when a queue empties. There, so many packets
                more than rate x base RTT must be in flight
    outage      a packet that waited for an outage shows it: the capacity was 0. In samples, nothing was delivered
                between two rows with a queue while data was in flight
    bunches     what an ACK acknowledges is spread over the time since the previous ACK, at most over `_spread_us`
    gaps        an unknown time up to `bridge_s` between two known ones is bridged: the flow's own rate there, or the
                mean rate of the second before and after it, whichever is higher. Longer ones cut the link in pieces.
                A piece of which less than LEAST_KNOWN_SHARE is known is left out. On disturbed simulated paths, gaps of
                up to 0.5, 1, 2 and 4 s bring 67, 74, 74 and 72 % of the time into pieces, on which another algorithm's
                throughput is within 5 % of that on the true link in 93.5, 91.9, 92.3 and 90.5 % of the cases
    policer     a token bucket is no link. With `limit`, times in which the flow had no more than its rate are unknown

The times are those at which the sender learnt of a delivery. The bottleneck delivered earlier, by the way back, which
is taken for constant. Limits: docs/links.md states the bias of links that CUBIC or BBR made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from emulation.traces import OPPORTUNITY_BYTES, Recording, Trace
from emulation.traces.recording import find_gaps
from training.observed.flow import Flow, Limit

# The kernel's own minimum, which samples show where it falls, is that of 300 s.
BASE_WINDOW_S = {"capture": 30.0, "acks": 30.0, "ss": 300.0, "observe": 300.0}
NOISE_US = 2000.0
LEAST_QUEUED_PKTS = 3.0
RATE_WINDOW_US = 500_000.0
BRIDGE_S = 1.0
LEAST_PIECE_S = 5.0
LEAST_KNOWN_SHARE = 0.75
MATCHES_LIMIT = 1.1  # times the rate of a policer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class TokenBucket(Protocol):
    """What is known of a rate limit, in whole packets."""

    @property
    def rate_mbps(self) -> float:
        """R."""

    @property
    def burst_bytes(self) -> int:
        """B."""

    @property
    def rate_range_mbps(self) -> tuple[float, float] | None:
        """Rates that explain the losses nearly as well; None: unknown."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A stretch of a link whose capacity is known, but for short bridges.

    start_s: of the flow's time. trace: its opportunities. known_share: of its time, the rest is bridged.
    """

    start_s: float
    trace: Trace = field(repr=False)
    known_share: float

    @property
    def duration_s(self) -> float:
        """Its length."""
        return self.trace.duration_s

    def recording(self, dataset: str) -> Recording:
        """The piece as a recording, over which flows can run."""
        return Recording(self.trace.name, dataset, self.trace, find_gaps(self.trace), (self.trace.name,))


@dataclass(frozen=True, eq=False)
class RebuiltLink:
    """The bottleneck link of a flow.

    base_rtt_ms: least of the flow; 0 if unknown. edges_s: float [n + 1], of n spans of the flow's time, one between
    two rows. capacity_bytes: float [n], wire bytes that the link could carry in each span, or, where `known` (bool [n])
    is false, at least carried. pieces: stretches of at least LEAST_PIECE_S, in order. limit: a policer on the path.
    """

    name: str
    algorithm: str
    base_rtt_ms: float
    edges_s: Floats = field(repr=False)
    capacity_bytes: Floats = field(repr=False)
    known: Flags = field(repr=False)
    pieces: tuple[Piece, ...]
    limit: TokenBucket | None = None

    @property
    def known_s(self) -> float:
        """The time in which the capacity is known."""
        return float(np.diff(self.edges_s)[self.known].sum())

    @property
    def resolution_ms(self) -> float:
        """The typical time between two rows. Within it the rate is taken for constant."""
        return 1000 * float(np.median(np.diff(self.edges_s))) if len(self.edges_s) > 1 else 0.0

    @property
    def known_share(self) -> float:
        """The share of the flow's time in which the capacity is known; 0 for a flow of one row."""
        whole_s = float(self.edges_s[-1] - self.edges_s[0])
        return self.known_s / whole_s if whole_s > 0 else 0.0

    def rates_mbps(self, bounds_s: Floats) -> tuple[Floats, Floats]:
        """The mean capacity between these times, float [k] for k + 1 bounds, and the share of each that is known.

        The rate is that of the known part alone; NaN without one.
        """
        seconds = np.diff(self.edges_s) * self.known
        known_s = np.diff(_cumulated(self.edges_s, seconds, bounds_s))
        carried = np.diff(_cumulated(self.edges_s, self.capacity_bytes * self.known, bounds_s))
        rates = np.divide(carried * 8e-6, known_s, out=np.full_like(known_s, np.nan), where=known_s > 1e-9)
        return rates, known_s / np.diff(bounds_s)


def _cumulated(edges: Floats, amounts: Floats, at: Floats) -> Floats:
    """The sum of amounts, each spread evenly over its span, up to these times."""
    return np.asarray(np.interp(at, edges, np.append(0.0, np.cumsum(amounts))))


def wire_factor(mss_bytes: int) -> float:
    """Wire bytes for each byte of payload: full packets of 1500 bytes, or 52 bytes of headers on other payloads."""
    return 1500 / mss_bytes if 1400 <= mss_bytes <= 1460 else (mss_bytes + 52) / mss_bytes


def base_rtts_us(flow: Flow) -> Floats:
    """The base RTT at each row: the least sample within BASE_WINDOW_S before and after; NaN without any sample."""
    times_s, rtts_us = flow.steps["time_us"] / 1e6, _samples_us(flow)
    if not len(times_s) or np.isnan(rtts_us).all():
        return np.full(len(times_s), np.nan)
    seconds = (times_s - times_s[0]).astype(np.int64)
    least = np.full(int(seconds[-1]) + 1, np.inf)
    known = ~np.isnan(rtts_us)
    np.minimum.at(least, seconds[known], rtts_us[known])
    reach = int(BASE_WINDOW_S[flow.kind])
    padded = np.pad(least, reach, constant_values=np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).min(axis=1)
    windows[np.isinf(windows)] = least.min()
    return np.asarray(windows[seconds])


def _samples_us(flow: Flow) -> Floats:
    """RTTs of rows; NaN for those without."""
    rtts_us = flow.steps["rtt_us"].astype(np.float64)
    rtts_us[rtts_us == 0] = np.nan
    return rtts_us


def _spread_us(flow: Flow) -> float:
    """The longest time over which an ACK's data is spread: three times the typical gap, weighted by bytes."""
    gaps_us = np.diff(flow.steps["time_us"].astype(np.float64))
    gained = np.diff(flow.steps["delivered_bytes"].astype(np.float64))
    order = np.argsort(gaps_us)
    weights = np.cumsum(gained[order])
    if not len(weights) or weights[-1] == 0:
        return np.inf
    return 3 * float(gaps_us[order][np.searchsorted(weights, weights[-1] / 2)])


def queueing_delays_us(flow: Flow) -> Floats:
    """The queueing delay that each row shows: its RTT above the base; NaN without a sample.

    A capture: the least RTT of the rows within half of `_floor_us` before and after, so that jitter and held ACKs do
    not count. Noise of samples stays.
    """
    rtts_us = _samples_us(flow)
    if flow.has_each_ack:
        rtts_us = _floors(flow.steps["time_us"].astype(np.float64), rtts_us, _floor_us(flow) / 2)
    return np.maximum(rtts_us - base_rtts_us(flow), 0)


def _floor_us(flow: Flow) -> float:
    """25 ms, or two typical gaps between ACKs if that is longer, up to half a second."""
    return float(np.clip(_spread_us(flow) * 2 / 3, 25_000, 500_000))


def _floors(times_us: Floats, values: Floats, reach_us: float) -> Floats:
    """The least value within a reach before and after each row; NaN stays NaN."""
    rows = np.flatnonzero(~np.isnan(values))
    found = np.full_like(values, np.nan)
    first = np.searchsorted(times_us[rows], times_us[rows] - reach_us)
    end = np.searchsorted(times_us[rows], times_us[rows] + reach_us, side="right")
    # The least of any 2^k values in a row; two of these, which may overlap, cover a window.
    powers = np.log2(np.maximum(end - first, 1)).astype(np.int64)
    least = values[rows]
    for power in range(int(powers.max(initial=0)) + 1):
        its = np.flatnonzero(powers == power)
        found[rows[its]] = np.minimum(least[first[its]], least[end[its] - 2**power])
        least = np.minimum(least[: -(2**power)], least[2**power :]) if len(least) > 2**power else least
    return found


def delivered_pkts(flow: Flow, from_us: Floats, to_us: Floats) -> Floats:
    """The packets that were delivered between these times, by linear interpolation between rows."""
    times_us = flow.steps["time_us"].astype(np.float64)
    pkts = flow.steps["delivered_bytes"].astype(np.float64) / flow.mss_bytes
    return np.asarray(np.interp(to_us, times_us, pkts) - np.interp(from_us, times_us, pkts))


def queues_pkts(flow: Flow, delays_us: Floats) -> Floats:
    """The packets ahead of that of each row in the queue; NaN without an RTT. delays_us: of queueing_delays_us."""
    times_us = flow.steps["time_us"].astype(np.float64)
    found = delivered_pkts(flow, times_us - np.nan_to_num(delays_us), times_us)
    found[np.isnan(delays_us)] = np.nan
    return found


def _queued(flow: Flow, delays_us: Floats) -> Flags:
    """Whether the rows show a queue."""
    if flow.has_each_ack or "inflight_bytes" not in flow.has:
        pkts = queues_pkts(flow, delays_us)
    else:
        times_us = flow.steps["time_us"].astype(np.float64)
        around = delivered_pkts(flow, times_us - RATE_WINDOW_US / 2, times_us + RATE_WINDOW_US / 2)
        pkts = flow.steps["inflight_bytes"] / flow.mss_bytes - around * base_rtts_us(flow) / RATE_WINDOW_US
    with np.errstate(invalid="ignore"):
        return np.asarray((delays_us > NOISE_US) & (pkts >= LEAST_QUEUED_PKTS))


def backlogged(flow: Flow, *, limit: TokenBucket | None = None) -> Flags:
    """Whether packets waited at the bottleneck all the time between two rows: bool [rows - 1]."""
    steps = flow.steps
    times_us = steps["time_us"].astype(np.float64)
    delays_us = queueing_delays_us(flow)
    shows = np.flatnonzero(~np.isnan(delays_us))
    if not len(shows):
        return np.zeros(len(steps) - 1, np.bool_)
    queued = _queued(flow, delays_us)
    # Rows without a sample, which only report a loss, do not interrupt a queue.
    rows = np.arange(len(steps))
    before = shows[np.maximum(np.searchsorted(shows, rows, side="right") - 1, 0)]
    after = shows[np.minimum(np.searchsorted(shows, rows, side="left"), len(shows) - 1)]
    known = queued[before][:-1] & queued[after][1:] & np.isin(steps["limit"][1:], (Limit.NETWORK, Limit.UNKNOWN))
    if "inflight_bytes" in flow.has:
        known &= steps["inflight_bytes"][:-1] > 0
    if flow.has_each_ack:
        known &= np.diff(times_us) <= 2 * max(_spread_us(flow), RATE_WINDOW_US)
        # The packet of a sample waited for its delay, up to its ACK.
        since_us = np.where(queued, times_us - delays_us, np.inf)
        known |= np.minimum.accumulate(since_us[::-1])[::-1][1:] <= times_us[:-1]
    if limit is not None:
        pkts = delivered_pkts(flow, times_us - RATE_WINDOW_US / 2, times_us + RATE_WINDOW_US / 2)
        mbps = pkts * flow.mss_bytes * wire_factor(flow.mss_bytes) * 8 / RATE_WINDOW_US
        known &= mbps[1:] > MATCHES_LIMIT * limit.rate_mbps
    return np.asarray(known)


def rebuild(
    flow: Flow, *, limit: TokenBucket | None = None, bridge_s: float = BRIDGE_S, least_s: float = LEAST_PIECE_S
) -> RebuiltLink:
    """Rebuild the bottleneck link of a flow.

    limit: a policer that was found on the path. bridge_s: the longest unknown time within a piece, in s. least_s: the
    shortest piece, in s.
    """
    times_us = flow.steps["time_us"].astype(np.float64)
    carried = np.diff(flow.steps["delivered_bytes"].astype(np.float64)) * wire_factor(flow.mss_bytes)
    known = backlogged(flow, limit=limit)
    # A long wait for an ACK is a span of its own, in which nothing was delivered.
    late_us = times_us[1:] - _spread_us(flow)
    is_long = late_us > times_us[:-1]
    at = np.flatnonzero(is_long)
    edges_s = np.insert(times_us, at + 1, late_us[at]) / 1e6
    carried, known = np.insert(carried, at, 0.0), np.insert(known, at, known[at])
    bridged, rates = _bridged(edges_s, carried, known, bridge_s=bridge_s)
    capacity = np.where(bridged, np.maximum(carried, rates * np.diff(edges_s)), carried)
    return RebuiltLink(
        name=flow.name,
        algorithm=flow.algorithm,
        base_rtt_ms=flow.min_rtt_us / 1000,
        edges_s=edges_s,
        capacity_bytes=capacity,
        known=known,
        pieces=tuple(_pieces(flow.name, edges_s, capacity, known, known | bridged, least_s=least_s)),
        limit=limit,
    )


def _runs(flags: Flags) -> list[tuple[int, int]]:
    """(first, end) of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _bridged(edges_s: Floats, carried: Floats, known: Flags, *, bridge_s: float) -> tuple[Flags, Floats]:
    """Which unknown spans are bridged, and the rate of the known time around each of them, in bytes/s."""
    bridged, rates = np.zeros_like(known), np.zeros_like(carried)
    seconds = np.append(0.0, np.cumsum(np.diff(edges_s) * known))
    amounts = np.append(0.0, np.cumsum(carried * known))
    for first, end in _runs(~known):
        begin_s, end_s = edges_s[first], edges_s[end]
        if first == 0 or end == len(known) or end_s - begin_s > bridge_s:
            continue
        bounds_s = np.array([begin_s - 1, begin_s, end_s, end_s + 1])
        before_s, _, after_s = np.diff(np.interp(bounds_s, edges_s, seconds))
        before, _, after = np.diff(np.interp(bounds_s, edges_s, amounts))
        bridged[first:end] = True
        rates[first:end] = (before / before_s + after / after_s) / 2
    return bridged, rates


def _pieces(
    name: str, edges_s: Floats, capacity: Floats, known: Flags, inside: Flags, *, least_s: float
) -> Iterator[Piece]:
    """The pieces of a link: runs of known or bridged spans. A piece without an opportunity carries nothing."""
    for first, end in _runs(inside):
        start_s, seconds = edges_s[first], np.diff(edges_s[first : end + 1])
        carried = np.append(0.0, np.cumsum(capacity[first:end]))
        count = int(carried[-1] / OPPORTUNITY_BYTES + 1e-6)
        known_share = float((seconds * known[first:end]).sum() / seconds.sum())
        if seconds.sum() < least_s or not count or known_share < LEAST_KNOWN_SHARE:
            continue
        targets = np.arange(1, count + 1) * OPPORTUNITY_BYTES
        times_ms = np.interp(targets - 1e-3, carried, (edges_s[first : end + 1] - start_s) * 1000).astype(np.uint32)
        period_ms = max(round(float(seconds.sum()) * 1000), 1)
        trace = Trace(f"{name}[{start_s:.1f}:{edges_s[end]:.1f}]", times_ms, period_ms)
        yield Piece(float(start_s), trace, known_share)
