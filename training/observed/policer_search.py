# SPDX-License-Identifier: MIT
"""Searches the policer {R, B} that explains best which packets of a client were lost.

The engine compares policers with the packets (emulation/cpp/path/policer_replay.hpp). This module gives it the packets
of all flows in order, and searches a grid of rates and buckets: first a wide one, then a fine one near its best pair.
A capture at the sender shows bursts as the network card takes them. On a line of the wrong rate they would fit a
policer of a higher rate, so that the line is searched, too.

Rates are bytes/s and buckets bytes, of IP packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from training.observed.flow import Flow

BEST_NATS, SAME_NATS = 1.0, 5.0  # rates that explain the losses as well, and nearly as well
RESOLUTIONS_BYTES = (600.0, 1500.0, 4000.0)  # of an exact path, and of others with jitter
LINES_MBPS = (1e6, 1000.0, 300.0, 100.0, 30.0)  # between the capture and the policer

_LEAST_BUCKET_BYTES, _BUCKET_STEP, _RATE_STEP = 3000.0, 1.6, 1.04
_BELOW, _ABOVE = 2.0, 2.5  # how far the search goes beyond the rates where it begins
_NEAR_LEAST = (0.97, 1.0, 1.03)
_SEARCHES = 4
_MOST_PKTS = 100_000  # of the search; a fit uses all
_OTHER_CAUSE_NATS = 2.0
_HEADER_BYTES, _IPV6_BYTES = 52, 20  # IPv4, TCP and its timestamps; what IPv6 has more
_LEAST_OFFLOADED, _WHOLE = 5, 0.9


def header_bytes(flow: Flow) -> int:
    """Of a full packet."""
    return _HEADER_BYTES + (_IPV6_BYTES if "[" in flow.name else 0)


def offset_us(flows: Sequence[Flow], flow: Flow) -> int:
    """When a flow began after the first one of these."""
    return round((flow.start_s - min(one.start_s for one in flows)) * 1e6)


@dataclass(frozen=True, eq=False)
class Packets:
    """All packets that a client was sent, by time. bytes: with headers. Three columns [n], at least one packet lost."""

    time_us: NDArray[np.uint64]
    bytes: NDArray[np.uint32]
    lost: NDArray[np.bool_]

    @property
    def random_cost(self) -> float:
        """-ln of the probability of the losses, if each packet is lost with the same probability."""
        count, lost = len(self.lost), int(self.lost.sum())
        return float(count * np.log(count) - lost * np.log(lost) - (count - lost) * np.log(max(count - lost, 1)))

    def costs(
        self, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution_bytes: float
    ) -> NDArray[np.float64]:
        """The costs of rates [n] with buckets [n, k], [n, k]."""
        # A loss with another cause must not cost less than at random.
        most_cost = self.random_cost / int(self.lost.sum()) + _OTHER_CAUSE_NATS
        found = _engine.policer_costs(
            self.time_us, self.bytes, self.lost, np.repeat(rates, buckets.shape[1]), buckets.ravel(), resolution_bytes,
            most_cost,
        )  # fmt: skip
        return np.asarray(found).reshape(buckets.shape)

    def part(self, begin: int, end: int) -> Packets:
        """Some of the packets."""
        return Packets(self.time_us[begin:end], self.bytes[begin:end], self.lost[begin:end])

    def over_line(self, line_mbps: float) -> Packets:
        """The packets as they come over a line of this rate, which a capture at the sender does not show."""
        spent_us = np.cumsum(self.bytes * 8 / line_mbps)
        time_us = spent_us + np.maximum.accumulate(self.time_us - spent_us)
        return replace(self, time_us=np.rint(time_us - time_us[0] + self.time_us[0]).astype(np.uint64))

    def least_buckets(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The least bucket, by rate [n], through which all packets that were not lost pass (R-TCP 2026, equation 4)."""
        passed_bytes = np.cumsum(np.where(self.lost, 0, self.bytes))
        found = np.empty(len(rates))
        for at, rate in enumerate(rates):
            unused = rate * (self.time_us - self.time_us[0]) / 1e6 - passed_bytes
            found[at] = (np.maximum.accumulate(unused + self.bytes) - unused).max()
        return found


def packets_of(group: Sequence[Flow]) -> tuple[Packets, list[NDArray[np.int64]]]:
    """The packets of a client, and the place of each of a flow's transmissions among them."""
    times, sizes, lost, places, count = [], [], [], [], 0
    for flow in group:
        assert flow.sends is not None  # noqa: S101  (the caller has asked)
        sends, of_sends = _as_dropped(flow.sends)
        times.append(sends["time_us"].astype(np.int64) + offset_us(group, flow))
        sizes.append(sends["bytes"].astype(np.int64) + header_bytes(flow))
        lost.append(sends["lost"])
        places.append(of_sends + count)
        count += len(sends)
    time_us = np.concatenate(times)
    order = np.argsort(time_us, kind="stable")
    packets = Packets(
        time_us[order].astype(np.uint64), np.concatenate(sizes)[order].astype(np.uint32), np.concatenate(lost)[order]
    )
    rank = np.argsort(order)
    return packets, [rank[place] for place in places]


