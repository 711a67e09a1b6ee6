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
4. Logs have no packets. There the detector decides alone, with the parameters of kernels, if RTTs before losses are at
   most SLOW times the least one. A segment with a loss of a limited client was policed. So it is for captures at the
   receiver.

Rates and buckets count IP packets: payload and headers. A router that counts whole Ethernet frames is configured for
1.2 % more at 1,500 bytes. The replay needs the limiter's whole traffic: if packets of other servers share it and are
not in the capture, losses find tokens, and no policer is found, or one of a lower rate.

With a bucket of few packets that bursts empty and idle times fill, losses say little of R: see rate_range_mbps.

The constants were chosen with a third of the captures in experiments/captures/, which judges with the others, and with
simulated paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from kmod.abi import ALGORITHMS
from training.observed.flow import Flow
from training.observed.policer_search import (
    RESOLUTIONS_BYTES,
    Fit,
    Packets,
    header_bytes,
    offset_us,
    packets_of,
    rates_alike,
    search,
)

# Where the detector only seeks estimates for the replay, any loss triggers it.
SEEKING = {"trigger_rounds": 1, "trigger_loss_permille": 10, "reduction_permille": 950, "convergence_rounds": 5}
EXPLAINED = 0.9
EVIDENCE_NATS = 15.0  # the search compares some 1,000 policers: 7 nats
QUEUED_SHARE, QUEUED_MS = 0.15, 1.0  # of the delay that a queue of B bytes has, and at least so much
SLOW = 1.3  # times the least RTT
POLICED_SHARE = 0.5
SLACK_PKTS, SLACK_MS = 1.0, 2.0  # of the bucket's rate
UNSURE = 1.5  # between the ends of the rates

_LEAST_SAMPLES = 5


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
class _Finding:
    """A limit of a client. empty: by the id of a flow, whether each of its transmissions found no tokens, bool [m]."""

    limit: RateLimit
    empty: dict[int, NDArray[np.bool_]] | None = None


def limits_of(flows: Sequence[Flow]) -> list[RateLimit | None]:
    """The policer of each flow's client; None: the flows show none."""
    return [None if finding is None else finding.limit for finding in _findings(flows)]


def segments_of(flows: Sequence[Flow]) -> list[dict[str, Any]]:
    """A row for each segment of each flow (Flow.segments), in their order.

    flow: its name. segment: from 0. packets: transmissions, retransmissions included. lost: of these. policed: whether
    it lost packets to a policer. rate_mbps, burst_bytes: of the policer, as in RateLimit; None if it was not policed.
    """
    rows = []
    for flow, finding in zip(flows, _findings(flows), strict=True):
        for number, segment in enumerate(flow.segments()):
            packets, lost = _counts(segment)
            policed = finding is not None and lost > 0 and _is_policed(flow, segment, finding)
            rows.append({
                "flow": flow.name, "segment": number, "packets": packets, "lost": lost, "policed": policed,
                "rate_mbps": round(finding.limit.rate_mbps, 4) if finding and policed else None,
                "burst_bytes": finding.limit.burst_bytes if finding and policed else None,
            })  # fmt: skip
    return rows


def detector_verdicts(flows: Sequence[Flow]) -> list[bool]:
    """Whether R-TCP's detector alone, with the parameters of kernels, takes each flow's client for limited."""
    verdicts = {
        key: bool((_detect(group)["kind"] == _engine.LIMITED).any()) for key, group in _by_client(flows).items()
    }
    return [verdicts[_client_of(flow)] for flow in flows]


# --- clients --------------------------------------------------------------------------------------


def _client_of(flow: Flow) -> tuple[str, str]:
    """The source, and the address at the other end. A flow whose name has no ends is a client of its own."""
    _, arrow, peer = flow.name.partition(" > ")
    return flow.source, (peer.split(" ")[0].rpartition(":")[0] or peer) if arrow else flow.name


def _by_client(flows: Sequence[Flow]) -> dict[tuple[str, str], list[Flow]]:
    ordered = sorted(flows, key=_client_of)
    return {key: list(group) for key, group in groupby(ordered, key=_client_of)}


def _findings(flows: Sequence[Flow]) -> list[_Finding | None]:
    """What is known of each flow's client."""
    found = {key: _find(group) for key, group in _by_client(flows).items()}
    return [found[_client_of(flow)] for flow in flows]


def _find(group: list[Flow]) -> _Finding | None:
    per_payload = 1 + header_bytes(group[0]) / group[0].mss_bytes
    if any(one.sends is None or one.vantage != "sender" for one in group):
        return _by_detector(group, per_payload)
    estimates = _detect(group, SEEKING)["estimate_bytes_per_s"]
    return _by_packets(group, estimates[estimates > 0] * per_payload) if estimates.any() else None


