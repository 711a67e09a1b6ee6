# SPDX-License-Identifier: MIT
"""Converts scenarios into the jobs of the engine."""

from __future__ import annotations

from typing import Any

from emulation import _engine
from emulation.errors import EmulationError
from emulation.scenario.delays import BaseDelay
from emulation.scenario.model import FlowSpec, ReceiverSpec, Scenario, of_servers
from emulation.scenario.path import (
    AccessLink,
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
from emulation.scenario.video import VideoSpec
from emulation.traces import Trace
from kmod.abi import ALGORITHMS

BYTES_PER_S = 125_000  # of one Mbit/s


def require_current(engine: Any) -> None:
    """Raises EmulationError if the engine was built with other parameters: jobs give it values by their order."""
    expected = [f"{name}.{spec.name}" for name, algorithm in ALGORITHMS.items() for spec in algorithm.params]
    if not hasattr(engine, "parameters") or engine.parameters() != expected:
        raise EmulationError(f"{engine.__file__}: expected an engine with the parameters of kmod/core/params.def, "
                             "got one that was built with others; run `make build`")  # fmt: skip


require_current(_engine)


class Jobs:
    """Builds the engine's jobs. Each trace and each table is converted once and then shared."""

    def __init__(self) -> None:
        self._traces: dict[int, Any] = {}
        self._tables: dict[str, Any] = {}

    def table(self, text: str | None, cca: str) -> Any:
        """Return the parsed table of an algorithm; None without a text."""
        if text is not None and text not in self._tables:
            try:
                self._tables[text] = _engine.Table(text, cca)
            except OSError as error:
                raise EmulationError(f"{error.strerror}; write it with kmod.ensemble.table_text") from error
        return None if text is None else self._tables[text]

    def opportunities(self, trace: Trace) -> Any:
        """Return the opportunities of a trace."""
        if id(trace) not in self._traces:
            self._traces[id(trace)] = _engine.Opportunities(trace.opportunities_ms, trace.period_ms)
        return self._traces[id(trace)]

    def flow(self, flow: FlowSpec, clients: dict[str, int], buffer_pkts: int | None = None) -> Any:
        """Return a flow of the engine. buffer_pkts: of the proxy that receives it."""
        table = self.table(flow.ensemble_text, flow.cca)
        plan = () if flow.video is not None or flow.video_of is not None else flow.plan
        transfers = [_engine.Transfer(part.size_pkts, part.gap_s, part.count) for part in plan]
        client = clients.setdefault(flow.client, len(clients))
        return _engine.FlowJob(
            flow.cca, flow.values(), table, flow.delay_class, flow.start_s, flow.stop_s, transfers, client,
            self.receiver(flow.receiver, buffer_pkts), flow.after,
            None if flow.video is None else self.video(flow.video), flow.video_of,
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

    def receiver(self, receiver: ReceiverSpec, buffer_pkts: int | None = None) -> Any:
        return _engine.ReceiverConfig(
            ack_every=receiver.ack_every,
            delay_ms=receiver.ack_delay_ms,
            quick_acks=receiver.quick_acks,
            burst_pkts=receiver.stretch_pkts,
            burst_gap_ms=receiver.stretch_gap_ms,
            window_pkts=receiver.window_pkts,
            autotune=receiver.autotune,
            buffer_pkts=buffer_pkts,
        )

    def link(self, link: LinkRate, *, queue: QueuedLink | None = None) -> Any:
        """Return a link of the engine. If `queue` is None, the link's queue is unbounded, as for the uplink of ACKs."""
        codel = None if queue is None else queue.codel
        return _engine.LinkConfig(
            trace=None if link.trace is None else self.opportunities(link.trace),
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

    def delays(self, delays: BaseDelay) -> Any:
        """Return the delays of one direction."""
        steps = [(step.at_s, step.rtt_ms / 2) for step in delays.steps]
        return _engine.DelaySteps(steps, delays.period_s or 0.0)

    def job(self, scenario: Scenario, *, sample_s: float = 0.0, audit: bool = False) -> Any:
        """Return the job of a scenario, which of one with a proxy has a job of the servers in it."""
        servers, side = None, of_servers(scenario)
        if side is not None and scenario.proxy is not None:
            servers = self._job(side, sample_s=0.0, audit=audit, buffer_pkts=scenario.proxy.buffer_pkts)
        return self._job(scenario, sample_s=sample_s, audit=audit, servers=servers)

    def _job(
        self, scenario: Scenario, *, sample_s: float, audit: bool, buffer_pkts: int | None = None, servers: Any = None
    ) -> Any:
        link, clients = scenario.link, dict[str, int]()
        uplink = None if link.acks.uplink is None else self.link(link.acks.uplink)
        delays = None if link.delays is None else self.delays(link.delays)
        return _engine.Job(
            flows=[self.flow(flow, clients, buffer_pkts) for flow in scenario.flows],
            link=self.link(link, queue=link),
            before=[
                *([] if delays is None else [_engine.BaseDelay(delays)]),
                *(self.element(element) for element in link.before),
            ],
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
            delays=delays,
            servers=servers,
        )
