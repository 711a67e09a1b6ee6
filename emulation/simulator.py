# SPDX-License-Identifier: MIT
"""The packet-level simulator: scenarios in, QoS out, on as many threads as there are.

Equal scenarios give equal results, on any number of threads and any machine.
Runs happen in C++ without the GIL; Ctrl-C stops them within a moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.errors import EmulationError
from emulation.path import (
    AccessLink,
    AckPath,
    Clock,
    GilbertElliott,
    Jitter,
    LinkRate,
    PathElement,
    Policer,
    QueuedLink,
    RandomLoss,
    RateStep,
    Reorder,
    Shaper,
    SteppedPolicer,
)
from emulation.qos import (
    Delays,
    ElementQoS,
    ElementSeries,
    EpochTurn,
    FlowQoS,
    LimitEstimate,
    QoS,
    TransferQoS,
    Windows,
)
from emulation.scenario import FlowSpec, ReceiverSpec, Scenario
from emulation.traces import Trace
from emulation.video import ChunkQoS, VideoFlowQoS, VideoQoS, VideoSpec

__all__ = [
    "GridResult",
    "compact_edges_us",
    "default_threads",
    "element_names",
    "evaluate_grid",
    "simulate",
    "simulate_many",
]

Progress = Callable[[int], None]
_TURNS = ("waited", "looked_up", "raised", "kept")
_LIMITS = ("unknown", "limited", "cleared", "split")  # enum rtcp_class
_NO_STATE = 2**32 - 1
BYTES_PER_S = 125_000  # of one Mbit/s


def default_threads() -> int:
    """As many as this process may use processors."""
    return len(os.sched_getaffinity(0))


@cache
def compact_edges_us() -> NDArray[np.float64]:
    """Upper edges of the delay bins of windows and grids: 0.1 ms up to 6.4 ms, then at most 3.1 % wide."""
    return _engine.compact_edges_us()


@cache
def _delay_edges_us() -> NDArray[np.float64]:
    return _engine.delay_edges_us()


@cache
def _rtt_edges_us() -> NDArray[np.float64]:
    return _engine.rtt_edges_us()


def _opportunities(trace: Trace, made: dict[int, Any]) -> Any:
    # Once per trace object: jobs of one call share it.
    if id(trace) not in made:
        made[id(trace)] = _engine.Opportunities(trace.opportunities_ms, trace.period_ms)
    return made[id(trace)]


def _table(text: str, cca: str, made: dict[str, Any]) -> Any:
    if text not in made:
        try:
            made[text] = _engine.Table(text, cca)
        except OSError as error:
            raise EmulationError(f"{error.strerror}; write it with kmod.ensemble.table_text") from error
    return made[text]


class _Jobs:
    """Builds the engine's jobs; traces and tables are taken over once."""

    def __init__(self) -> None:
        self._traces: dict[int, Any] = {}
        self._tables: dict[str, Any] = {}

    def flow(self, flow: FlowSpec, clients: dict[str, int]) -> Any:
        table = None if flow.ensemble_text is None else _table(flow.ensemble_text, flow.cca, self._tables)
        plan = () if flow.video is not None else flow.plan
        transfers = [_engine.Transfer(part.size_pkts, part.gap_s, part.count) for part in plan]
        client = clients.setdefault(flow.client, len(clients))
        return _engine.FlowJob(
            flow.cca, flow.values(), table, flow.delay_class, flow.start_s, flow.stop_s, transfers, client,
            self.receiver(flow.receiver), flow.after, None if flow.video is None else self.video(flow.video),
        )  # fmt: skip

    def video(self, video: VideoSpec) -> Any:
        return _engine.Video(
            abr=video.abr,
            bitrates_kbps=video.bitrates_kbps,
            sizes_bytes=video.sizes,
            chunk_s=video.chunk_s,
            most_buffer_s=video.buffer_s,
            first=video.first,
            page_bytes=video.page_bytes,
            rebuffer_penalty_mbps=video.rebuffer_penalty_mbps,
            switch_penalty=video.switch_penalty,
        )

    def receiver(self, receiver: ReceiverSpec) -> Any:
        return _engine.ReceiverConfig(
            ack_every=receiver.ack_every,
            delay_ms=receiver.ack_delay_ms,
            quick_acks=receiver.quick_acks,
            burst_pkts=receiver.stretch_pkts,
            burst_gap_ms=receiver.stretch_gap_ms,
            window_pkts=receiver.window_pkts,
            autotune=receiver.autotune,
        )

    def link(self, link: LinkRate, *, queue: QueuedLink | None = None) -> Any:
        """A link of the engine; without a queue's fields it is as for ACKs, without bound."""
        codel = None if queue is None else queue.codel
        return _engine.LinkConfig(
            trace=None if link.trace is None else _opportunities(link.trace, self._traces),
            steps=_engine.RateSteps([(s.at_s, s.rate_mbps * BYTES_PER_S) for s in link.steps]) if link.steps else None,
            rate_bytes_per_s=0.0 if link.rate_mbps is None else link.rate_mbps * BYTES_PER_S,
            start_ms=link.start_ms,
            opportunity_bytes=link.opportunity_bytes,
            buffer_pkts=None if queue is None else queue.buffer_pkts,
            buffer_bytes=None if queue is None else queue.buffer_bytes,
            codel_ms=None if codel is None else (codel.target_ms, codel.interval_ms),
        )

    def policer(self, element: Policer | SteppedPolicer) -> Any:
        steps = (RateStep(at_s=0, rate_mbps=element.rate_mbps),) if isinstance(element, Policer) else element.steps
        (_, first), *changes = [(step.at_s, step.rate_mbps * BYTES_PER_S) for step in steps]
        return _engine.Policer(first, element.bucket_bytes, element.per == "flow", changes)

    def element(self, element: PathElement) -> Any:
        match element:
            case AccessLink():
                return self.link(element, queue=element)
            case Policer() | SteppedPolicer():
                return self.policer(element)
            case Shaper():
                rate_bytes_per_s, per_flow = element.rate_mbps * BYTES_PER_S, element.per == "flow"
                return _engine.Shaper(rate_bytes_per_s, element.bucket_bytes, per_flow, element.queue_bytes)
            case RandomLoss():
                return _engine.RandomLoss(element.share)
            case GilbertElliott():
                return _engine.GilbertElliott(element.to_bad, element.to_good, element.loss_good, element.loss_bad)
            case Jitter():
                return _engine.Delayer(1.0, 0.0, element.max_ms, not element.reorder)
            case Clock():
                return _engine.Clock(element.least_ms, element.most_ms)
            case Reorder():
                return _engine.Delayer(element.share, element.delay_ms, element.delay_ms, in_order=False)

    def job(self, scenario: Scenario, *, sample_s: float = 0.0, audit: bool = False) -> Any:
        link, clients = scenario.link, dict[str, int]()
        uplink = None if link.acks.uplink is None else self.link(link.acks.uplink)
        return _engine.Job(
            flows=[self.flow(flow, clients) for flow in scenario.flows],
            link=self.link(link, queue=link),
            before=[self.element(element) for element in link.before],
            behind=[self.element(element) for element in link.behind],
            acks=_engine.AckPath(link.acks.interval_ms or 0.0, uplink),
            rtt_ms=link.rtt_ms,
            loss=link.loss,
            duration_s=scenario.duration_s,
            warmup_s=scenario.warmup_s,
            window_s=scenario.window_s or 0.0,
            sample_s=sample_s,
            seed=scenario.seed,
            audit=audit,
            keep_s=scenario.client_keep_s,
        )


