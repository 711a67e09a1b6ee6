# SPDX-License-Identifier: MIT
"""`python -m experiments accelerator`: what the mobile accelerator gains and costs (docs/accelerator.md).

The source is section V.A of the SIRA-H paper (Liu et al.), whose transparent proxy is the "mobile accelerator".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from emulation.errors import EmulationError
from emulation.scenario.files import build_scenario
from emulation.traces import default_traces, read_recordings
from experiments.accelerator.cost import cost
from experiments.accelerator.gain import gain
from kmod.tables import Column, print_table
from kmod.terminal import echo
from training.options import as_json_option, traces_option

MOBILE = "mahimahi-mobile.tar.xz"


@click.command("accelerator")
@click.option("--ensemble", type=click.Path(path_type=Path), help="That the proxy follows.  [default: GR without one]")
@click.option("--delay-class", help="Its target, such as 100ms.  [default: its first]")
@click.option("--only", type=click.Choice(["simulator", "mahimahi", "cost"]), help="This part  [all]")
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(10),
    default=60,
    show_default=True,
    help="The last seconds of each recording.",
)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="Rounds of the cost.")
@click.option("--seconds", type=click.FloatRange(1), default=4, show_default=True, help="Of each of its flows.")
@traces_option
@as_json_option
def command(
    *, ensemble: Path | None, delay_class: str | None, only: str | None, duration_s: float, runs: int, seconds: float,
    paths: tuple[Path, ...], as_json: bool,
) -> None:  # fmt: skip
    """Download over mobile links from a CUBIC server, without a proxy and through one with CUBIC or GR.

    Then measure what HAProxy costs beside a plain forward. --traces is a recording of links towards the client, by
    default mahimahi-mobile. The parts mahimahi and cost need root.

    \b
    Example:
      python -m experiments accelerator --ensemble gr.json --delay-class 100ms
      python -m experiments accelerator --only cost --json
    """
    document: dict[str, Any] = {}
    if only != "cost":
        given = {"ensemble": ensemble and str(ensemble), "delay_class": delay_class}
        flow = {"cca": "gr", **{name: value for name, value in given.items() if value is not None}}
        asked = {"link": {"rate_mbps": 1}, "flows": [flow]}
        (flow_of_proxy,) = build_scenario(asked, source="options", folder=Path()).flows
        links = [each for each in read_recordings(_traces(paths)) if not each.name.endswith(".up")]
        document["gain"] = gain(links, flow_of_proxy, duration_s=duration_s, only=only)
    if only in {None, "cost"}:
        document["cost"] = cost(runs=runs, seconds=seconds)
    if as_json:
        echo(json.dumps(document))
    else:
        _print(document)


def _traces(paths: tuple[Path, ...]) -> list[Path]:
    if not paths and (folder := default_traces()) is not None:
        return [folder / MOBILE]
    if not paths:
        raise EmulationError("--traces: expected recordings of links, got none; name a file, a folder or an archive")
    return list(paths)


def _print(document: dict[str, Any]) -> None:
    if rows := document.get("gain"):
        headings = ("Mbit/s", "utilization", "p95 queueing\ndelay ms", "held kB\np50", "p95")
        columns = [Column(name) for name in ("link", "runner", "between")]
        cells = (
            (row["link"], row["runner"], row["between"], f"{row['throughput_mbps']:.2f}", f"{row['utilization']:.1%}",
             f"{row['queueing_delay_p95_ms']:.0f}",
             *("-" if row[name] is None else f"{row[name] / 1000:.0f}"
               for name in ("buffered_p50_bytes", "buffered_p95_bytes")))
            for row in rows
        )  # fmt: skip
        print_table([*columns, *(Column(heading, "right") for heading in headings)], cells)
    if rows := document.get("cost"):
        headings = ("Gbit/s", "processor s\nper Gbit", "added", "least", "most")
        cells = (
            (row["packet"], row["between"], f"{row['rate_gbps']:.2f}", f"{row['processor_s_per_gbit']:.3f}",
             *(f"{row['added_s_per_gbit'][name]:.3f}" for name in ("median", "least", "most")))
            for row in rows
        )  # fmt: skip
        columns = [Column("packet"), Column("between")]
        print_table([*columns, *(Column(heading, "right") for heading in headings)], cells)
