# SPDX-License-Identifier: MIT
"""Finds the policer that flows met: its rate R and its bucket B, and which of their segments it policed.

1. All flows of one source to one client count together, because they share its limiter (R-TCP 2026, section 4.4).
2. R-TCP's detector, the lines of kmod/core that kernels run, reads their ACKs. Its estimates of R bound the search.
3. Captures have every packet. So {B, R} is the one that explains best which packets were lost: those that found no
   tokens (emulation/cpp/path/policer_replay.hpp). It is a policer if
     - at least EXPLAINED of the lost packets found fewer tokens than a packet and some slack,
     - the explanation is EVIDENCE_NATS better than loss at random, and
     - packets that found few tokens took no longer than those that found many. A queue whose free space counts as
       tokens drops the very same packets, but delays those before them, by up to B / R.
   A segment was policed if at least half of its lost packets found no tokens.
4. Logs have no packets. There the detector decides alone, if RTTs before losses are at most SLOW times the least one. A
   segment with a loss of a limited client was policed. It also decides for captures at the receiver.

Rates and buckets count IP packets: payload and headers. A router that counts whole Ethernet frames is configured for
1.2 % more at 1,500 bytes. The replay needs the limiter's whole traffic: if packets of other servers share it and are not
in the capture, losses find tokens, and no policer is found.

With a bucket of few packets that bursts empty and idle times fill, losses say little of R: see rate_range_mbps.

The constants were chosen with a third of the captures in experiments/captures/, which judges with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from kmod.abi import ALGORITHMS
from training.observed.flow import Flow

# The detector protects a sender from a cap that is not needed. Afterwards there is nothing to protect, so that any loss
# triggers it. What it finds is confirmed by the replay.
DETECTOR = {"trigger_rounds": 1, "trigger_loss_permille": 10, "reduction_permille": 950, "convergence_rounds": 5}
EXPLAINED = 0.9
EVIDENCE_NATS = 15.0  # the search compares some 1,000 policers: 7 nats
QUEUED_SHARE, QUEUED_MS = 0.15, 1.0  # of the delay that a queue of B bytes has, and at least so much
SLOW = 1.3  # times the least RTT
POLICED_SHARE = 0.5
SLACK_PKTS, SLACK_MS = 2.0, 2.0  # of the bucket's rate
SAME_NATS = 5.0  # rates that explain the losses so nearly as well are in the range

_RESOLUTIONS = ((375.0, 200.0), (750.0, 1000.0), (1500.0, 4000.0))  # bytes, us: an exact path, and others with jitter
_LEAST_BUCKET_BYTES, _BUCKET_STEP, _RATE_STEP = 3000.0, 1.6, 1.04
_BELOW, _ABOVE = 2.0, 2.5  # how far the search goes beyond the detector's estimates
_HEADER_BYTES, _IPV6_BYTES = 52, 20  # IPv4, TCP and its timestamps; what IPv6 has more
_LEAST_SAMPLES = 5
_SEARCHES = 4
_OTHER_CAUSE_NATS = 2.0


@dataclass(frozen=True)
class RateLimit:
    """A policer. rate_mbps, burst_bytes: R and B, of IP packets, in 10^6 bit/s and bytes.

    rate_range_mbps: rates that explain the losses nearly as well. found_by: what decided. explained: share of the lost
    packets that found no tokens; 1 if the detector decided.
    """

    rate_mbps: float
    burst_bytes: int
    rate_range_mbps: tuple[float, float]
    found_by: Literal["packets", "detector"]
    explained: float = 1.0


@dataclass(frozen=True, eq=False)
class _Packets:
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
        self, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution: tuple[float, float]
    ) -> NDArray[np.float64]:
        """The costs of all pairs [rates, buckets], in bytes/s and bytes."""
        pairs = np.meshgrid(rates, buckets, indexing="ij")
        # A loss with another cause must not cost less than at random.
        most_cost = self.random_cost / int(self.lost.sum()) + _OTHER_CAUSE_NATS
        found = _engine.policer_costs(
            self.time_us, self.bytes, self.lost, pairs[0].ravel(), pairs[1].ravel(), *resolution, most_cost
        )
        return np.asarray(found).reshape(len(rates), len(buckets))


@dataclass(frozen=True, eq=False)
class _Finding:
    """A limit of a client; tokens at each of its packets, float [n], if it was found by packets."""

    limit: RateLimit
    packets: _Packets | None = None
    tokens: NDArray[np.float64] | None = None


def limits_of(flows: Sequence[Flow]) -> list[RateLimit | None]:
    """The policer of each flow's client; None: the flows show none."""
    return [None if finding is None else finding.limit for finding, _ in _findings(flows)]


