# SPDX-License-Identifier: MIT
"""`ccatune emulate`: runs scenarios over Mahimahi with a kernel's TCP, and reports them as `ccatune simulate` does."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.progress import Progress

from emulation.cli.simulate_command import print_figures, series_every_s
from emulation.mahimahi.processors import kept_awake
from emulation.options import FiniteRange, check_output
from emulation.printing import as_written
from emulation.run.qos import QoS
from emulation.scenario.files import first_fault, load_scenario
from emulation.scenario.model import Scenario
from emulation.vm.kernels import FULL_LINE, LINES
from kmod.tables import Column, print_table
from kmod.terminal import echo

RUNNERS = ("mahimahi", "vm")
Emulate = Callable[..., list[QoS]]


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="SCENARIO.yaml...", type=click.Path(path_type=Path, dir_okay=False)
)
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default="mahimahi",
    show_default=True,
    help="On this machine's kernel, with ccatune's algorithms in BPF; or in the virtual machine, with its modules.",
)
@click.option(
    "--kernel", "line", type=click.Choice(LINES), help=f"The virtual machine's kernel.  [default: {FULL_LINE}]"
)
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="Repeat each; give the spread.")
@click.option("--duration", "duration_s", type=FiniteRange(min=0, min_open=True), help="Seconds of each run.")
@click.option("--warmup", "warmup_s", type=FiniteRange(min=0), help="Seconds at the start that do not count.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the (first) run into this file.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write all runs' figures here, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def emulate(
    *,
    files: tuple[Path, ...],
    runner: str,
    line: str | None,
    runs: int,
    duration_s: float | None,
    warmup_s: float | None,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run scenarios over Mahimahi's links with the kernel's own TCP, as many in parallel as the processors can carry.

    \b
    Example:
      ccatune emulate configs/scenarios/reno-20mbps.yaml --runs 3
      ccatune emulate a.yaml b.yaml --json --out figures.json
      ccatune emulate configs/scenarios/constant-20mbps.yaml --runner vm --plot gr.png
    """
    if line is not None and runner != "vm":
        raise click.UsageError("--kernel: expected --runner vm beside it; this machine runs its own kernel alone")
    if out is not None:
        check_output(out)
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
    scenarios = [_laid_over(load_scenario(file), duration_s=duration_s, warmup_s=warmup_s) for file in files]
    is_split = any(scenario.proxy is not None for scenario in scenarios)
    every_s = series_every_s(scenarios[0]) if plot is not None or is_split else None
    flat = _run([scenario for scenario in scenarios for _ in range(runs)], runner, line=line, every_s=every_s)
    results = [flat[at : at + runs] for at in range(0, len(flat), runs)]
    document = [_document(scenario, found, runner) for scenario, found in zip(scenarios, results, strict=True)]
    text = json.dumps(document[0] if len(document) == 1 else document)
    try:
        if out is not None:
            out.write_text(text + "\n", encoding="utf-8")
    finally:
        # The figures are also printed if the file cannot be written, because the runs took minutes.
        if as_json:
            echo(text)
        else:
            _print(scenarios, results)
    if plot is not None:
        from emulation.run.plot import draw_run

        draw_run(scenarios[0], results[0][0], path=plot)
        if not as_json:
            echo(f"picture: {plot}")


def _laid_over(scenario: Scenario, **options: float | None) -> Scenario:
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return scenario
    fields = {name: getattr(scenario, name) for name in Scenario.model_fields}
    try:
        return Scenario.model_validate({**fields, **given})
    except ValidationError as error:
        raise click.UsageError(f"{scenario.name}: {first_fault(error)}") from error


def _run(scenarios: Sequence[Scenario], runner: str, *, line: str | None, every_s: float | None) -> list[QoS]:
    options: dict[str, Any] = {"series_every_s": every_s}
    # Only the modules of the chosen runner are imported.
    if runner == "vm":
        from emulation.vm.runner import emulate_many as in_guest

        options |= {"line": line} if line is not None else {}
        emulate_many: Emulate = in_guest
    else:
        from emulation.mahimahi.runner import emulate_many as on_host

        emulate_many = on_host
    console = as_written(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(runner, total=len(scenarios))
        # A guest has its own clock, so sleeping processors do not disturb it.
        with nullcontext() if runner == "vm" else kept_awake():
            return emulate_many(scenarios, progress=lambda done: progress.update(task, completed=done), **options)


def figures_of(qos: QoS) -> dict[str, float]:
    """Return the figures by which runs are compared."""
    return {
        "throughput_mbps": qos.throughput_mbps,
        "utilization": qos.utilization,
        "queueing_delay_p95_ms": qos.queueing_delay.percentile_ms(95),
        "retransmission_rate": qos.retransmission_rate,
        "fairness": qos.fairness,
    }


def spread_of(results: Sequence[QoS]) -> dict[str, dict[str, float]]:
    """Return the median, the minimum and the maximum of each figure over the runs of one scenario."""
    rows = [figures_of(qos) for qos in results]
    return {
        name: {
            "median": statistics.median(row[name] for row in rows),
            "least": min(row[name] for row in rows),
            "most": max(row[name] for row in rows),
        }
        for name in rows[0]
    }


def _document(scenario: Scenario, results: Sequence[QoS], runner: str) -> dict[str, object]:
    """Return the JSON data of a scenario: the summary of a single run, or the spread and all summaries of several."""
    if len(results) == 1:
        return {"runner": runner, **results[0].summary()}
    summaries = [qos.summary() for qos in results]
    return {"runner": runner, "scenario": scenario.name, "spread": spread_of(results), "runs": summaries}


def _print(scenarios: Sequence[Scenario], results: Sequence[Sequence[QoS]]) -> None:
    if len(scenarios) == 1 and len(results[0]) == 1:
        print_figures(scenarios[0], results[0][0])
        return
    formats = {
        "Mbit/s": "{:.2f}", "utilization": "{:.1%}", "p95 queueing\ndelay ms": "{:.0f}", "retrans.": "{:.2%}",
        "fairness": "{:.3f}",
    }  # fmt: skip
    rows = []
    for scenario, found in zip(scenarios, results, strict=True):
        spread = spread_of(found).values()
        for name in ("median", "least", "most") if len(found) > 1 else ("median",):
            cells = [form.format(figure[name]) for form, figure in zip(formats.values(), spread, strict=True)]
            rows.append((scenario.name if name == "median" else f"  {name}", *cells))
    print_table([Column("scenario", least=16), *(Column(heading, "right") for heading in formats)], rows)
    if len(results[0]) > 1:
        echo(f"median of {len(results[0])} runs each, and below it the least and the most")
