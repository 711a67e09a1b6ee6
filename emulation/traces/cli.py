# SPDX-License-Identifier: MIT
"""`ccatune traces`: check, show, fit, make and import links."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulation.errors import TraceError
from emulation.options import FiniteRange, check_output
from emulation.traces._sources import TRACE_SUFFIXES, is_trace
from emulation.traces.epochs import epochs
from emulation.traces.files import write_file
from emulation.traces.reader import read
from emulation.traces.recording import Recording
from emulation.traces.trace import Trace
from emulation.traces.variation import variation_of
from kmod.tables import Column, print_table
from kmod.terminal import counted, echo

MOST_UNREAD_SHOWN = 20

_paths = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
_skip_bad = click.option("--skip-bad", is_flag=True, help="Leave bad files out, and say how many.")
_json = click.option("--json", "as_json", is_flag=True, help="Figures as JSON.")


def _read(paths: Sequence[Path], *, skip_bad: bool) -> tuple[Recording, ...]:
    """The recordings. Files that were left out are reported on stderr."""
    reading = read(list(paths), skip_bad=skip_bad)
    for line in reading.left_out:
        echo(line, err=True)
    return reading.recordings


@click.group()
def traces() -> None:
    """Links as files of delivery opportunities (Mahimahi's format): check, show, fit, make, import.

    \b
    Example:
      ccatune traces check recordings/
      ccatune traces fit recordings/ -o model.json
    """


@traces.command()
@_paths
@_json
def check(paths: tuple[Path, ...], *, as_json: bool) -> None:
    """Read files, folders or archives, and report the recordings, each bad file, and what was not read.

    The exit status is 1 if there are bad files.

    \b
    Example:
      ccatune traces check recordings/
    """
    reading = read(list(paths), skip_bad=True, may_be_empty=True)
    rows = [_facts(recording) for recording in reading.recordings]
    if as_json:
        found = {"recordings": rows, "bad_files": reading.skipped, "unread_files": reading.unread}
        echo(json.dumps(found, indent=1))
    else:
        _print_table(rows)
        for text in reading.skipped:
            echo(f"bad file: {text}")
        _print_unread(reading.unread)
        n_bad, n_unread = len(reading.skipped), len(reading.unread)
        hours = sum(row["duration_s"] for row in rows) / 3600
        echo(f"{counted(len(rows), 'recording')} of {counted(reading.n_files, 'file')}, {hours:.2f} h; "
             f"{counted(n_bad, 'bad file')}, {counted(n_unread, 'file')} not read")  # fmt: skip
    if reading.skipped:
        sys.exit(1)


@traces.command()
@_paths
@_skip_bad
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw rate and variation (PNG, SVG, PDF)."
)
@_json
def show(paths: tuple[Path, ...], *, skip_bad: bool, plot: Path | None, as_json: bool) -> None:
    """Show the mean rate, spread, gaps, and the variation at every time scale, from 1 ms to minutes.

    \b
    Example:
      ccatune traces show drive.down --plot drive.png
    """
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
    recordings = _read(paths, skip_bad=skip_bad)
    rows = [_facts(recording) for recording in recordings]
    for row, recording in zip(rows, recordings, strict=True):
        variation = variation_of(recording.trace)
        row["variation"] = [
            {"scale_ms": scale, "relative_deviation": deviation}
            for scale, deviation in zip(variation.scale_ms.tolist(), variation.deviation.tolist(), strict=True)
        ]
    if plot is not None:
        from emulation.traces._plot import draw_recordings

        draw_recordings(recordings, plot)
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        echo(f"\n{row['name']}: relative deviation of the rate between neighbouring windows")
        for cell in row["variation"]:
            echo(f"  {_scale(cell['scale_ms']):>8}  {100 * cell['relative_deviation']:>6.1f} %")
    _print_table(rows)


@traces.command()
@_paths
@_skip_bad
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The model's file.")
@_json
def fit(paths: tuple[Path, ...], *, skip_bad: bool, out: Path, as_json: bool) -> None:
    """Fit a generator on recordings. It makes links that vary as these do, and repeats none of them.

    \b
    Example:
      ccatune traces fit recordings/ -o model.json
    """
    from emulation.traces.synthetic import fit as fit_model

    check_output(out)
    recordings = _read(paths, skip_bad=skip_bad)
    model = fit_model(recordings, progress=lambda name: echo(f"fitting {name}", err=True))
    model.save(out)
    recorded_s = sum(r.duration_s for r in recordings)
    if as_json:
        echo(json.dumps({"model": str(out), "links": [link.name for link in model.links], "recorded_s": recorded_s}))
    else:
        echo(f"{out}: {counted(len(model.links), 'link')}, fitted on {recorded_s / 3600:.2f} h")


@traces.command()
@click.argument("model_path", metavar="[MODEL]", required=False, type=click.Path(path_type=Path))
@click.option("--poisson", "poisson_mbps", metavar="MBPS", type=click.FloatRange(min=0, min_open=True),
              help="Without a model: deliveries as a Poisson process of this mean rate.")  # fmt: skip
@click.option("--duration", "duration_s", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True,
              help="Seconds.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--link", help="Which link of the model, by the end of its name.  [drawn by the seed]")
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The trace's file.")
@_json
def make(
    model_path: Path | None,
    *,
    poisson_mbps: float | None,
    duration_s: float,
    seed: int,
    link: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Make a trace from a fitted model, or of a Poisson process; equal arguments give equal traces.

    \b
    Example:
      ccatune traces make model.json --duration 600 --seed 1 -o made.down
      ccatune traces make --poisson 2.5 --duration 60 -o poisson.down
    """
    if not is_trace(out.name):
        raise TraceError(f"{out}: expected a name ending in {', '.join(TRACE_SUFFIXES)}, by which it can be read again")
    check_output(out)
    trace = _made(model_path, poisson_mbps, duration_s=duration_s, seed=seed, link=link)
    write_file(out, trace.as_file())
    if as_json:
        figures = {"trace": str(out), "duration_s": trace.duration_s, "mean_rate_mbps": trace.mean_rate_mbps}
        echo(json.dumps({**figures, "digest": trace.digest}))
    else:
        echo(f"{out}: {_figures(trace)}")


@traces.command("import")
@_paths
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="The folder for the traces. It is made if it does not exist.")  # fmt: skip
@click.option("--column", metavar="NAME[:UNIT]",
              help="The column of rates, and its unit (bit/s, kbit/s, Mbit/s, Gbit/s).  [recognised]")  # fmt: skip
