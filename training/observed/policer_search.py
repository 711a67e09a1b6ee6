# SPDX-License-Identifier: MIT
"""Searches the policer {R, B} that explains best which packets of a client were lost.

The engine compares policers with the packets (emulation/cpp/path/policer_replay.hpp). This module gives it the packets
of all flows in order, and searches a grid of rates and buckets: first a wide one, then a fine one around its best pair.

Rates are bytes/s and buckets bytes, of IP packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from training.observed.flow import Flow

BEST_NATS, SAME_NATS = 1.0, 5.0  # rates that explain the losses as well, and nearly as well
RESOLUTIONS = ((375.0, 200.0), (750.0, 1000.0), (1500.0, 4000.0))  # bytes, us: an exact path, and others with jitter

_LEAST_BUCKET_BYTES, _BUCKET_STEP, _RATE_STEP = 3000.0, 1.6, 1.04
_BELOW, _ABOVE = 2.0, 2.5  # how far the search goes beyond the rates where it begins
_SEARCHES = 4
_OTHER_CAUSE_NATS = 2.0
_HEADER_BYTES, _IPV6_BYTES = 52, 20  # IPv4, TCP and its timestamps; what IPv6 has more
_LEAST_OFFLOADED, _WHOLE = 5, 0.9

Resolution = tuple[float, float]


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
        self, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution: Resolution
    ) -> NDArray[np.float64]:
        """The costs of all pairs [rates, buckets], in bytes/s and bytes."""
        pairs = np.meshgrid(rates, buckets, indexing="ij")
        # A loss with another cause must not cost less than at random.
        most_cost = self.random_cost / int(self.lost.sum()) + _OTHER_CAUSE_NATS
        found = _engine.policer_costs(
            self.time_us, self.bytes, self.lost, pairs[0].ravel(), pairs[1].ravel(), *resolution, most_cost
        )
        return np.asarray(found).reshape(len(rates), len(buckets))


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


def coarse(packets: Packets, low: float, high: float) -> tuple[float, float]:
    """About the rate in bytes/s and the bucket that explain the losses best. low, high: where to begin."""
    buckets = _spread(_LEAST_BUCKET_BYTES, max(float(packets.bytes.sum()), 2 * _LEAST_BUCKET_BYTES), _BUCKET_STEP)
    low, high = low / _BELOW, high * _ABOVE
    for _ in range(_SEARCHES):
        rates = _spread(low, high, _RATE_STEP)
        rate, bucket, _cost = _best(packets, rates, buckets, RESOLUTIONS[0])
        if rate < rates[-3]:
            break
        low, high = high / _BELOW, high * _ABOVE
    return rate, bucket


def fine(packets: Packets, rate: float, bucket: float, resolution: Resolution) -> tuple[float, float, float]:
    """The rate and the bucket near these that explain the losses best, and their cost."""
    rates = rate * np.linspace(1 / _RATE_STEP, _RATE_STEP, 33)
    return _best(packets, rates, bucket * _BUCKET_STEP ** np.linspace(-0.6, 0.6, 9), resolution)


def _best(
    packets: Packets, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution: Resolution
) -> tuple[float, float, float]:
    """The rate and the bucket that explain the losses best, and their cost."""
    costs = packets.costs(rates, buckets, resolution)
    i, j = np.unravel_index(np.argmin(costs), costs.shape)
    return float(rates[i]), float(buckets[j]), float(costs[i, j])


def rates_alike(
    packets: Packets, rate: float, bucket: float, cost: float, resolution: Resolution
) -> tuple[float, float, float]:
    """The middle of the rates that explain the losses as well, and the ends of those that do so nearly."""
    rates = np.append(_spread(rate / 4, rate * 4, _RATE_STEP), rate)
    more = packets.costs(rates, bucket * np.linspace(0.9, 1.1, 9), resolution).min(axis=1) - cost
    best, same = rates[more <= BEST_NATS], rates[more <= SAME_NATS]
    middle = float(np.sqrt(best.min(initial=rate) * best.max(initial=rate)))
    return middle, float(same.min(initial=rate)), float(same.max(initial=rate))
