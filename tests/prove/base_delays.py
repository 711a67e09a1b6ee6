# SPDX-License-Identifier: MIT
"""Minimum-RTT rules on links whose propagation delay changes: what they cost, and how long they are wrong.

    python -m tests.prove.base_delays [--kernel] [--json]

Simulated flows with default parameters over configs/scenarios/handover.yaml, delay-ramp.yaml and delay-step.yaml, each
over its constant rate and, where there are recordings, over a recorded link. Columns:

    util.      throughput over capacity, and its ratio to the same link with a constant delay of 25 and of 60 ms
    queue p95  95th percentile of the queueing delay at the link, which does not contain the propagation delay
    risen      throughput over capacity while the delay is 60 ms, from the rise until the fall or the run's end
    short      median time from a rise to the last 2 s (SHORT_WINDOW_S) that use less than SHORT of the link; "never" if
               these are the last of the longer delay. Shorter gaps are probes for the minimum RTT
    relearns   GR only: median time from a rise to the end of the DRAIN that measured the minimum RTT anew

With --kernel it compares the simulator with this machine's kernel over Mahimahi instead, for 30 s each of CUBIC and
BBRv1 over KERNEL_LINK. Both simulated rows have the same flow. The second one has Mahimahi's clocks on its path.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulation import BaseDelay, DelayStep, FlowSpec, LinkSpec, QoS, Scenario, simulate
from emulation.mahimahi.machine import Watch
from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import emulate_many
from emulation.scenario.files import load_scenario
from emulation.traces import Trace, read_recordings

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ("handover", "delay-ramp", "delay-step")
TRACES = "pqsa-4g-validation.tar.xz"
CONSTANT_MS = (25.0, 60.0)
WARMUP_S = 5.0
SHORT, SHORT_WINDOW_S = 0.85, 2.0
SERIES_S = 0.02
DRAIN = 2
KERNEL_DELAYS = BaseDelay(steps=(DelayStep(at_s=0, rtt_ms=25), DelayStep(at_s=7.5, rtt_ms=60)), period_s=15)
KERNEL_LINK = LinkSpec(rate_mbps=12, delays=KERNEL_DELAYS, buffer_pkts=100)
FLOWS = {
    "gr": FlowSpec(cca="gr"),
    "gr, minimum RTT of 10 s": FlowSpec(cca="gr", params={"min_rtt_window_ms": 10_000}),
    "roccet": FlowSpec(cca="roccet"),
    "roccet, minimum RTT of 10 s": FlowSpec(cca="roccet", params={"min_rtt_age_ms": 10_000}),
    "cubic": FlowSpec(cca="cubic"),
    "bbr": FlowSpec(cca="bbr"),
}


@dataclass(frozen=True)
class Link:
    """A link of the table. trace: None: the constant rate of the scenario's file."""

    name: str
    trace: Trace | None


def links() -> list[Link]:
    """The constant rate, and a recorded link if there is one."""
    folder = Path(os.environ.get("CCATUNE_TRACES", ROOT.parent / "shared" / "traces"))
    found = [Link("12 Mbit/s", None)]
    if (folder / TRACES).exists():
        # The recording whose mean rate is the nearest to 12 Mbit/s, so that buffers and rates are alike.
        recorded = min(read_recordings(folder / TRACES), key=lambda r: (abs(r.trace.mean_rate_mbps - 12), r.name))
        found.append(Link(f"recorded {recorded.name}, {recorded.trace.mean_rate_mbps:.1f} Mbit/s", recorded.trace))
    return found


def over(scenario: Scenario, link: Link, flow: FlowSpec, **changed: Any) -> Scenario:
    """The scenario's link with this rate, one flow, and the changed fields."""
    fields: dict[str, Any] = {"buffer_pkts": scenario.link.buffer_pkts, "delays": scenario.link.delays, **changed}
    rate = {"rate_mbps": scenario.link.rate_mbps} if link.trace is None else {"trace": link.trace}
    spec = LinkSpec(**rate, **{name: value for name, value in fields.items() if value is not None})
    return scenario.model_copy(update={"link": spec, "flows": (flow,), "warmup_s": WARMUP_S})


def rises_s(scenario: Scenario) -> list[tuple[float, float]]:
    """The jumps of the delay by more than 10 ms up: their times, and the time at which the longer delay ends."""
    delays = scenario.link.delays
    assert delays is not None
    found = []
    for number, step in enumerate(delays.steps[1:], start=1):
        if step.rtt_ms - delays.steps[number - 1].rtt_ms > 10:
            ends_s = delays.steps[number + 1].at_s if number + 1 < len(delays.steps) else delays.period_s
            every_s = delays.period_s or scenario.duration_s
            for start_s in np.arange(0, scenario.duration_s, every_s):
                end_s = scenario.duration_s if ends_s is None else min(start_s + ends_s, scenario.duration_s)
                if start_s + step.at_s < end_s:
                    found.append((float(start_s + step.at_s), float(end_s)))
    return found


def phases(qos: QoS, scenario: Scenario) -> list[np.ndarray]:
    """For each rise, the carried and the offered Mbit/s at the samples of the longer delay: [2, samples]."""
    rates = np.stack([qos.series["rate_mbps"], qos.series["capacity_mbps"]])
    return [rates[:, round(start_s / SERIES_S) : round(end_s / SERIES_S)] for start_s, end_s in rises_s(scenario)]


def risen(qos: QoS, scenario: Scenario) -> float:
    """Throughput over capacity at the samples of the longer delay."""
    carried, offered = np.concatenate(phases(qos, scenario), axis=1).sum(axis=1)
    return float(carried / offered)