def limit_of(flow: Flow) -> RateLimit | None:
    """The policer of a flow that has no others beside it. limits_of() uses all flows of a client together."""
    return limits_of([flow])[0]


def segments_of(flows: Sequence[Flow]) -> list[dict[str, Any]]:
    """A row for each segment of each flow (Flow.segments), in their order.

    flow: its name. segment: from 0. packets: sent, also again. lost: of these. policed: whether it lost packets to a
    policer. rate_mbps, burst_bytes: of the policer, as in RateLimit; None if it was not policed.
    """
    rows = []
    for flow, (finding, offset_us) in zip(flows, _findings(flows), strict=True):
        for number, segment in enumerate(flow.segments()):
            packets, lost = _counts(segment)
            policed = finding is not None and lost > 0 and _is_policed(segment, finding, offset_us)
            rows.append({
                "flow": flow.name, "segment": number, "packets": packets, "lost": lost, "policed": policed,
                "rate_mbps": round(finding.limit.rate_mbps, 4) if finding and policed else None,
                "burst_bytes": finding.limit.burst_bytes if finding and policed else None,
            })  # fmt: skip
    return rows


def detector_verdicts(flows: Sequence[Flow], **parameters: int) -> list[bool]:
    """Whether R-TCP's detector alone takes each flow's client for limited, with these parameters of rtcp_cubic."""
    verdicts = {key: bool((_detect(group, parameters)["kind"] == _engine.LIMITED).any())
                for key, group in _by_client(flows).items()}  # fmt: skip
    return [verdicts[_client_of(flow)] for flow in flows]


# --- clients --------------------------------------------------------------------------------------


def _client_of(flow: Flow) -> tuple[str, str]:
    """The source, and the address at the other end. A flow whose name has no ends is a client of its own."""
    _, arrow, peer = flow.name.partition(" > ")
    return flow.source, (peer.split(" ")[0].rpartition(":")[0] or peer) if arrow else flow.name


def _by_client(flows: Sequence[Flow]) -> dict[tuple[str, str], list[Flow]]:
    ordered = sorted(flows, key=_client_of)
    return {key: list(group) for key, group in groupby(ordered, key=_client_of)}


def _findings(flows: Sequence[Flow]) -> list[tuple[_Finding | None, int]]:
    """What is known of each flow's client, and when the flow began after the client's first one, in us."""
    groups = _by_client(flows)
    found = {key: _find(group) for key, group in groups.items()}
    return [(found[key], _offset_us(groups[key], flow)) for flow in flows for key in (_client_of(flow),)]


def _offset_us(group: Sequence[Flow], flow: Flow) -> int:
    return round((flow.start_s - min(one.start_s for one in group)) * 1e6)


def _header_bytes(flow: Flow) -> int:
    return _HEADER_BYTES + (_IPV6_BYTES if "[" in flow.name else 0)


def _find(group: list[Flow]) -> _Finding | None:
    known = _detect(group, DETECTOR)
    estimates = known["estimate_bytes_per_s"]
    if not (estimates > 0).any():
        return None
    flow = group[0]
    per_payload = 1 + _header_bytes(flow) / flow.mss_bytes
    if all(one.sends is not None and one.vantage == "sender" for one in group):
        return _by_packets(group, estimates[estimates > 0] * per_payload)
    return _by_detector(group, known, per_payload)


# --- the core's detector ----------------------------------------------------------------------------


def _detect(group: Sequence[Flow], parameters: dict[str, int]) -> dict[str, NDArray[Any]]:
    """What the detector knows after each step of a client's flows."""
    columns = [_acks(flow, _offset_us(group, flow)) for flow in group]
    acks = np.concatenate(columns, axis=1)
    acks = acks[:, np.argsort(acks[0], kind="stable")]
    transfers_us = np.sort(np.concatenate([flow.transfers_us + _offset_us(group, flow) for flow in group]))
    specs = ALGORITHMS["rtcp_cubic"].params
    values = [parameters.get(spec.name, spec.default) for spec in specs]
    counts = [np.ascontiguousarray(column, np.uint32) for column in acks[1:]]
    found: dict[str, NDArray[Any]] = _engine.detect_limit(
        np.ascontiguousarray(acks[0], np.uint64), *counts, transfers_us.astype(np.uint64), group[0].mss_bytes, values
    )
    return found


