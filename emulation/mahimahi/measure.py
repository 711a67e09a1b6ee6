# SPDX-License-Identifier: MIT
"""From what a run over a real link left to the QoS that the simulator gives too.

    link          from mm-link's log: capacity (opportunities of 1500 bytes), throughput (IP bytes that left), the
                  queueing delay of each packet (whole ms, its own transmission included), drops
    flow          throughput = 1500 bytes for each data segment that arrived, over 1 - loss; goodput = bytes that the
                  receiver's TCP took in order; retransmission rate = segments resent / segments sent
    RTT, cwnd     tcp_info of the sender, sampled

DEVIATION: the kernel tells the smoothed RTT alone, so its distribution is of samples in time and narrower than that of
the simulator, which counts every ACK's.
DEVIATION: `undone` (spurious timeouts) is counted by namespace; it is given to a flow that is alone, 0 otherwise.

The measured time is (warmup_s, duration_s]; a sample counts for the moment at which it was taken.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.errors import EmulationError
from emulation.mahimahi.namespace.linklog import LinkLog, LogError, read_log
from emulation.qos import Delays, FlowQoS, QoS, Windows
from emulation.scenario import Scenario
from emulation.traces import OPPORTUNITY_BYTES

__all__ = ["LinkArrays", "Samples", "find_drops", "link_arrays", "to_qos"]

Values = NDArray[np.float64]
Times = NDArray[np.int64]

WIRE_BYTES = 1500


def find_drops(log: LinkLog, *, most_queued_pkts: int | None) -> tuple[Times, Times]:
    """(when, how many) packets were dropped: int64 [n] each.

    Debian's mm-link logs no drops. A packet's arrival is its departure less its delay, so what came in a ms beyond
    what left of it was dropped; among those that came last, as many as the queue holds (None: all) are still in it.
    """
    if log.drops_ms:
        return np.asarray(log.drops_ms, dtype=np.int64), np.asarray(log.dropped_pkts, dtype=np.int64)
    came_ms, came = np.unique(np.asarray(log.arrivals_ms, dtype=np.int64), return_counts=True)
    left_ms = np.asarray(log.departures_ms, dtype=np.int64) - np.asarray(log.delays_ms, dtype=np.int64)
    stayed = came - np.diff(np.searchsorted(np.sort(left_ms), np.append(came_ms, np.iinfo(np.int64).max)))
    tail = int(np.searchsorted(came_ms, left_ms.max())) if len(left_ms) else 0
    # From the tail's first packet on, the queue fills up before any more is dropped.
    queued = np.cumsum(stayed[tail:])
    if most_queued_pkts is not None:
        over = np.maximum(queued - most_queued_pkts, 0)
        stayed[tail:] = np.diff(np.append(0, over))
    else:
        stayed[tail:] = 0
    dropped = stayed > 0
    return came_ms[dropped], stayed[dropped]


class LinkArrays:
    """The log in arrays, in ms of the scenario's time; what came before or after it is left out."""

    def __init__(self, log: LinkLog, *, lead_ms: int, end_ms: int, most_queued_pkts: int | None = None) -> None:
        def within(times_ms: list[int] | Times, *others: list[int] | Times) -> list[Times]:
            times = np.asarray(times_ms, dtype=np.int64) - lead_ms
            chosen = (times > 0) & (times <= end_ms)
            return [times[chosen], *(np.asarray(other, dtype=np.int64)[chosen] for other in others)]

        (self.opportunities_ms,) = within(log.opportunities_ms)
        (self.arrivals_ms,) = within(log.arrivals_ms)
        self.departures_ms, self.departed_bytes, self.delays_ms = within(
            log.departures_ms, log.departed_bytes, log.delays_ms
        )
        self.drops_ms, self.dropped_pkts = within(*find_drops(log, most_queued_pkts=most_queued_pkts))