def simulate(scenario: Scenario, *, series_every_s: float | None = None, audit: bool = False) -> QoS:
    """Run one scenario; with series_every_s, `QoS.series` holds a point per flow that often.

    audit: check at every event that packets, ACKs, marks and times add up (emulation/cpp/simulation/audit.hpp says
    how), and at an end at which nothing is left to happen that all is acknowledged; the result is the same.

    Raises:
        EmulationError: an algorithm that the engine does not have, an ensemble text that the core does not take, or,
            audited, what does not add up.
    """
    job = _Jobs().job(scenario, sample_s=series_every_s or 0.0, audit=audit)
    try:
        return _qos(scenario, _engine.run([job], 1, None)[0])
    except RuntimeError as error:
        raise EmulationError(f"{scenario.name}: {error}") from error


def simulate_many(
    scenarios: Sequence[Scenario], *, threads: int | None = None, progress: Progress | None = None
) -> list[QoS]:
    """Run scenarios on threads (None: all processors); results in their order.

    progress: called about ten times a second with the number of runs done.

    Raises:
        EmulationError: an algorithm that the engine does not have, an ensemble text that the core does not take.
    """
    jobs = _Jobs()
    results = _engine.run([jobs.job(s) for s in scenarios], threads or default_threads(), progress)
    return [_qos(scenario, result) for scenario, result in zip(scenarios, results, strict=True)]


@dataclass(frozen=True, eq=False)
class GridResult:
    """Runs of every scenario (n) with every parameter set (m), over the measured time.

    capacity_bytes, delivered_bytes, packets: uint64 [n, m]; delay_counts: uint32
    [n, m, n_bins] in bins that end at edges_us.
    """

    capacity_bytes: NDArray[np.uint64]
    delivered_bytes: NDArray[np.uint64]
    packets: NDArray[np.uint64]
    delay_counts: NDArray[np.uint32]
    edges_us: NDArray[np.float64]