def _acks(flow: Flow, offset_us: int) -> NDArray[np.int64]:
    """Time, RTT, newly delivered and newly lost packets of each step, int64 [4, n]."""
    steps = flow.steps
    delivered_pkts = steps["delivered_bytes"].astype(np.int64) // flow.mss_bytes
    lost_pkts = steps["lost_pkts"].astype(np.int64)
    return np.stack([
        steps["time_us"].astype(np.int64) + offset_us, steps["rtt_us"].astype(np.int64),
        np.diff(delivered_pkts, prepend=0), np.diff(lost_pkts, prepend=0),
    ])  # fmt: skip


def _by_detector(group: Sequence[Flow], known: dict[str, NDArray[Any]], per_payload: float) -> _Finding | None:
    limited = np.flatnonzero(known["kind"] == _engine.LIMITED)
    if not len(limited):
        return None
    last = limited[-1]
    if _is_slow(group):
        return None
    rate_mbps = float(known["bytes_per_s"][last]) * per_payload * 8e-6
    burst_bytes = round(float(known["bucket_bytes"][last]) * per_payload)
    return _Finding(RateLimit(rate_mbps, burst_bytes, (rate_mbps, rate_mbps), "detector"))


def _is_slow(group: Sequence[Flow]) -> bool:
    """Whether RTTs are high when packets are lost: those of the last sample before each loss."""
    for flow in group:
        known = flow.steps["rtt_us"] > 0
        losing = np.flatnonzero(np.diff(flow.steps["lost_pkts"], prepend=0) > 0)
        last = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))[losing]
        rtts_us = flow.steps["rtt_us"][last[last >= 0]]
        if len(rtts_us) and np.median(rtts_us) > SLOW * flow.min_rtt_us:
            return True
    return False


# --- the replay -------------------------------------------------------------------------------------


def _by_packets(group: Sequence[Flow], estimates: NDArray[np.float64]) -> _Finding | None:
    packets = _packets_of(group)
    if not packets.lost.any():
        return None
    near = _coarse(packets, float(estimates.min()), float(estimates.max()))
    for resolution in _RESOLUTIONS:
        rate, bucket, cost = _fine(packets, *near, resolution)
        tokens = np.asarray(_engine.policer_tokens(packets.time_us, packets.bytes, packets.lost, rate, bucket))
        explained = float((tokens[packets.lost] < _slack_bytes(rate, bucket)).mean())
        if explained >= EXPLAINED and packets.random_cost - cost >= EVIDENCE_NATS:
            if _is_queue(group, packets, tokens, rate, bucket):
                return None
            low, high = _rate_range(packets, rate, bucket, cost, resolution)
            limit = RateLimit(rate * 8e-6, round(bucket), (low * 8e-6, high * 8e-6), "packets", explained)
            return _Finding(limit, packets, tokens)
    return None


def _packets_of(group: Sequence[Flow]) -> _Packets:
    times, sizes, lost = [], [], []
    for flow in group:
        assert flow.sends is not None  # noqa: S101  (the caller has asked)
        times.append(flow.sends["time_us"].astype(np.int64) + _offset_us(group, flow))
        sizes.append(flow.sends["bytes"].astype(np.int64) + _header_bytes(flow))
        lost.append(flow.sends["lost"])
    time_us = np.concatenate(times)
    order = np.argsort(time_us, kind="stable")
    return _Packets(
        time_us[order].astype(np.uint64), np.concatenate(sizes)[order].astype(np.uint32), np.concatenate(lost)[order]
    )


def _slack_bytes(rate: float, bucket: float) -> float:
    return min(SLACK_PKTS * 1500 + rate * SLACK_MS / 1000, bucket / 2)


def _spread(low: float, high: float, step: float) -> NDArray[np.float64]:
    """Values from low to high, each so many times the one before."""
    return low * step ** np.arange(int(np.log(high / low) / np.log(step)) + 2)


