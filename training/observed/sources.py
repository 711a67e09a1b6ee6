# SPDX-License-Identifier: MIT
"""From files to flows, and from flows to links: what the commands over observed flows begin with.

A file is a capture (captures.py) or a log of samples (samples.py). A folder stands for all files below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emulation.scenario.model import WIRE
from emulation.traces import OPPORTUNITY_BYTES
from kmod.errors import CcatuneError
from kmod.terminal import counted
from training.errors import TrainingError
from training.observed.captures import is_capture, read_capture
from training.observed.flow import Flow
from training.observed.flow import Limit as LimitedBy
from training.observed.links import RebuiltLink, rebuild
from training.observed.policing import limits_of
from training.observed.samples import is_samples, read_samples
from training.observed.seen import Limit, Measured, SeenLink
from training.observed.telling import FlowFacts, facts_of

Advance = Callable[[float], None]
DEFAULT_BUFFER_PKTS = 50  # at least so long, where a flow shows no queue
LEAST_RTT_MS, MOST_RTT_MS = 0.1, 10_000.0
MOST_S = 31 * 86_400.0
WITHOUT_FILLING = frozenset({"bbr", "bbr3", "gr", "rtcp_bbr", "rtcp_bbr3", "sira", "vegas"})
UNYIELDING = frozenset({"bbr", "bbr3"})  # to losses
OVERFLOWING = 0.005  # share of the packets that a full queue then drops, at least
LIKE_A_POLICER = 0.02  # random loss from which a policer that was not found is likelier
LEAST_BY_NETWORK_S, MOST_AT_ONCE = 5.0, 2.0
CODEL_TARGET_MS, CODEL_LOSS, LEAST_QUEUE_PKTS = 5.0, 0.0005, 1.5
FAST_MBPS, MOST_MBPS = 100.0, 1000.0
UNQUEUED_MS = 20.0
MOST_PAIRS_MS = 15.0
LIMITED_BY = {
    LimitedBy.APPLICATION: "most of the time the application had nothing to send",
    LimitedBy.RECEIVER: "most of the time the receiver's window was full, so that another congestion control would "
                        "change little; net.ipv4.tcp_rmem of the receivers limits it",
    LimitedBy.SEND_BUFFER: "most of the time the send buffer was full, so that another congestion control would "
                           "change little; net.ipv4.tcp_wmem of this server limits it",
}  # fmt: skip
STEADY, STEADY_SHARE = 0.25, 0.9  # so much a second's rate may be off, in so many of the seconds


@dataclass(frozen=True)
class Observed:
    """Flows, and remarks on files, a sentence each."""

    flows: list[Flow]
    remarks: tuple[str, ...]


def files_of(paths: Sequence[Path], *, is_whole: Callable[[Path], bool] = lambda _folder: False) -> list[Path]:
    """The files of these paths, those below folders in the order of their names. is_whole: of folders read as one.

    Raises:
        TrainingError: a path does not exist, or there is no file.
    """
    found: list[Path] = []
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise TrainingError(f"{path}: expected a capture, a log or a folder of them, got no such file")
        found += _below(path, is_whole, seen)
    if not found:
        raise TrainingError(f"{paths[0]}: expected captures or logs in this folder, got no file")
    return found


def _below(path: Path, is_whole: Callable[[Path], bool], seen: set[Path]) -> list[Path]:
    # Links may lead to a folder above, or to a file that another name has, too.
    place = Path(os.path.realpath(path))
    if place in seen:
        return []
    seen.add(place)
    if not path.is_dir() or is_whole(path):
        return [path]
    return [file for entry in sorted(path.iterdir()) for file in _below(entry, is_whole, seen)]


def read_flows(paths: Sequence[Path], *, advance: Advance = lambda _share: None) -> Observed:
    """The flows of all files. In a folder, files that cannot be used are left out with a remark.

    advance: called with the share of the files that were read since the call before.

    Raises:
        TrainingError: a file that was named cannot be used, or there is no flow at all.
    """
    files = files_of(paths, is_whole=is_samples)
    flows: list[Flow] = []
    remarks: list[str] = []
    for file in files:
        try:
            if not file.is_dir() and not file.is_file():
                raise TrainingError(f"{file}: expected a file, got a device, a pipe, a socket or a broken link")
            # Both kinds may be within gzip.
            if not is_samples(file) and is_capture(file):
                found = read_capture(file)
                flows += found.flows
                remarks += [f"{file.name}: {remark}" for remark in found.remarks]
            else:
                flows += read_samples(file)
        except (CcatuneError, OSError) as error:
            if file in paths:
                raise
            why = f"{file}: cannot be read ({error.strerror})" if isinstance(error, OSError) else error
            remarks.append(f"Left out: {why}.")
        advance(1 / len(files))
    if long := [flow for flow in flows if flow.duration_s > MOST_S]:
        flows = [flow for flow in flows if flow.duration_s <= MOST_S]
        remarks.append(f"Left out: {counted(len(long), 'flow')} longer than {MOST_S / 86_400:g} days, such as "
                       f"{long[0].name} ({long[0].duration_s / 86_400:.0f} days). Read shorter files, and check that "
                       "their clock does not jump.")  # fmt: skip
    if not flows:
        raise TrainingError(f"{paths[0]}: expected flows, got none. {' '.join(remarks[:3])}".strip())
    return Observed(flows, tuple(remarks))


def links_of(flows: Sequence[Flow], *, advance: Advance = lambda _share: None) -> list[SeenLink]:
    """The links that flows show. A flow that was never backlogged shows none."""
    found: list[SeenLink] = []
    for flow, limit in zip(flows, limits_of(flows), strict=True):
        found += seen_links(flow, rebuild(flow, limit=limit), facts_of(flow, limit=limit))
        advance(1 / len(flows))
    return found


def seen_links(flow: Flow, rebuilt: RebuiltLink, facts: FlowFacts) -> list[SeenLink]:
    """The links of a flow: a piece each; or the limit that it met, in front of a link that it did not fill.

    A flow that is limited by random loss alone shows no queue. Its largest rate is then a lower bound of its link.
    """
    common: dict[str, Any] = {
        "rtt_ms": max(facts.base_rtt_ms or 0.0, LEAST_RTT_MS), "loss": min(facts.random_loss or 0.0, 0.5),
        "ack_interval_ms": facts.ack_interval_ms or None, "jitter_ms": facts.jitter_ms or 0.0,
        "algorithm": flow.algorithm, "flow": flow.name, "measured": _measured(facts),
    }  # fmt: skip
    if common["rtt_ms"] > MOST_RTT_MS:
        return []
    by_network_s = (facts.limited or {}).get("network", 1.0) * flow.duration_s
    if rebuilt.limit is not None:
        its = rebuilt.limit
        limit = Limit(its.rate_mbps, max(its.burst_bytes, 1500), its.rate_range_mbps)
        common |= {"loss": 0.0, "ack_interval_ms": None}  # losses and bunches are the policer's
        access_mbps = max(_largest_mbps(flow, max(flow.min_rtt_us / 2, 10_000)), 2 * limit.rate_mbps)
        if (facts.queueing_delay_ms or {"p95": 0.0})["p95"] < UNQUEUED_MS:
            access_mbps = max(2 * access_mbps, FAST_MBPS)  # the flow never filled it
        return [SeenLink(flow.name, by_network_s, rate_mbps=min(access_mbps, MOST_MBPS), limit=limit, **common)]
    # A flow that does not fill buffers is near its largest queue at most of the losses on its path.
    overflowed = facts.buffer_pkts is not None and (
        flow.algorithm not in WITHOUT_FILLING or (facts.full_queue_loss or 0.0) >= OVERFLOWING
    )
    buffer_pkts = (facts.buffer_pkts if overflowed else None) or facts.largest_queue_pkts or DEFAULT_BUFFER_PKTS
    common |= {
        "buffer_pkts": max(buffer_pkts, 2),
        "buffer_is_known": overflowed,
        "codel_share": _codel_share(flow, facts),
    }
    if overflowed and flow.algorithm not in WITHOUT_FILLING:
        common["loss"] = min(common["loss"], _most_random_loss(facts, buffer_pkts))
    if rebuilt.pieces:
        return [SeenLink(f"{flow.name} {number}", piece.duration_s * piece.known_share, trace=piece.trace, **common)
                for number, piece in enumerate(rebuilt.pieces, 1)]  # fmt: skip
    if steady := _steady_limit(flow, facts, by_network_s=by_network_s):
        common |= {"loss": 0.0, "ack_interval_ms": None, "codel_share": 0.0}
        return [
            SeenLink(flow.name, by_network_s, rate_mbps=max(FAST_MBPS, 4 * steady.rate_mbps), limit=steady, **common)
        ]
    if _losses_at_once(flow) > MOST_AT_ONCE:
        return []  # a policer that was not found, or a short buffer
    most_random = 1.0 if common["codel_share"] else LIKE_A_POLICER
    if facts.random_loss is None or facts.random_loss >= most_random or by_network_s < LEAST_BY_NETWORK_S:
        return []
    largest_mbps = min(max(_largest_mbps(flow, 1e6), 0.01), MOST_MBPS)
    return [SeenLink(flow.name, by_network_s, rate_mbps=largest_mbps, is_lower_bound=True, **common)]


def _most_random_loss(facts: FlowFacts, buffer_pkts: int) -> float:
    """The random loss at which a flow of CUBIC can still fill the buffer. More of it was not random.

    RFC 9438, section 5.1: a loss rate p leaves a mean window of 1.054 (RTT / p)^(3/4) packets. The window that fills
    the buffer is that of the path with a full queue.
    """
    pkts_per_s = max(facts.throughput_mbps or 0.0, 0.01) * WIRE * 1e6 / (8 * OPPORTUNITY_BYTES)
    full_rtt_s = (facts.base_rtt_ms or 0.0) / 1e3 + buffer_pkts / pkts_per_s
    return float(full_rtt_s * (1.054 / (full_rtt_s * pkts_per_s)) ** (4 / 3))


def _measured(facts: FlowFacts) -> Measured:
    """What the flow had while the network limited it."""
    losses = [facts.random_loss, facts.policed_loss, facts.full_queue_loss]
    known = [loss for loss in losses if loss is not None]
    share = max((facts.limited or {}).get("network", 1.0), 0.01)
    delay_ms = facts.queueing_delay_ms["p95"] if facts.queueing_delay_ms else None
    return Measured(facts.throughput_mbps / share, delay_ms, sum(known) if known else None)


def _steady_limit(flow: Flow, facts: FlowFacts, *, by_network_s: float) -> Limit | None:
    """The policer of a flow that does not yield to losses, from its acknowledged bytes alone; None if there is no sign.

    Such a flow loses many packets without a queue, and yet delivers at a steady rate from its first losses on. R is
    that rate, and B the most by which it delivered more before: A(t) <= B + R t (R-TCP 2026, equation 4). At a link
    that loses packets at random the same flow probes for more every eight round trips, and waits in a queue then.
    """
    loss, queue_ms, base_ms = facts.random_loss or 0.0, facts.queueing_delay_ms, facts.base_rtt_ms
    if flow.algorithm not in UNYIELDING or loss < LIKE_A_POLICER or queue_ms is None or not base_ms:
        return None
    # The last packets of a burst wait for an ACK, and pairs for a delayed one: up to three packets at R.
    pairs_ms = min(3 * flow.mss_bytes * 8e-3 / max(facts.throughput_mbps or 0.0, 1e-3), MOST_PAIRS_MS)
    if queue_ms["p95"] > 1 + base_ms / 10 + pairs_ms or by_network_s < LEAST_BY_NETWORK_S:
        return None
    times_s = flow.steps["time_us"].astype(np.float64) / 1e6
    delivered = flow.steps["delivered_bytes"].astype(np.float64)
    begin_s = times_s[np.flatnonzero(np.diff(flow.steps["lost_pkts"].astype(np.int64)))[0] + 1] + 1
    seconds = np.arange(begin_s, times_s[-1])
    if len(seconds) <= LEAST_BY_NETWORK_S:
        return None
    rates = np.diff(np.interp(seconds, times_s, delivered))
    bytes_per_s = float(rates.mean())
    if np.mean(np.abs(rates - bytes_per_s) <= STEADY * bytes_per_s) < STEADY_SHARE:
        return None
    bucket_bytes = float(np.max(delivered - delivered[0] - bytes_per_s * (times_s - times_s[0])))
    return Limit(bytes_per_s * 8e-6 * WIRE, max(round(bucket_bytes * WIRE), 1500))


def remarks_on(flows: Sequence[Flow], links: Sequence[SeenLink]) -> list[str]:
    """What the flows without a link suggest, a sentence each."""
    shown = {link.flow for link in links}
    without = [flow for flow in flows if flow.name not in shown]
    lossy = [flow for flow in without if _lost_share(flow) >= LIKE_A_POLICER]
    found = [
        f"{counted(number, 'flow')} without a link: {why}."
        for by, why in LIMITED_BY.items()
        if (number := sum(_mostly_limited_by(flow) == by for flow in without if flow not in lossy))
    ]
    if not lossy:
        return found
    remark = (f"{counted(len(lossy), 'flow')} lost at least {100 * LIKE_A_POLICER:g} % of the packets and showed "
              "neither a queue nor a policer, and so no link.")  # fmt: skip
    if all(flow.kind == "capture" for flow in lossy):
        return [*found, remark]
    return [*found, f"{remark} A capture at the server shows policers that a log does not show."]


def _mostly_limited_by(flow: Flow) -> LimitedBy:
    """What limited the flow for the largest part of its time. A row has the limit of the time since the row before."""
    times_us = flow.steps["time_us"].astype(np.float64)
    spent = np.bincount(flow.steps["limit"][1:], weights=np.diff(times_us), minlength=len(LimitedBy))
    return LimitedBy(int(spent.argmax()))


def _lost_share(flow: Flow) -> float:
    steps = flow.steps
    lost = float(steps["lost_pkts"][-1] - steps["lost_pkts"][0])
    delivered = float(steps["delivered_bytes"][-1] - steps["delivered_bytes"][0]) / flow.mss_bytes
    return lost / max(lost + delivered, 1.0)


def _losses_at_once(flow: Flow) -> float:
    """The mean number of packets lost between two rows that show a loss; 0 without one. At random it is about 1."""
    lost = np.diff(flow.steps["lost_pkts"].astype(np.int64))
    return float(lost[lost > 0].mean()) if (lost > 0).any() else 0.0


def _codel_share(flow: Flow, facts: FlowFacts) -> float:
    """How likely it is that CoDel made the losses at queues that were not full. Loss at random meets empty ones, too.

    Only a flow that does not yield to losses loses as many as behind a policer, where there is no queue.
    """
    loss, queue_ms = facts.random_loss or 0.0, facts.queueing_delay_ms or {"p50": 0.0, "p95": 0.0}
    if loss >= LIKE_A_POLICER:
        queue_pkts = queue_ms["p50"] * facts.throughput_mbps * 1e3 / (8 * flow.mss_bytes)
        is_queued = queue_ms["p50"] >= 2 * CODEL_TARGET_MS and queue_pkts >= LEAST_QUEUE_PKTS
        return float(flow.algorithm in WITHOUT_FILLING and is_queued)
    is_short = queue_ms["p50"] >= CODEL_TARGET_MS / 2 and queue_ms["p95"] <= 20 * CODEL_TARGET_MS
    return 0.5 if loss >= CODEL_LOSS and is_short else 0.0


def _largest_mbps(flow: Flow, window_us: float) -> float:
    """The largest rate of a flow over so long, in packets of the network."""
    times_us, delivered = (flow.steps[name].astype(np.float64) for name in ("time_us", "delivered_bytes"))
    rates = (np.interp(times_us + window_us, times_us, delivered) - delivered) * 8 / window_us
    return float(rates[times_us <= max(times_us[-1] - window_us, times_us[0])].max()) * WIRE
