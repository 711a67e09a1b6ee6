# SPDX-License-Identifier: MIT
"""How an ensemble does where it was not trained: other paths, company, other lengths of flows.

One thing is changed at a time from the conditions it was trained in (RTT 100 ms,
1000 packets, no loss, one flow over the whole recording), and for each the pooled
figures of every target are given. Two flows share the link from the beginning, or
one joins the other 10 s later (shorter recordings then have one flow alone);
utilisation is theirs together, and fairness is Jain's index of their throughputs,
each recording weighted by its length. Flows of a given length follow each other
over the recordings, each beginning anew with slow start. Jitter holds each packet
behind the link for a time drawn evenly from 0 to so many ms, in order; 1 ms is what
Mahimahi's clock does.

The line: with another RTT (20 to 200 ms), buffer (200 to 1000 packets), jitter or
length (30, 120 s), the delay stays within 1.5 times the target. Loss, company and flows
of 10 s, a third of which is slow start, are shown without a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from emulation.path import Jitter
from emulation.qos import QoS
from emulation.scenario import FlowSpec, LinkSpec, Scenario
from emulation.simulator import simulate_many
from emulation.traces import Recording
from kmod.ensemble import Deployment, Ensemble, table_text

__all__ = ["CONDITIONS", "MOST_EXCESS", "Condition", "robustness"]

MOST_EXCESS = 1.5


@dataclass(frozen=True)
class Condition:
    """One line of the table.

    flow_s: length of each flow; None: as long as the recording. late_s: after so long the second flow starts.
    """

    name: str
    rtt_ms: float = 100.0
    buffer_pkts: int = 1000
    loss: float = 0.0
    jitter_ms: float = 0.0
    flows: int = 1
    late_s: float = 0.0
    flow_s: float | None = None
    has_line: bool = True


_TRAINED = Condition("as trained")
CONDITIONS = (
    _TRAINED,
    *(replace(_TRAINED, name=f"RTT {rtt_ms} ms", rtt_ms=float(rtt_ms)) for rtt_ms in (20, 50, 150, 200)),
    *(replace(_TRAINED, name=f"buffer {pkts}", buffer_pkts=pkts) for pkts in (200, 500)),
    *(replace(_TRAINED, name=f"jitter {jitter_ms} ms", jitter_ms=float(jitter_ms)) for jitter_ms in (1, 3)),
    *(replace(_TRAINED, name=f"loss {pct} %", loss=pct / 100, has_line=False) for pct in (0.1, 1)),
    replace(_TRAINED, name="two flows", flows=2, has_line=False),
    replace(_TRAINED, name="one joins late", flows=2, late_s=10.0, has_line=False),
    replace(_TRAINED, name="flows of 10 s", flow_s=10.0, has_line=False),
    *(replace(_TRAINED, name=f"flows of {s} s", flow_s=float(s)) for s in (30, 120)),
)


def _pieces(recording: Recording, flow_s: float | None) -> Iterator[tuple[int, int]]:
    """Begin and end (ms) of flows that follow each other; a rest below half a flow is left out, unless it is all."""
    period_ms = recording.trace.period_ms
    step_ms = period_ms if flow_s is None else round(flow_s * 1000)
    for begin_ms in range(0, period_ms, step_ms):
        end_ms = min(begin_ms + step_ms, period_ms)
        if not begin_ms or 2 * (end_ms - begin_ms) >= step_ms:
            yield begin_ms, end_ms


def _scenarios(
    cca: str, text: str, condition: Condition, recordings: Sequence[Recording], delay_class: int
) -> list[Scenario]:
    flow = FlowSpec(cca=cca, ensemble_text=text, delay_class=delay_class)
    return [
        Scenario(
            name=f"{condition.name} on {recording.name}",
            link=LinkSpec(
                trace=recording.trace,
                start_ms=begin_ms,
                rtt_ms=condition.rtt_ms,
                buffer_pkts=condition.buffer_pkts,
                loss=condition.loss,
                behind=(Jitter(max_ms=condition.jitter_ms),) if condition.jitter_ms else (),
            ),
            flows=(flow, *(flow.model_copy(update={"start_s": condition.late_s}) for _ in range(1, condition.flows))),
            duration_s=(end_ms - begin_ms) / 1000,
            seed=1,
        )
        for recording in recordings
        for begin_ms, end_ms in _pieces(recording, condition.flow_s)
    ]


def _cell(ensemble: Ensemble, delay_class: int, scenarios: Sequence[Scenario], runs: Sequence[QoS]) -> dict[str, Any]:
    target = ensemble.classes[delay_class]
    target_ms = target.queueing_delay_us / 1000
    seconds = sum(s.duration_s for s in scenarios)
    delivered = sum(run.throughput_mbps * s.duration_s for s, run in zip(scenarios, runs, strict=True))
    capacity = sum(run.capacity_mbps * s.duration_s for s, run in zip(scenarios, runs, strict=True))
    delay_ms = reduce(lambda a, b: a + b, (run.queueing_delay for run in runs)).percentile_ms(target.percentile)
    return {
        "target_ms": target_ms,
        "p95_queueing_delay_ms": round(delay_ms, 1),
        "utilization": round(delivered / max(capacity, 1e-9), 4),
        "throughput_mbps": round(delivered / seconds, 3),
        "fairness": round(sum(r.fairness * s.duration_s for s, r in zip(scenarios, runs, strict=True)) / seconds, 4),
        "meets": delay_ms <= target_ms,
        "within_line": delay_ms <= MOST_EXCESS * target_ms,
    }


def robustness(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    conditions: Sequence[Condition] = CONDITIONS,
    threads: int | None = None,
    advance: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each condition; advance: called with its name when it is done."""
    text = table_text(ensemble, Deployment("evaluation", "judged", 1))
    rows = []
    for condition in conditions:
        by_class = [_scenarios(ensemble.cca, text, condition, recordings, c) for c in range(len(ensemble.classes))]
        runs = iter(simulate_many([s for scenarios in by_class for s in scenarios], threads=threads))
        cells = [_cell(ensemble, c, scenarios, [next(runs) for _ in scenarios]) for c, scenarios in enumerate(by_class)]
        holds = not condition.has_line or all(cell["within_line"] for cell in cells)
        rows.append({"condition": condition.name, "has_line": condition.has_line, "holds": holds, "targets": cells})
        advance(condition.name)
    return rows