def link_arrays(scenario: Scenario, result: dict[str, Any]) -> LinkArrays:
    """Read the run's log. Raises EmulationError where it is none."""
    try:
        log = read_log(result["log"])
    except LogError as error:
        raise EmulationError(f"{scenario.name}: mm-link's log: {error}") from error
    link = scenario.link
    limits = [] if link.buffer_pkts is None else [link.buffer_pkts]
    limits += [] if link.buffer_bytes is None else [link.buffer_bytes // WIRE_BYTES]
    return LinkArrays(
        log,
        lead_ms=result["lead_ms"],
        end_ms=round(scenario.duration_s * 1000),
        # One more is on its way out.
        most_queued_pkts=min(limits) + 1 if limits else None,
    )


class Samples:
    """tcp_info of one flow at one end: columns by name, float [n], over time_s."""

    def __init__(self, end: dict[str, Any], number: int) -> None:
        rows = np.asarray([row for row in end["rows"] if row[0] == number], dtype=np.float64)
        rows = rows.reshape(-1, len(end["fields"]) + 2)
        self.time_s: Values = rows[:, 1]
        self.columns: dict[str, Values] = {name: rows[:, 2 + at] for at, name in enumerate(end["fields"])}

    def at(self, name: str, time_s: float | Values) -> Values:
        """The value of a counter at these times, between samples in proportion; 0 without samples."""
        if not len(self.time_s):
            return np.zeros_like(np.asarray(time_s, dtype=np.float64))
        return np.asarray(np.interp(time_s, self.time_s, self.columns[name]), dtype=np.float64)

    def last(self, name: str, time_s: Values) -> Values:
        """The value that was sampled last at these times."""
        if not len(self.time_s):
            return np.zeros_like(time_s)
        index = np.searchsorted(self.time_s, time_s + 1e-9, side="right") - 1
        return self.columns[name][np.maximum(index, 0)]

    def gained(self, name: str, start_s: float, end_s: float) -> float:
        """How much a counter grew."""
        return float(self.at(name, end_s) - self.at(name, start_s))


def _counted(values_us: Values, edges_us: Values) -> Delays:
    bins = np.minimum(np.searchsorted(edges_us, values_us, side="left"), len(edges_us) - 1)
    return Delays(edges_us, np.bincount(bins, minlength=len(edges_us)))


def _counted_ms(values_ms: Times, edges_us: Values) -> Delays:
    return _counted(np.asarray(values_ms * 1000, dtype=np.float64), edges_us)


def _flow(scenario: Scenario, number: int, result: dict[str, Any]) -> FlowQoS:
    spec = scenario.flows[number]
    sent, received = Samples(result["sent"], number), Samples(result["received"], number)
    span = (scenario.warmup_s, scenario.duration_s)
    measured_s = span[1] - span[0]
    complete_s = result["sent"]["complete_s"].get(str(number))
    end_s = min(moment for moment in (spec.stop_s, complete_s, span[1]) if moment is not None)
    runs = (sent.time_s > max(span[0], spec.start_s)) & (sent.time_s <= end_s)
    alone = len(scenario.flows) == 1
    return FlowQoS(
        throughput_mbps=received.gained("segments_in", *span)
        * WIRE_BYTES
        * 8e-6
        / measured_s
        / (1 - scenario.link.loss),
        goodput_mbps=received.gained("received_bytes", *span) * 8e-6 / measured_s,
        retransmission_rate=sent.gained("total_retrans_pkts", *span) / max(sent.gained("segments_out", *span), 1.0),
        timeouts=round(sent.gained("timeouts", *span)),
        undone=result["counters"]["TCPSpuriousRTOs"] if alone else 0,
        complete_s=complete_s,
        rtt=_counted(sent.columns["rtt_us"][runs], _engine.rtt_edges_us()),
        turns=(),
    )


def _windows(scenario: Scenario, link: LinkArrays) -> Windows:
    edges_us = _engine.compact_edges_us()
    start_ms, end_ms = round(scenario.warmup_s * 1000), round(scenario.duration_s * 1000)
    step_ms = end_ms - start_ms if scenario.window_s is None else round(scenario.window_s * 1000)
    starts = np.arange(start_ms, end_ms, max(step_ms, 1), dtype=np.int64)
    bounds = np.append(starts, end_ms)
    delays = np.zeros((len(starts), len(edges_us)), dtype=np.uint32)
    sums = {"delivered": np.zeros(len(starts), dtype=np.uint64), "packets": np.zeros(len(starts), dtype=np.uint64)}
    # A window holds what happened after its start, up to and with its end.
    first = np.searchsorted(link.departures_ms, bounds, side="right")
    for number, (begin, end) in enumerate(pairwise(first.tolist())):
        delays[number] = _counted_ms(link.delays_ms[begin:end], edges_us).counts
        sums["delivered"][number] = link.departed_bytes[begin:end].sum()
        sums["packets"][number] = end - begin
    offered = np.diff(np.searchsorted(link.opportunities_ms, bounds, side="right")) * OPPORTUNITY_BYTES
    return Windows(starts, offered.astype(np.uint64), sums["delivered"], sums["packets"], delays, edges_us)


def _series(scenario: Scenario, link: LinkArrays, result: dict[str, Any], every_s: float) -> dict[str, Values]:
    """The points of SERIES in emulation/qos.py: what happened since the point before, or stood at it."""
    n_points = int(scenario.duration_s / every_s + 1e-9)
    ends_s: Values = np.asarray(np.arange(1, n_points + 1) * every_s, dtype=np.float64)
    bounds_ms = np.append(0.0, ends_s) * 1000
    offered = np.diff(np.searchsorted(link.opportunities_ms, bounds_ms, side="right")) * OPPORTUNITY_BYTES
    left = np.searchsorted(link.departures_ms, bounds_ms[1:], side="right")
    delays_ms = np.append(0, link.delays_ms)[left].astype(np.float64)
    came = np.searchsorted(link.arrivals_ms, bounds_ms[1:], side="right")
    dropped = np.append(0, np.cumsum(link.dropped_pkts))[np.searchsorted(link.drops_ms, bounds_ms[1:], side="right")]
    flows = []
    for number in range(len(scenario.flows)):
        sent, received = Samples(result["sent"], number), Samples(result["received"], number)
        arrived = np.diff(received.at("segments_in", bounds_ms / 1000)) / (1 - scenario.link.loss)
        flows.append(
            {
                "time_s": ends_s,
                "flow": np.full(n_points, float(number)),
                "capacity_mbps": offered * 8e-6 / every_s,
                "rate_mbps": arrived * WIRE_BYTES * 8e-6 / every_s,
                "rtt_ms": sent.last("rtt_us", ends_s) / 1000,
                "queue_pkts": np.maximum(came - left - dropped, 0).astype(np.float64),
                "queueing_delay_ms": delays_ms,
                "cwnd_pkts": sent.last("cwnd_pkts", ends_s),
                "pacing_mbps": _pacing_mbps(sent.last("pacing_bytes_per_s", ends_s)),
                "retransmitted_pkts": np.diff(sent.at("total_retrans_pkts", bounds_ms / 1000)),
            }
        )
    # A point of every flow for each moment, as the simulator has them.
    return {name: np.stack([flow[name] for flow in flows], axis=1).ravel() for name in flows[0]}


def _pacing_mbps(pacing_bytes_per_s: Values) -> Values:
    """0 where the kernel says that it does not pace."""
    return np.where(pacing_bytes_per_s < 2.0**63, pacing_bytes_per_s, 0.0) * 8e-6


def to_qos(scenario: Scenario, result: dict[str, Any], *, series_every_s: float | None = None) -> QoS:
    """The QoS of a run.

    result: of emulation/mahimahi/namespace/link.py. Raises EmulationError for a log that is none.
    """
    link = link_arrays(scenario, result)
    flows = tuple(_flow(scenario, number, result) for number in range(len(scenario.flows)))
    windows = _windows(scenario, link)
    measured_s = scenario.duration_s - scenario.warmup_s
    measured = link.departures_ms > round(scenario.warmup_s * 1000)
    delays_ms = link.delays_ms[measured]
    capacity_bytes, delivered_bytes = int(windows.capacity_bytes.sum()), int(windows.delivered_bytes.sum())
    ends = [(Samples(result["sent"], n), Samples(result["received"], n)) for n in range(len(flows))]
    span = (scenario.warmup_s, scenario.duration_s)
    resent, sent = (sum(s.gained(name, *span) for s, _ in ends) for name in ("total_retrans_pkts", "segments_out"))
    arrived = sum(float(received.at("segments_in", scenario.duration_s)) for _, received in ends)
    dropped = int(link.dropped_pkts.sum())
    return QoS(
        scenario=scenario.name,
        throughput_mbps=delivered_bytes * 8e-6 / measured_s,
        goodput_mbps=sum(flow.goodput_mbps for flow in flows),
        capacity_mbps=capacity_bytes * 8e-6 / measured_s,
        utilization=delivered_bytes / max(capacity_bytes, 1),
        queueing_delay=_counted_ms(delays_ms, _engine.delay_edges_us()),
        mean_queueing_delay_ms=float(delays_ms.mean()) if len(delays_ms) else 0.0,
        retransmission_rate=resent / max(sent, 1.0),
        packets=int(windows.packets.sum()),
        simulated_packets=len(link.departures_ms),
        sent=len(link.arrivals_ms),
        queued=max(len(link.arrivals_ms) - len(link.departures_ms) - dropped, 0),
        dropped=dropped,
        lost_at_random=max(round(len(link.departures_ms) - arrived), 0) if scenario.link.loss else 0,
        flows=flows,
        windows=windows,
        series={} if series_every_s is None else _series(scenario, link, result, series_every_s),
    )
