# SPDX-License-Identifier: MIT
"""The packet-level simulator. It runs scenarios on several threads and returns their QoS.

Equal scenarios give equal results, on any number of threads and any machine.
Runs execute in C++ without the GIL. Ctrl-C stops them within a moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.errors import EmulationError
from emulation.run.jobs import Jobs
from emulation.run.qos import (
    Delays,
    ElementQoS,
    ElementSeries,
    EpochEnd,
    FlowQoS,
    LimitEstimate,
    QoS,
    TransferQoS,
    Windows,
)
from emulation.scenario.model import MSS_BYTES, FlowSpec, Scenario, of_servers
from emulation.scenario.path import AckPath
from emulation.scenario.video import ChunkQoS, VideoFlowQoS, VideoQoS

Progress = Callable[[int], None]
_EPOCH_ENDS = ("waited", "looked_up", "raised", "kept")
_LIMITS = ("unknown", "limited", "cleared", "split")  # enum rtcp_class
_NO_STATE = 2**32 - 1


def core_version() -> str:
    """Return the SHA-256 (hex) over the sources of the core and the simulator from which the engine was built.

    A changed comment changes it, too. CMakeLists.txt compiles it into the engine, so that an installation without
    sources has it.
    """
    return _engine.SOURCES_DIGEST


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def compact_edges_us() -> NDArray[np.float64]:
    """Return the upper edges of the delay bins of windows and of `measure`, in us.

    The bins are 0.1 ms wide up to 6.4 ms, and then at most 3.1 % wide.
    """
    return _engine.compact_edges_us()


_delay_edges_us = cache(_engine.delay_edges_us)
_rtt_edges_us = cache(_engine.rtt_edges_us)


def simulate(scenario: Scenario, *, series_every_s: float | None = None, audit: bool = False) -> QoS:
    """Run one scenario.

    series_every_s: the interval of the points in `QoS.series`; None: no series.
    audit: check at every event that packets, ACKs, marks and times are consistent (emulation/cpp/simulation/audit.hpp).
    If no event is left at the end of the run, also check that all data is acknowledged. The result is the same.

    Raises EmulationError if the engine does not have an algorithm, the core does not accept an ensemble text, or the
    audit found an inconsistency.
    """
    job = Jobs().job(scenario, sample_s=series_every_s or 0.0, audit=audit)
    try:
        return _qos(scenario, _engine.run([job], 1, None)[0])
    except RuntimeError as error:
        raise EmulationError(f"{scenario.name}: {error}") from error


def simulate_many(
    scenarios: Sequence[Scenario], *, threads: int | None = None, progress: Progress | None = None
) -> list[QoS]:
    """Run scenarios in parallel and return the results in their order.

    threads: None: one for each processor. progress: called about ten times a second with the number of finished runs.

    Raises EmulationError if the engine does not have an algorithm, or the core does not accept an ensemble text.
    """
    jobs = Jobs()
    results = _engine.run([jobs.job(s) for s in scenarios], threads or default_threads(), progress)
    return [_qos(scenario, result) for scenario, result in zip(scenarios, results, strict=True)]


def _transfers(spec: FlowSpec, flow: dict[str, Any], turn: tuple[int, int]) -> tuple[TransferQoS, ...]:
    times = _rows(flow, "transfer_start_s", "transfer_complete_s")
    # The engine returns only the transfers that have begun. The plan may contain more.
    pairs = zip(times, _sizes(spec, flow, turn), strict=False)
    return tuple(TransferQoS(size, start_s, None if end_s < 0 else end_s) for (start_s, end_s), size in pairs)


def _sizes(spec: FlowSpec, flow: dict[str, Any], turn: tuple[int, int]) -> Iterable[int]:
    if spec.video is None and spec.video_of is None:
        return spec.transfer_sizes()
    page = [spec.video.page_bytes] if spec.video and spec.video.page_bytes else []
    return [*page, *flow["chunk_size_bytes"].tolist()[turn[0] :: turn[1]]]


def _with_video(spec: FlowSpec, flow: dict[str, Any], qos: FlowQoS) -> FlowQoS:
    if spec.video is None:
        return qos
    columns = ("bitrate_kbps", "size_bytes", "start_s", "complete_s", "rebuffer_s", "buffer_s")
    rows = _rows(flow, *(f"chunk_{name}" for name in columns))
    chunks = tuple(
        ChunkQoS(kbps, size, start_s, None if end_s < 0 else end_s, rebuffer_s, buffer_s)
        for kbps, size, start_s, end_s, rebuffer_s, buffer_s in rows
    )
    start_s = qos.transfers[0].start_s if qos.transfers else 0.0
    video = VideoQoS(chunks, start_s, spec.video.rebuffer_penalty_mbps, spec.video.switch_penalty)
    return VideoFlowQoS(**vars(qos), video=video)


def element_names(scenario: Scenario) -> list[str]:
    """Return the names of the path's elements in the engine's order: the kind, with a number if a kind is repeated."""
    link = scenario.link
    kinds = (
        ["delay"] * (link.delays is not None)
        + [element.kind for element in link.before]
        + ["link"]
        + ["loss"] * (link.loss > 0)
    )
    kinds += [element.kind for element in link.behind]
    return [f"{k} {kinds[: i + 1].count(k)}" if kinds.count(k) > 1 else k for i, k in enumerate(kinds)]


def _element_qos(name: str, row: dict[str, Any], delay: Delays | None = None) -> ElementQoS:
    counts = {key: value for key, value in row.items() if key != "delay_hist"}
    return ElementQoS(name=name, delay=delay or Delays(_rtt_edges_us(), row["delay_hist"]), **counts)


def _rows(flow: dict[str, Any], *names: str) -> Iterator[tuple[Any, ...]]:
    """Return the rows of columns of equal length."""
    return zip(*(flow[name].tolist() for name in names), strict=True)


def _flow_qos(spec: FlowSpec, flow: dict[str, Any], turn: tuple[int, int], measured_s: float) -> FlowQoS:
    ends = _rows(flow, "turn_at_us", "turn_measured_bytes_per_s", "turn_epoch", "turn_state", "turn_kind")
    limits = _rows(flow, "limit_at_us", "limit_kind", "limit_bucket_bytes", "limit_bytes_per_s")
    return FlowQoS(
        throughput_mbps=flow["delivered_pkts"] * 1500 * 8e-6 / measured_s,
        goodput_mbps=flow["goodput_pkts"] * 1448 * 8e-6 / measured_s,
        retransmission_rate=flow["retransmitted_pkts"] / max(flow["sent_pkts"], 1),
        timeouts=flow["timeouts"],
        undone=flow["undone"],
        complete_s=None if flow["complete_s"] < 0 else flow["complete_s"],
        rtt=Delays(_rtt_edges_us(), flow["rtt_hist"]),
        epoch_ends=tuple(
            EpochEnd(at_us / 1000, measured, epoch, None if state == _NO_STATE else state, _EPOCH_ENDS[kind])
            for at_us, measured, epoch, state, kind in ends
        ),
        transfers=_transfers(spec, flow, turn),
        limits=tuple(LimitEstimate(at_us / 1000, _LIMITS[kind], bucket, rate) for at_us, kind, bucket, rate in limits),
    )


def _qos(scenario: Scenario, result: Any) -> QoS:
    measured_s, servers = scenario.duration_s - scenario.warmup_s, of_servers(scenario)
    raw_flows = result.flows
    pairs = list(zip(scenario.flows, raw_flows, strict=True))
    flows = tuple(
        _with_video(spec, flow, _flow_qos(spec, flow, scenario.video_turn(number), measured_s))
        for number, (spec, flow) in enumerate(pairs)
    )
    delay = Delays(_delay_edges_us(), result.delay_hist)
    rows = zip(element_names(scenario), result.elements, strict=True)
    sampled = result.element_series
    windows = result.windows
    sent = sum(flow["sent_pkts"] for flow in raw_flows)
    return QoS(
        scenario=scenario.name,
        throughput_mbps=result.delivered_bytes * 8e-6 / measured_s,
        goodput_mbps=sum(flow.goodput_mbps for flow in flows),
        capacity_mbps=result.capacity_bytes * 8e-6 / measured_s,
        utilization=result.delivered_bytes / max(result.capacity_bytes, 1),
        queueing_delay=delay,
        mean_queueing_delay_ms=result.delay_sum_s * 1000 / max(result.packets, 1),
        retransmission_rate=sum(flow["retransmitted_pkts"] for flow in raw_flows) / max(sent, 1),
        packets=result.packets,
        simulated_packets=result.all_packets,
        sent=sum(flow["all_sent_pkts"] for flow in raw_flows),
        queued=result.queued,
        dropped=result.dropped,
        lost_at_random=result.lost_at_random,
        flows=flows,
        windows=Windows(
            windows["start_ms"],
            windows["capacity_bytes"],
            windows["delivered_bytes"],
            windows["packets"],
            windows["hist"],
            compact_edges_us(),
        ),
        series=result.series,
        elements=tuple(_element_qos(name, row, delay if name == "link" else None) for name, row in rows),
        element_series=ElementSeries(sampled["time_s"], sampled["dropped"], sampled["inside"]),
        acks=None if scenario.link.acks == AckPath() else _element_qos("acks", result.acks),
        servers=None if servers is None else _qos(servers, result.servers),
        buffered_bytes=result.proxy["buffered_pkts"] * MSS_BYTES if scenario.proxy is not None else None,
    )