def evaluate_grid(
    scenarios: Sequence[Scenario],
    params: Sequence[dict[str, int]],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> GridResult:
    """Run each scenario with each parameter set in place of its first flow's.

    Raises:
        EmulationError: no scenarios, no sets, or a set that the algorithm does not take.
    """
    if not scenarios or not params:
        raise EmulationError(f"grid: expected scenarios and sets, got {len(scenarios)} and {len(params)}")
    cca = scenarios[0].flows[0].cca
    try:
        rows = [FlowSpec(cca=cca, params=dict(values)).values() for values in params]
    except ValueError as error:
        raise EmulationError(f"grid: {error}") from error
    jobs = _Jobs()
    out = _engine.grid(
        [jobs.job(scenario) for scenario in scenarios],
        np.asarray(rows, dtype=np.uint32),
        threads or default_threads(),
        progress,
    )
    return GridResult(out["capacity_bytes"], out["delivered_bytes"], out["packets"], out["hist"], compact_edges_us())


def _transfers(spec: FlowSpec, flow: dict[str, Any]) -> tuple[TransferQoS, ...]:
    times = zip(flow["transfer_start_s"].tolist(), flow["transfer_complete_s"].tolist(), strict=True)
    # Those that have begun; the plan may hold more.
    pairs = zip(times, _sizes(spec, flow), strict=False)
    return tuple(TransferQoS(size, start_s, None if end_s < 0 else end_s) for (start_s, end_s), size in pairs)


def _sizes(spec: FlowSpec, flow: dict[str, Any]) -> Iterable[int]:
    if spec.video is None:
        return spec.transfer_sizes()
    page = [spec.video.page_bytes] if spec.video.page_bytes else []
    return [*page, *flow["chunk_size_bytes"].tolist()]


def _with_video(spec: FlowSpec, flow: dict[str, Any], qos: FlowQoS) -> FlowQoS:
    if spec.video is None:
        return qos
    columns = ("bitrate_kbps", "size_bytes", "start_s", "complete_s", "rebuffer_s", "buffer_s")
    rows = zip(*(flow[f"chunk_{name}"].tolist() for name in columns), strict=True)
    chunks = tuple(
        ChunkQoS(kbps, size, start_s, None if end_s < 0 else end_s, rebuffer_s, buffer_s)
        for kbps, size, start_s, end_s, rebuffer_s, buffer_s in rows
    )
    start_s = qos.transfers[0].start_s if qos.transfers else 0.0
    video = VideoQoS(chunks, start_s, spec.video.rebuffer_penalty_mbps, spec.video.switch_penalty)
    return VideoFlowQoS(**vars(qos), video=video)


def element_names(scenario: Scenario) -> list[str]:
    """Kinds in the order of the engine's rows, numbered where a kind comes twice."""
    link = scenario.link
    kinds = [element.kind for element in link.before] + ["link"] + ["loss"] * (link.loss > 0)
    kinds += [element.kind for element in link.behind]
    return [f"{k} {kinds[: i + 1].count(k)}" if kinds.count(k) > 1 else k for i, k in enumerate(kinds)]


def _element_qos(name: str, row: dict[str, Any], delay: Delays | None = None) -> ElementQoS:
    return ElementQoS(
        name=name,
        entered=row["entered"],
        passed=row["passed"],
        dropped=row["dropped"],
        codel_dropped=row["codel_dropped"],
        inside=row["inside"],
        delay=delay or Delays(_rtt_edges_us(), row["delay_hist"]),
    )


def _flow_qos(spec: FlowSpec, flow: dict[str, Any], measured_s: float) -> FlowQoS:
    turns = zip(
        flow["turn_at_us"].tolist(),
        flow["turn_measured_bytes_per_s"].tolist(),
        flow["turn_epoch"].tolist(),
        flow["turn_state"].tolist(),
        flow["turn_kind"].tolist(),
        strict=True,
    )
    return FlowQoS(
        throughput_mbps=flow["delivered_pkts"] * 1500 * 8e-6 / measured_s,
        goodput_mbps=flow["goodput_pkts"] * 1448 * 8e-6 / measured_s,
        retransmission_rate=flow["retransmitted_pkts"] / max(flow["sent_pkts"], 1),
        timeouts=flow["timeouts"],
        undone=flow["undone"],
        complete_s=None if flow["complete_s"] < 0 else flow["complete_s"],
        rtt=Delays(_rtt_edges_us(), flow["rtt_hist"]),
        turns=tuple(
            EpochTurn(at_us / 1000, measured, epoch, None if state == _NO_STATE else state, _TURNS[kind])
            for at_us, measured, epoch, state, kind in turns
        ),
        transfers=_transfers(spec, flow),
        limits=_limits(flow),
    )


def _limits(flow: dict[str, Any]) -> tuple[LimitEstimate, ...]:
    columns = ("limit_at_us", "limit_kind", "limit_bucket_bytes", "limit_bytes_per_s")
    rows = zip(*(flow[name].tolist() for name in columns), strict=True)
    return tuple(LimitEstimate(at_us / 1000, _LIMITS[kind], bucket, rate) for at_us, kind, bucket, rate in rows)


def _qos(scenario: Scenario, result: Any) -> QoS:
    measured_s = scenario.duration_s - scenario.warmup_s
    raw_flows = result.flows
    pairs = list(zip(scenario.flows, raw_flows, strict=True))
    flows = tuple(_with_video(spec, flow, _flow_qos(spec, flow, measured_s)) for spec, flow in pairs)
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
    )
