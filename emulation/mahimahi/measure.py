# SPDX-License-Identifier: MIT
"""Computes the QoS of a run over Mahimahi from its raw results. The simulator returns the same QoS.

    link          from mm-link's log: capacity (opportunities of 1500 bytes), throughput (IP bytes that left), drops,
                  and the queueing delay of each packet (whole ms, including its own transmission)
    flow          throughput = 1500 bytes x data segments that left the link. These are the segments that arrived, at
                  the receiver or at the first policer behind the link, / (1 - loss)
                  goodput = bytes that the receiver's TCP received in order
                  retransmission rate = retransmitted segments / sent segments
    elements      the link's row from its log, the policers' rows from their counters, the row of random loss from the
                  segments that left the link and those that arrived. Packets between two elements are in no row
    acks          the same from mm-link's log of the ACKs: how many came and left, and how long each waited
    RTT, cwnd     samples of the sender's tcp_info
    proxy         its sockets are the senders of the flows, and the receivers of the servers' connections. The data in
                  its buffers is what the latter have received and the clients have not acknowledged

DEVIATION: The kernel reports only the smoothed RTT, which is sampled at regular times. Its distribution is therefore
narrower than that of the simulator, which counts the RTT of every ACK.
DEVIATION: `undone` (spurious timeouts) is counted per namespace. It is reported for a flow that is alone, otherwise 0.

The measured time is (warmup_s, duration_s]. A sample counts at the time at which it was taken.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.mahimahi.arrays import WIRE_BYTES, LinkArrays, RunArrays, Samples, Times, Values
from emulation.run.qos import Delays, ElementQoS, ElementSeries, FlowQoS, QoS, TransferQoS, Windows
from emulation.run.simulator import element_names
from emulation.scenario.model import FlowSpec, Scenario, of_servers
from emulation.traces import OPPORTUNITY_BYTES


def _counted(values_us: Values, edges_us: Values) -> Delays:
    bins = np.minimum(np.searchsorted(edges_us, values_us, side="left"), len(edges_us) - 1)
    return Delays(edges_us, np.bincount(bins, minlength=len(edges_us)))


def _counted_ms(values_ms: Times, edges_us: Values) -> Delays:
    return _counted(np.asarray(values_ms * 1000, dtype=np.float64), edges_us)


def _transfers(spec: FlowSpec, times_s: list[list[float | None]]) -> tuple[TransferQoS, ...]:
    pairs = zip(times_s, spec.transfer_sizes(), strict=False)
    return tuple(TransferQoS(size, start_s or 0.0, complete_s) for (start_s, complete_s), size in pairs)


def _is_sending(sent: Samples, spec: FlowSpec, transfers: tuple[TransferQoS, ...], end_s: float) -> NDArray[np.bool_]:
    """Return which samples were taken while the flow had data to send or unacknowledged data."""
    stop_s = end_s if spec.stop_s is None else min(spec.stop_s, end_s)
    busy_s = [(transfer.start_s, transfer.complete_s or end_s) for transfer in transfers]
    if not spec.plan:
        busy_s = [(spec.start_s, stop_s)]
    chosen = np.zeros(len(sent.time_s), dtype=np.bool_)
    for start_s, until_s in busy_s:
        first, last = np.searchsorted(sent.time_s, [start_s, min(until_s, stop_s)], side="right")
        chosen[first:last] = True
    return chosen


def _flow(run: RunArrays, number: int) -> FlowQoS:
    scenario, spec = run.scenario, run.scenario.flows[number]
    sent, received = run.ends[number]
    span = (scenario.warmup_s, scenario.duration_s)
    left_pkts = np.diff(run.left_link_pkts(number, np.asarray(span))).item()
    transfers = _transfers(spec, run.result["sent"]["transfers"].get(str(number), []))
    is_over = bool(transfers) and len(transfers) == sum(plan.count for plan in spec.plan)
    counts = _is_sending(sent, spec, transfers, span[1]) & (sent.time_s > span[0])
    return FlowQoS(
        throughput_mbps=left_pkts * WIRE_BYTES * 8e-6 / (span[1] - span[0]),
        goodput_mbps=received.gained("received_bytes", *span) * 8e-6 / (span[1] - span[0]),
        retransmission_rate=sent.gained("total_retrans_pkts", *span) / max(sent.gained("segments_out", *span), 1.0),
        timeouts=round(sent.gained("timeouts", *span)),
        undone=run.result["counters"]["TCPSpuriousRTOs"] if len(scenario.flows) == 1 else 0,
        complete_s=transfers[-1].complete_s if is_over else None,
        rtt=_counted(sent.columns["rtt_us"][counts], _engine.rtt_edges_us()),
        epoch_ends=(),
        transfers=transfers,
    )


def _windows(scenario: Scenario, link: LinkArrays) -> Windows:
    edges_us = _engine.compact_edges_us()
    start_ms, end_ms = round(scenario.warmup_s * 1000), round(scenario.duration_s * 1000)
    step_ms = end_ms - start_ms if scenario.window_s is None else round(scenario.window_s * 1000)
    starts = np.arange(start_ms, end_ms, max(step_ms, 1), dtype=np.int64)
    bounds = np.append(starts, end_ms)
    delays = np.zeros((len(starts), len(edges_us)), dtype=np.uint32)
    sums = {"delivered": np.zeros(len(starts), dtype=np.uint64), "packets": np.zeros(len(starts), dtype=np.uint64)}
    # A window contains the events after its start, up to and including its end.
    first = np.searchsorted(link.departures_ms, bounds, side="right")
    for number, (begin, end) in enumerate(pairwise(first.tolist())):
        delays[number] = _counted_ms(link.delays_ms[begin:end], edges_us).counts
        sums["delivered"][number] = link.departed_bytes[begin:end].sum()
        sums["packets"][number] = end - begin
    offered = np.diff(np.searchsorted(link.opportunities_ms, bounds, side="right")) * OPPORTUNITY_BYTES
    return Windows(starts, offered.astype(np.uint64), sums["delivered"], sums["packets"], delays, edges_us)


def _points_s(scenario: Scenario, every_s: float) -> Values:
    n_points = int(scenario.duration_s / every_s + 1e-9)
    return np.asarray(np.arange(1, n_points + 1) * every_s, dtype=np.float64)


def _series(run: RunArrays, every_s: float) -> dict[str, Values]:
    """Return the columns of SERIES in emulation/run/qos.py."""
    link, ends_s = run.link, _points_s(run.scenario, every_s)
    bounds_s = np.append(0.0, ends_s)
    offered = np.diff(np.searchsorted(link.opportunities_ms, bounds_s * 1000, side="right")) * OPPORTUNITY_BYTES
    left = np.searchsorted(link.departures_ms, ends_s * 1000, side="right")
    delays_ms = np.append(0, link.delays_ms)[left].astype(np.float64)
    flows = []
    for number, (sent, _) in enumerate(run.ends):
        flows.append(
            {
                "time_s": ends_s,
                "flow": np.full(len(ends_s), float(number)),
                "capacity_mbps": offered * 8e-6 / every_s,
                "rate_mbps": np.diff(run.left_link_pkts(number, bounds_s)) * WIRE_BYTES * 8e-6 / every_s,
                "rtt_ms": sent.last("rtt_us", ends_s) / 1000,
                "queue_pkts": run.at_link(ends_s)[2].astype(np.float64),
                "queueing_delay_ms": delays_ms,
                "cwnd_pkts": sent.last("cwnd_pkts", ends_s),
                "pacing_mbps": _pacing_mbps(sent.last("pacing_bytes_per_s", ends_s)),
                "retransmitted_pkts": np.diff(sent.at("total_retrans_pkts", bounds_s)),
            }
        )
    # Ordered by time, then by flow, as in the simulator.
    return {name: np.stack([flow[name] for flow in flows], axis=1).ravel() for name in flows[0]}


def _pacing_mbps(pacing_bytes_per_s: Values) -> Values:
    """Convert pacing rates to Mbit/s; 0 where the kernel reports that it does not pace."""
    return np.where(pacing_bytes_per_s < 2.0**63, pacing_bytes_per_s, 0.0) * 8e-6


def _elements(run: RunArrays, queueing_delay: Delays) -> tuple[ElementQoS, ...]:
    nothing = Delays(_engine.rtt_edges_us(), np.zeros(len(_engine.rtt_edges_us()), dtype=np.uint32))
    rows = []
    ends = run.elements(np.asarray([run.scenario.duration_s]))
    # The shell that delays packets counts none.
    names = [name for name in element_names(run.scenario) if name != "delay"]
    for name, values in zip(names, ends, strict=True):
        entered, dropped, inside = (round(value.item()) for value in values)
        delay = queueing_delay if name == "link" else nothing
        rows.append(ElementQoS(name, entered, entered - dropped - inside, dropped, 0, inside, delay))
    return tuple(rows)


def _acks(run: RunArrays) -> ElementQoS | None:
    if run.acks is None:
        return None
    entered, passed = len(run.acks.arrivals_ms), len(run.acks.departures_ms)
    waits_ms = run.acks.delays_ms[run.acks.departures_ms > round(run.scenario.warmup_s * 1000)]
    delay = _counted_ms(waits_ms, _engine.rtt_edges_us())
    return ElementQoS("acks", entered, passed, 0, 0, max(entered - passed, 0), delay)


def _element_series(run: RunArrays, every_s: float) -> ElementSeries:
    ends_s = _points_s(run.scenario, every_s)
    _, dropped, inside = (np.round(np.stack(rows, axis=1)) for rows in zip(*run.elements(ends_s), strict=True))
    # The random loss is a difference of two counts. Packets between the counters can make it decrease.
    dropped = np.maximum.accumulate(dropped, axis=0)
    since = np.diff(dropped, axis=0, prepend=0.0)
    return ElementSeries(ends_s, since.astype(np.uint64), inside.astype(np.uint64))


def to_qos(scenario: Scenario, result: dict[str, Any], *, series_every_s: float | None = None) -> QoS:
    """Return the QoS of a run.

    result: the output of emulation/mahimahi/namespace/link.py.

    Raises EmulationError if its log is not a log of mm-link.
    """
    servers, proxy = of_servers(scenario), result.get("proxy")
    if servers is None or proxy is None:
        return _to_qos(scenario, result, series_every_s=series_every_s)
    of_clients = {**result, "sent": proxy["sent"], "counters": proxy["counters"]}
    to_proxy = {**result, "received": proxy["received"], "log": proxy["log"], "lead_ms": proxy["lead_ms"]}
    return replace(
        _to_qos(scenario, of_clients, series_every_s=series_every_s),
        servers=_to_qos(servers, {**to_proxy, "policers": {}}),
        buffered_bytes=None if series_every_s is None else _buffered_bytes(scenario, proxy, series_every_s),
    )


def _buffered_bytes(scenario: Scenario, proxy: dict[str, Any], every_s: float) -> NDArray[np.uint64]:
    held = np.zeros(1)
    for number in range(len(scenario.flows)):
        sent, received = Samples(proxy["sent"], number), Samples(proxy["received"], number)
        times_s = _points_s(scenario, every_s)
        held = held + received.at("received_bytes", times_s) - sent.at("acked_bytes", times_s)
    return np.maximum(held, 0).astype(np.uint64)


def _to_qos(scenario: Scenario, result: dict[str, Any], *, series_every_s: float | None = None) -> QoS:
    run = RunArrays(scenario, result)
    link, span = run.link, (scenario.warmup_s, scenario.duration_s)
    flows = tuple(_flow(run, number) for number in range(len(scenario.flows)))
    windows = _windows(scenario, link)
    delays_ms = link.delays_ms[link.departures_ms > round(scenario.warmup_s * 1000)]
    queueing_delay = _counted_ms(delays_ms, _engine.delay_edges_us())
    capacity_bytes, delivered_bytes = int(windows.capacity_bytes.sum()), int(windows.delivered_bytes.sum())
    retransmitted, sent = (
        sum(s.gained(name, *span) for s, _ in run.ends) for name in ("total_retrans_pkts", "segments_out")
    )
    elements = _elements(run, queueing_delay)
    of_link = next(element for element in elements if element.name == "link")
    return QoS(
        scenario=scenario.name,
        throughput_mbps=delivered_bytes * 8e-6 / (span[1] - span[0]),
        goodput_mbps=sum(flow.goodput_mbps for flow in flows),
        capacity_mbps=capacity_bytes * 8e-6 / (span[1] - span[0]),
        utilization=delivered_bytes / max(capacity_bytes, 1),
        queueing_delay=queueing_delay,
        mean_queueing_delay_ms=float(delays_ms.mean()) if len(delays_ms) else 0.0,
        retransmission_rate=retransmitted / max(sent, 1.0),
        packets=int(windows.packets.sum()),
        simulated_packets=of_link.passed,
        sent=elements[0].entered,
        queued=of_link.inside,
        dropped=of_link.dropped,
        lost_at_random=sum(element.dropped for element in elements if element.name == "loss"),
        flows=flows,
        windows=windows,
        series={} if series_every_s is None else _series(run, series_every_s),
        elements=elements,
        element_series=None if series_every_s is None else _element_series(run, series_every_s),
        acks=_acks(run),
    )
