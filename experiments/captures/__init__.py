# SPDX-License-Identifier: MIT
"""`python -m experiments captures`: which chunks of the captures of Flach et al. 2016 were policed (scenarios.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.captures.scenarios import SCENARIOS, is_for_choosing, setting_of
from experiments.rtcp.policing_detector import SentPackets, policed_pkts_per_s
from kmod.tables import Column, print_table
from kmod.terminal import echo, echo_wrapped
from training.intervals import wilson_95
from training.observed.captures import read_capture
from training.observed.flow import Flow
from training.observed.policing import detector_verdicts, segments_of
from training.options import as_json_option, enforce_option, threads_option
from training.progress import Terminal

NEAR = 0.05  # the rate is right within
NEAR_TARGET = 90.0
_ROOT = Path(__file__).resolve().parents[2]
_COLUMNS = (
    Column("scenario"), Column("files", "right"), Column("chunks", "right"), Column("of them\npoliced", "right"),
    Column("ccatune, %\n[95 %]", "right"), Column("published\n%", "right"), Column("PD here\n%", "right"),
    Column("R-TCP's\ndetector, %", "right"), Column("rate within\n5 %, %", "right"),
)  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """A chunk of a file: what is true, what was found. rate_error: relative; None: not found, or no policer."""

    file: str
    policed: bool
    found: bool
    by_pd: bool
    by_detector: bool
    rate_error: float | None


def chunks_of(path: Path) -> list[Chunk]:
    """The chunks of a capture's connections. Cross traffic is no chunk, but its packets count at the limiter."""
    setting = setting_of(path.name)
    flows = read_capture(path).flows
    rows = segments_of(flows)
    limited = detector_verdicts(flows)
    chunks, at = [], 0
    for flow, is_limited in zip(flows, limited, strict=True):
        for segment in flow.segments():
            row = rows[at]
            at += 1
            if int(flow.name.rpartition(":")[2]) not in setting.ports:
                continue
            policed = setting.rate_mbps is not None and row["lost"] > 0
            error = (
                row["rate_mbps"] / setting.rate_mbps - 1 if policed and row["policed"] and setting.rate_mbps else None
            )
            chunks.append(
                Chunk(path.name, policed, row["policed"], _pd(segment), is_limited and row["lost"] > 0, error)
            )
    return chunks


def _pd(segment: Flow) -> bool:
    """Whether PD takes the segment for policed. Each packet is a bin of its own."""
    sends, steps = segment.sends, segment.steps[segment.steps["rtt_us"] > 0]
    if sends is None or not len(steps):
        return False
    at = np.searchsorted(steps["time_us"], sends["time_us"], side="right") - 1
    rtt_ms = np.where(at >= 0, steps["rtt_us"][np.maximum(at, 0)] / 1000, 0.0)
    lost = sends["lost"].astype(np.int64)
    return policed_pkts_per_s(SentPackets(sends["time_us"] / 1e6, 1 - lost, lost, rtt_ms)) is not None


def summary_of(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Shares of the chunks in percent, of which there is at least one."""
    right = sum(chunk.found == chunk.policed for chunk in chunks)
    errors = [abs(chunk.rate_error) for chunk in chunks if chunk.rate_error is not None]
    low, high = wilson_95(right, len(chunks))
    return {
        "files": len({chunk.file for chunk in chunks}), "chunks": len(chunks),
        "policed": sum(chunk.policed for chunk in chunks),
        "accuracy": 100 * right / len(chunks), "interval": [100 * low, 100 * high],
        "pd": _percent(chunk.by_pd == chunk.policed for chunk in chunks),
        "detector": _percent(chunk.by_detector == chunk.policed for chunk in chunks),
        "rate_found": len(errors), "rate_near": _percent(error <= NEAR for error in errors),
    }  # fmt: skip


def _percent(hits: Iterable[bool]) -> float | None:
    values = list(hits)
    return 100 * sum(values) / len(values) if values else None


def report_of(chunks: Sequence[Chunk]) -> dict[str, dict[str, Any]]:
    """A summary of each scenario that there is, and of all, apart for choosing and judging."""
    report: dict[str, dict[str, Any]] = {}
    for split, wanted in (("choosing", True), ("judging", False)):
        of_split = [chunk for chunk in chunks if is_for_choosing(chunk.file) == wanted]
        cases = {name: [chunk for chunk in of_split if setting_of(chunk.file).scenario == name] for name in SCENARIOS}
        cases["all"] = of_split
        report[split] = {name: summary_of(case) for name, case in cases.items() if case}
    return report


def agrees(report: dict[str, dict[str, Any]]) -> bool:
    """Whether the targets are met on the files for judging."""
    judged = report["judging"]
    accurate = all(row["accuracy"] >= SCENARIOS[name].target for name, row in judged.items() if name in SCENARIOS)
    near = judged.get("all", {}).get("rate_near")
    return accurate and (near is None or near >= NEAR_TARGET)


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    scenario = SCENARIOS.get(name)
    low, high = row["interval"]
    near = "" if row["rate_near"] is None else f"{row['rate_near']:.1f} of {row['rate_found']}"
    return [
        f"{name} {scenario.title}" if scenario else name, str(row["files"]), str(row["chunks"]), str(row["policed"]),
        f"{row['accuracy']:.1f} [{low:.0f}, {high:.0f}]", f"{scenario.published:.1f}" if scenario else "",
        f"{row['pd']:.1f}", f"{row['detector']:.1f}", near,
    ]  # fmt: skip


@click.command("captures")
@click.option(
    "--captures",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the .pcap.xz files  [../shared/captures]",
)
@threads_option
@enforce_option
@as_json_option
def command(*, folder: Path | None, threads: int | None, enforce: bool, as_json: bool) -> None:
    """Compare which chunks of published captures are found policed with what their names say.

    A third of the files served to choose constants, and two thirds judge. PD is the authors' detector as
    experiments/rtcp/policing_detector.py has it. R-TCP's detector is the core's alone, as kernels run it. It takes
    about two minutes.

    \b
    Example:
      python -m experiments captures --captures ~/captures
    """
    paths = sorted((folder or _ROOT.parent / "shared" / "captures").glob("*.pcap.xz"))
    if not paths:
        raise click.UsageError("--captures: expected a folder with captures (.pcap.xz), got none there")
    chunks: list[Chunk] = []
    with Terminal(quiet=as_json) as terminal, ProcessPoolExecutor(threads) as pool:
        terminal.phase("captures", total=len(paths))
        for found in pool.map(chunks_of, paths):
            chunks += found
            terminal.advance(1)
    report = report_of(chunks)
    if as_json:
        echo(json.dumps(report, indent=1))
    else:
        for split, rows in report.items():
            echo(f"\nFiles for {split}")
            print_table(_COLUMNS, [_cells(name, row) for name, row in rows.items()])
        missing = [name for name in SCENARIOS if not any(name in rows for rows in report.values())]
        if missing:
            echo_wrapped(f"No file of scenario {', '.join(missing)}.")
    if enforce and not agrees(report):
        sys.exit(1)