# --- the core's detector ----------------------------------------------------------------------------


def _detect(group: Sequence[Flow], parameters: Mapping[str, int] = MappingProxyType({})) -> dict[str, NDArray[Any]]:
    """What the detector knows after each step of a client's flows. parameters: of rtcp_cubic, but for its defaults."""
    columns = [_acks(flow, offset_us(group, flow)) for flow in group]
    acks = np.concatenate(columns, axis=1)
    acks = acks[:, np.argsort(acks[0], kind="stable")]
    transfers_us = np.sort(np.concatenate([flow.transfers_us + offset_us(group, flow) for flow in group]))
    specs = ALGORITHMS["rtcp_cubic"].params
    values = [parameters.get(spec.name, spec.default) for spec in specs]
    rtt_us, delivered_pkts, lost_pkts = (np.ascontiguousarray(column, np.uint32) for column in acks[1:])
    return _engine.detect_limit(
        np.ascontiguousarray(acks[0], np.uint64), rtt_us, delivered_pkts, lost_pkts, transfers_us.astype(np.uint64),
        group[0].mss_bytes, values,
    )  # fmt: skip


def _acks(flow: Flow, offset_us: int) -> NDArray[np.int64]:
    """Time, RTT, newly delivered and newly lost packets of each step, int64 [4, n]."""
    steps = flow.steps
    delivered_pkts = steps["delivered_bytes"].astype(np.int64) // flow.mss_bytes
    lost_pkts = steps["lost_pkts"].astype(np.int64)
    return np.stack([
        steps["time_us"].astype(np.int64) + offset_us, steps["rtt_us"].astype(np.int64),
        np.diff(delivered_pkts, prepend=0), np.diff(lost_pkts, prepend=0),
    ])  # fmt: skip


def _by_detector(group: Sequence[Flow], per_payload: float) -> _Finding | None:
    known = _detect(group)
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
    packets, places = packets_of(group)
    if not packets.lost.any():
        return None
    fit = search(packets, float(estimates.min()), float(estimates.max()))
    for resolution_bytes in RESOLUTIONS_BYTES:
        fit = fit.refit(resolution_bytes)
        tokens = fit.tokens()
        empty = tokens < packets.bytes + _slack_bytes(fit.rate, fit.bucket)
        explained = float(empty[packets.lost].mean())
        if explained < EXPLAINED or packets.random_cost - fit.cost < EVIDENCE_NATS:
            continue
        rate, low, high = rates_alike(fit)
        if _is_queue(group, packets, tokens, fit) or (high > UNSURE * low and _is_slow(group)):
            return None
        limit = RateLimit(rate * 8e-6, round(fit.bucket), (low * 8e-6, high * 8e-6), "packets", explained)
        return _Finding(limit, {id(flow): empty[place] for flow, place in zip(group, places, strict=True)})
    return None


def _slack_bytes(rate: float, bucket: float) -> float:
    return max(min(SLACK_PKTS * 1500 + rate * SLACK_MS / 1000, bucket / 2 - 1500), 0.0)


def _is_queue(group: Sequence[Flow], packets: Packets, tokens: NDArray[np.float64], fit: Fit) -> bool:
    """Whether packets that found few tokens were delayed as by a queue."""
    rtt_ms, found = _rtts(group, packets, tokens)
    few, many = rtt_ms[found < fit.bucket / 4], rtt_ms[found > fit.bucket * 3 / 4]
    if len(few) < _LEAST_SAMPLES or len(many) < _LEAST_SAMPLES:
        few, many = rtt_ms[found < fit.bucket / 2], np.array([rtt_ms.min(initial=np.inf)])
        if len(few) < _LEAST_SAMPLES:
            return False
    delay_ms = float(np.median(few) - np.median(many))
    return delay_ms > max(QUEUED_MS, QUEUED_SHARE * 0.75 * fit.bucket / fit.rate * 1000)


def _rtts(
    group: Sequence[Flow], packets: Packets, tokens: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """RTT samples in ms, and the tokens that their packets found."""
    sent_us, rtt_us = [], []
    for flow in group:
        steps = flow.steps[flow.steps["rtt_us"] > 0]
        rtt_us.append(steps["rtt_us"].astype(np.int64))
        sent_us.append(steps["time_us"].astype(np.int64) - rtt_us[-1] + offset_us(group, flow))
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


def _is_policed(flow: Flow, segment: Flow, finding: _Finding) -> bool:
    if finding.empty is None or flow.sends is None or segment.sends is None:
        return True
    begin = np.searchsorted(flow.sends["time_us"], segment.sends["time_us"][0])
    empty = finding.empty[id(flow)][begin : begin + len(segment.sends)]
    return bool(empty[segment.sends["lost"]].mean() >= POLICED_SHARE)