def _as_dropped(sends: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """The transmissions, SEND [k], joined to offloaded segments if these were lost as a whole; the place of each, [m].

    On a virtual network (veth, bridges) a policer sees what the sender captured: segments of up to 64 kB. Beyond a
    network card it sees packets, so that it drops parts of segments.
    """
    follows = np.zeros(len(sends), bool)
    for column, step in (("time_us", 0), ("retransmission", 0), ("offset_bytes", sends["bytes"][:-1])):
        values = sends[column].astype(np.int64)
        same = values[1:] - values[:-1] == step
        follows[1:] = same if column == "time_us" else follows[1:] & same
    first = np.flatnonzero(~follows)
    packets = np.diff(np.append(first, len(sends)))
    lost = np.add.reduceat(sends["lost"].astype(np.int64), first)
    parts = (packets > 1) & (lost > 0)
    if parts.sum() < _LEAST_OFFLOADED or (lost[parts] == packets[parts]).mean() < _WHOLE:
        return sends, np.arange(len(sends))
    joined = sends[first].copy()
    joined["bytes"] = np.add.reduceat(sends["bytes"], first)
    return joined, np.cumsum(~follows) - 1


def _spread(low: float, high: float, step: float) -> NDArray[np.float64]:
    """Values from low to high, each so many times the one before."""
    found: NDArray[np.float64] = low * step ** np.arange(int(np.log(high / low) / np.log(step)) + 2, dtype=np.float64)
    return found


@dataclass(frozen=True, eq=False)
class Fit:
    """The policer that explains the losses best. packets: over the line that does so."""

    packets: Packets
    rate: float
    bucket: float
    cost: float
    resolution_bytes: float

    def tokens(self) -> NDArray[np.float64]:
        """The tokens at each packet, in bytes, [n]."""
        packets = self.packets
        return np.asarray(_engine.policer_tokens(packets.time_us, packets.bytes, packets.lost, self.rate, self.bucket))

    def refit(self, resolution_bytes: float) -> Fit:
        """The best one near this one, with another resolution."""
        rates = self.rate * np.linspace(1 / _RATE_STEP, _RATE_STEP, 33)
        return _best(self.packets, rates, self.bucket * _BUCKET_STEP ** np.linspace(-0.6, 0.6, 9), resolution_bytes)


def search(packets: Packets, low: float, high: float) -> Fit:
    """About the best fit; Fit.refit() fits it to all packets. low, high: rates where the search begins."""
    begin = max(int(np.argmax(packets.lost)) - _MOST_PKTS // 2, 0)
    some = packets.part(begin, begin + _MOST_PKTS)
    fits = {line: _coarse(some.over_line(line), low, high).refit(RESOLUTIONS_BYTES[0]) for line in LINES_MBPS}
    line = min(LINES_MBPS, key=lambda one: fits[one].cost)
    return replace(fits[line], packets=packets.over_line(line))


def _coarse(packets: Packets, low: float, high: float) -> Fit:
    buckets = _spread(_LEAST_BUCKET_BYTES, max(float(packets.bytes.sum()), 2 * _LEAST_BUCKET_BYTES), _BUCKET_STEP)
    low, high = low / _BELOW, high * _ABOVE
    for _ in range(_SEARCHES):
        rates = _spread(low, high, _RATE_STEP)
        fit = _best(packets, rates, buckets, RESOLUTIONS_BYTES[0])
        if fit.rate < rates[-3]:
            break
        low, high = high / _BELOW, high * _ABOVE
    return fit


def rates_alike(fit: Fit) -> tuple[float, float, float]:
    """The middle of the rates that explain the losses as well, and the ends of those that do so nearly."""
    rates = np.append(_spread(fit.rate / 4, fit.rate * 4, _RATE_STEP), fit.rate)
    buckets = _tried(fit.packets, rates, fit.bucket * np.linspace(0.9, 1.1, 9))
    more = fit.packets.costs(rates, buckets, fit.resolution_bytes).min(axis=1) - fit.cost
    best, same = rates[more <= BEST_NATS], rates[more <= SAME_NATS]
    middle = float(np.sqrt(best.min(initial=fit.rate) * best.max(initial=fit.rate)))
    return middle, float(same.min(initial=fit.rate)), float(same.max(initial=fit.rate))


def _tried(packets: Packets, rates: NDArray[np.float64], buckets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Buckets that are tried with each rate: these, and some near the least one."""
    near = np.outer(packets.least_buckets(rates), _NEAR_LEAST)
    return np.concatenate([np.broadcast_to(buckets, (len(rates), len(buckets))), near], axis=1)


def _best(packets: Packets, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution_bytes: float) -> Fit:
    tried = _tried(packets, rates, buckets)
    costs = packets.costs(rates, tried, resolution_bytes)
    i, j = np.unravel_index(np.argmin(costs), costs.shape)
    return Fit(packets, float(rates[i]), float(tried[i, j]), float(costs[i, j]), resolution_bytes)