@click.option("--time-column", metavar="NAME[:UNIT]",
              help="The column of times, and its unit (s, ms).  [recognised]")  # fmt: skip
@click.option("--delay-interval-ms", type=FiniteRange(min=0, min_open=True), default=10.0, show_default=True,
              help="Time between the lines of LeoReplayer's delays.")  # fmt: skip
@_json
def import_(
    paths: tuple[Path, ...],
    *,
    out: Path,
    column: str | None,
    time_column: str | None,
    delay_interval_ms: float,
    as_json: bool,
) -> None:
    """Convert CSV files with a column of rates, Pensieve's cooked files, and LeoReplayer's bw and delay files.

    Columns and units are recognised, and reported. Files whose columns are ambiguous are refused.

    \b
    Example:
      ccatune traces import 5Gdataset/Download -o ucc-5g
      ccatune traces import drive.csv --column rate:kbit/s --time-column t:ms -o mine
    """
    from emulation.traces.importing import Choices, import_traces

    unread: list[str] = []
    rows: list[dict[str, Any]] = []
    source = None
    choices = Choices(column=column, time_column=time_column, delay_interval_ms=delay_interval_ms)
    for found in import_traces(paths, out, choices=choices, unread=unread):
        trace = found.trace
        rows.append({
            "source": str(found.source),
            "columns": found.columns,
            "trace": None if trace is None else str(found.file),
            "delays": None if found.delays_file is None else str(found.delays_file),
            "duration_s": None if trace is None else trace.duration_s,
            "mean_rate_mbps": None if trace is None else trace.mean_rate_mbps,
        })  # fmt: skip
        if as_json:
            continue
        if found.source != source:
            echo(f"{found.source}: {found.columns}")
            source = found.source
        figures = "nothing written, it carries no packet" if trace is None else _figures(trace)
        echo(f"  {found.file}: {figures}")
    if as_json:
        echo(json.dumps({"traces": rows, "unread_files": unread}, indent=1))
        return
    _print_unread(unread)
    n_written = sum(row["trace"] is not None for row in rows)
    echo(f"{counted(n_written, 'trace')} written, {counted(len(unread), 'file')} not read")


def _figures(trace: Trace) -> str:
    return f"{trace.duration_s:.1f} s, mean {trace.mean_rate_mbps:.2f} Mbit/s"


def _print_unread(names: Sequence[str]) -> None:
    for name in names[:MOST_UNREAD_SHOWN]:
        echo(f"not read: {name}")
    if len(names) > MOST_UNREAD_SHOWN:
        echo(f"not read: {len(names) - MOST_UNREAD_SHOWN} more, which --json lists")


def _made(
    model_path: Path | None, poisson_mbps: float | None, *, duration_s: float, seed: int, link: str | None
) -> Trace:
    from emulation.traces.poisson import make_poisson
    from emulation.traces.synthetic import TraceModel, make

    if poisson_mbps is not None and model_path is None and link is None:
        return make_poisson(poisson_mbps, duration_s=duration_s, seed=seed)
    if poisson_mbps is not None or model_path is None:
        raise TraceError("traces make: expected either MODEL, with or without --link, or --poisson; give one of them")
    return make(TraceModel.load(model_path), duration_s=duration_s, seed=seed, link=link)


def _facts(recording: Recording) -> dict[str, Any]:
    per_second = recording.trace.bin_counts(1000)
    mean = float(per_second.mean()) if len(per_second) else 0.0
    return {
        "name": recording.name,
        "dataset": recording.dataset,
        "files": len(recording.files),
        "duration_s": recording.duration_s,
        "epochs": len(epochs(recording)),
        "mean_rate_mbps": recording.trace.mean_rate_mbps,
        "cov_1s": float(np.std(per_second)) / mean if mean else 0.0,
        "gaps": len(recording.gaps),
        "longest_gap_s": max((gap.duration_ms for gap in recording.gaps), default=0) / 1000,
    }


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    forms = {
        "files": "{files}",
        "seconds": "{duration_s:.1f}",
        "epochs": "{epochs}",
        "Mbit/s": "{mean_rate_mbps:.2f}",
        "CoV": "{cov_1s:.2f}",
        "gaps": "{gaps}",
        "longest": "{longest_gap_s:.1f} s",
    }
    columns = [Column("recording", least=16), *(Column(heading, "right") for heading in forms)]
    print_table(columns, ((row["name"], *(form.format(**row) for form in forms.values())) for row in rows))


def _scale(scale_ms: float) -> str:
    return f"{scale_ms:.0f} ms" if scale_ms < 1000 else f"{scale_ms / 1000:.1f} s"