def _coarse(packets: _Packets, low: float, high: float) -> tuple[float, float]:
    """About the rate in bytes/s and the bucket that explain the losses best. low, high: where to begin."""
    buckets = _spread(_LEAST_BUCKET_BYTES, max(float(packets.bytes.sum()), 2 * _LEAST_BUCKET_BYTES), _BUCKET_STEP)
    low, high = low / _BELOW, high * _ABOVE
    for _ in range(_SEARCHES):
        rates = _spread(low, high, _RATE_STEP)
        rate, bucket, _cost = _best(packets, rates, buckets, _RESOLUTIONS[0])
        if rate < rates[-3]:
            break
        low, high = high / _BELOW, high * _ABOVE
    return rate, bucket


def _fine(
    packets: _Packets, rate: float, bucket: float, resolution: tuple[float, float]
) -> tuple[float, float, float]:
    rates = rate * np.linspace(1 / _RATE_STEP, _RATE_STEP, 33)
    return _best(packets, rates, bucket * _BUCKET_STEP ** np.linspace(-0.6, 0.6, 9), resolution)


def _best(
    packets: _Packets, rates: NDArray[np.float64], buckets: NDArray[np.float64], resolution: tuple[float, float]
) -> tuple[float, float, float]:
    """The rate and the bucket that explain the losses best, and their cost."""
    costs = packets.costs(rates, buckets, resolution)
    i, j = np.unravel_index(np.argmin(costs), costs.shape)
    return float(rates[i]), float(buckets[j]), float(costs[i, j])


def _rate_range(
    packets: _Packets, rate: float, bucket: float, cost: float, resolution: tuple[float, float]
) -> tuple[float, float]:
    """The lowest and the highest rate that explain the losses nearly as well, with some bucket."""
    rates = np.append(_spread(rate / 4, rate * 4, _RATE_STEP), rate)
    costs = packets.costs(rates, bucket * np.linspace(0.9, 1.1, 9), resolution).min(axis=1)
    same = rates[costs <= cost + SAME_NATS]
    return float(same.min(initial=rate)), float(same.max(initial=rate))


def _is_queue(
    group: Sequence[Flow], packets: _Packets, tokens: NDArray[np.float64], rate: float, bucket: float
) -> bool:
    """Whether packets that found few tokens were delayed as by a queue."""
    rtt_ms, found = _rtts(group, packets, tokens)
    few, many = rtt_ms[found < bucket / 4], rtt_ms[found > bucket * 3 / 4]
    if len(few) < _LEAST_SAMPLES or len(many) < _LEAST_SAMPLES:
        few, many = rtt_ms[found < bucket / 2], np.array([rtt_ms.min(initial=np.inf)])
        if len(few) < _LEAST_SAMPLES:
            return False
    delay_ms = float(np.median(few) - np.median(many))
    return delay_ms > max(QUEUED_MS, QUEUED_SHARE * 0.75 * bucket / rate * 1000)


def _rtts(
    group: Sequence[Flow], packets: _Packets, tokens: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """RTT samples in ms, and the tokens that their packets found."""
    sent_us, rtt_us = [], []
    for flow in group:
        steps = flow.steps[flow.steps["rtt_us"] > 0]
        rtt_us.append(steps["rtt_us"].astype(np.int64))
        sent_us.append(steps["time_us"].astype(np.int64) - rtt_us[-1] + _offset_us(group, flow))
    at = np.searchsorted(packets.time_us.astype(np.int64), np.concatenate(sent_us))
    return np.concatenate(rtt_us) / 1000, tokens[np.minimum(at, len(tokens) - 1)]


# --- segments ----------------------------------------------------------------------------------------


def _counts(segment: Flow) -> tuple[int, int]:
    """Packets sent and lost."""
    if segment.sends is not None and segment.vantage == "sender":
        return len(segment.sends), int(segment.sends["lost"].sum())
    steps = segment.steps
    lost = int(steps["lost_pkts"][-1] - steps["lost_pkts"][0])
    delivered_bytes = int(steps["delivered_bytes"][-1] - steps["delivered_bytes"][0])
    return -(-delivered_bytes // segment.mss_bytes) + lost, lost


def _is_policed(segment: Flow, finding: _Finding, offset_us: int) -> bool:
    if finding.packets is None or finding.tokens is None or segment.sends is None:
        return True
    sent_us = segment.sends["time_us"][segment.sends["lost"]].astype(np.int64) + offset_us
    found = finding.tokens[np.searchsorted(finding.packets.time_us.astype(np.int64), sent_us)]
    return bool((found < _slack_bytes(finding.limit.rate_mbps / 8e-6, finding.limit.burst_bytes)).mean() >= POLICED_SHARE)