def short_s(qos: QoS, scenario: Scenario) -> list[float | None]:
    """For each rise, how long the link was not used; None: not used again before the end of the longer delay."""
    n = round(SHORT_WINDOW_S / SERIES_S)
    found: list[float | None] = []
    for phase in phases(qos, scenario):
        carried, offered = (np.convolve(row, np.ones(n), mode="valid") for row in phase)
        below = np.flatnonzero(carried < SHORT * offered)
        is_last = len(below) and below[-1] == len(carried) - 1
        found.append(None if is_last else float((below[-1] + n) * SERIES_S) if len(below) else 0.0)
    return found


def relearns_s(qos: QoS, scenario: Scenario) -> list[float | None]:
    """For each rise, when a DRAIN ended that began after it; None: not before the end of the longer delay."""
    mode, at_s = qos.series["mode"], qos.series["time_s"]
    ends_s = at_s[1:][(mode[:-1] == DRAIN) & (mode[1:] != DRAIN)]
    after = [ends_s[(ends_s > start_s) & (ends_s < end_s)] for start_s, end_s in rises_s(scenario)]
    return [float(ends[0] - start_s) if len(ends) else None
            for ends, (start_s, _) in zip(after, rises_s(scenario), strict=True)]  # fmt: skip


def middle(values: list[float | None]) -> float | None:
    """The median, in which None is longer than any number."""
    chosen = sorted(float("inf") if value is None else value for value in values)
    median = statistics.median_high(chosen)
    return None if median == float("inf") else median


def row_of(name: str, link: Link, label: str, flow: FlowSpec) -> dict[str, Any]:
    """A row of the table."""
    scenario = load_scenario(ROOT / "configs" / "scenarios" / f"{name}.yaml")
    varying = over(scenario, link, flow)
    qos = simulate(varying, series_every_s=SERIES_S)
    row: dict[str, Any] = {
        "delays": name,
        "link": link.name,
        "flow": label,
        "utilization": qos.utilization,
        "queueing_delay_p95_ms": qos.queueing_delay.percentile_ms(95),
    }
    for rtt_ms in CONSTANT_MS:
        constant = simulate(over(scenario, link, flow, delays=None, rtt_ms=rtt_ms))
        row[f"utilization_over_{rtt_ms:g}ms"] = qos.utilization / constant.utilization
        row[f"queueing_delay_p95_at_{rtt_ms:g}ms"] = constant.queueing_delay.percentile_ms(95)
    if rises_s(varying):
        row |= {"risen_utilization": risen(qos, varying), "short_s": middle(short_s(qos, varying))}
    if rises_s(varying) and flow.cca == "gr":
        row["relearns_s"] = middle(relearns_s(qos, varying))
    return row


def side_of(cca: str, side: str, qos: QoS, *, late: float | None = None) -> dict[str, Any]:
    """A row of the comparison with the kernel. late: share of timers that were late during a real run."""
    rtt = qos.flows[0].rtt
    return {
        "flow": cca,
        "side": side,
        "throughput_mbps": round(qos.throughput_mbps, 2),
        **{f"rtt_p{p}_ms": round(rtt.percentile_ms(p), 1) for p in (5, 50, 95)},
        **{f"queueing_delay_p{p}_ms": round(qos.queueing_delay.percentile_ms(p), 1) for p in (50, 95)},
        "retransmitted_pct": round(100 * qos.retransmission_rate, 2),
        "late_timers_pct": None if late is None else round(100 * late, 2),
    }


def beside_the_kernel() -> list[dict[str, Any]]:
    """The rows of --kernel."""
    rows = []
    for cca in ("cubic", "bbr"):
        scenario = Scenario(name=cca, link=KERNEL_LINK, flows=(FlowSpec(cca=cca),), duration_s=30, warmup_s=2)
        rows.append(side_of(cca, "simulator", simulate(scenario)))
        rows.append(side_of(cca, "with clocks", simulate(path_of_mahimahi(scenario, runner="mahimahi"))))
        for _ in range(2):
            with kept_awake(), Watch(timers=True) as watch:
                (qos,) = emulate_many([scenario])
            rows.append(side_of(cca, "kernel", qos, late=watch.during_a_run(scenario.duration_s).late_share))
    return rows


def text_of(row: dict[str, Any], key: str) -> str:
    """A time of a row."""
    if key not in row:
        return "-"
    return "never" if row[key] is None else f"{row[key]:.1f} s"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--kernel", is_flag=True, help="Compare the simulator with this machine's kernel instead.")
def main(*, as_json: bool, kernel: bool) -> None:
    """Print the table."""
    if kernel:
        compared = beside_the_kernel()
        click.echo(
            json.dumps(compared)
            if as_json
            else "\n".join(
                " | ".join(map(str, line)) for line in [list(compared[0]), *(row.values() for row in compared)]
            )
        )
        return
    rows = [row_of(name, link, label, flow) for link in links() for name in SCENARIOS for label, flow in FLOWS.items()]
    if as_json:
        click.echo(json.dumps(rows))
        return
    click.echo("| link | delays | flow | util. | of it at 25 ms | at 60 ms | queue p95 | at 25 ms | at 60 ms "
               "| risen | short | relearns |\n" + "|---" * 12 + "|")  # fmt: skip
    for row in rows:
        of = [f"{row[f'utilization_over_{rtt:g}ms']:.1%}" for rtt in CONSTANT_MS]
        at = [f"{row[f'queueing_delay_p95_at_{rtt:g}ms']:.0f} ms" for rtt in CONSTANT_MS]
        cells = [row["link"], row["delays"], row["flow"], f"{row['utilization']:.1%}", *of,
                 f"{row['queueing_delay_p95_ms']:.0f} ms", *at,
                 f"{row['risen_utilization']:.1%}" if "risen_utilization" in row else "-",
                 text_of(row, "short_s"), text_of(row, "relearns_s")]  # fmt: skip
        click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
