# SPDX-License-Identifier: MIT
"""`ccatune report robustness`: an ensemble on other paths, beside a second flow, and in flows of other lengths.

Each condition changes one thing from those of training: RTT 100 ms, a buffer of 1000 packets, no loss, and one flow
over the whole recording. Each row has the pooled figures of every target.

    two flows         share the link from the beginning, or one starts 10 s later. In a recording of less than 10 s one
                      flow then runs alone. Utilisation is that of both together. Fairness is Jain's index of their
                      throughputs, and each recording is weighted by its length
    flows of a length follow each other over the recording. Each begins with slow start
    jitter            holds each packet after the link for a time drawn evenly from 0 to a maximum in ms, and keeps the
                      order. 1 ms is the jitter of Mahimahi's clock

The criterion: with another RTT (20 to 200 ms), buffer (200 to 1000 packets), jitter or length (30, 120 s), the delay is
at most 1.5 times the target. Loss, two flows, and flows of 10 s, a third of which is slow start, have no criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import click

from emulation.run.qos import QoS
from emulation.run.simulator import simulate_many
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Jitter
from emulation.traces import Recording
from kmod.ensemble import Deployment, Ensemble, table_text
from kmod.tables import Column, table_lines
from training.reports.arguments import ReportArguments, finish, of_ensemble

MOST_EXCESS = 1.5


@dataclass(frozen=True)
class Condition:
    """A row of the table.

    flow_s: length of each flow; None: the recording's length. late_s: time at which the second flow starts. has_line:
    whether the criterion applies.
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
    """Begin and end (ms) of flows that follow each other.

    A remainder of less than half a flow is left out, unless it is the whole recording.
    """
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


def run_conditions(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    conditions: Sequence[Condition] = CONDITIONS,
    threads: int | None = None,
    advance: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each condition. advance: called with the condition's name when its runs are complete."""
    text = table_text(ensemble, Deployment("evaluation", "validated", 1))
    rows = []
    for condition in conditions:
        by_class = [_scenarios(ensemble.cca, text, condition, recordings, c) for c in range(len(ensemble.classes))]
        runs = iter(simulate_many([s for scenarios in by_class for s in scenarios], threads=threads))
        cells = [_cell(ensemble, c, scenarios, [next(runs) for _ in scenarios]) for c, scenarios in enumerate(by_class)]
        holds = not condition.has_line or all(cell["within_line"] for cell in cells)
        rows.append({"condition": condition.name, "has_line": condition.has_line, "holds": holds, "targets": cells})
        advance(condition.name)
    return rows


@click.command()
@of_ensemble
def robustness(*, given: ReportArguments) -> None:
    """Run an ensemble on other paths, with loss, beside a second flow, and in shorter flows.

    \b
    Example:
      ccatune report robustness gr.json --dataset pqsa-4g
    """
    with given.read() as (ensemble, _, recordings, terminal):
        terminal.phase("running flows", total=len(CONDITIONS))
        rows = run_conditions(ensemble, recordings, threads=given.threads, advance=lambda _name: terminal.advance(1))
    targets = [f"{cell['target_ms']:.0f} ms" for cell in rows[0]["targets"]]
    heads = [heading for target in targets for heading in (f"target\n{target}", "\nused")]
    lines = table_lines(
        [Column("condition", least=12), *(Column(heading, "right") for heading in (*heads, "fairness"))],
        [
            (
                row["condition"],
                *(text for c in row["targets"] for text in (f"{c['p95_queueing_delay_ms']:.1f}",
                                                            f"{100 * c['utilization']:.1f} %")),
                f"{min(c['fairness'] for c in row['targets']):.3f}",
            )
            for row in rows
        ],
    )  # fmt: skip
    line = f"delay within {MOST_EXCESS} x target (not asked of loss, company, 10 s)"
    finish(rows, lines, line=line, as_json=given.as_json)
