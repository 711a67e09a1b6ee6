# SPDX-License-Identifier: MIT
"""`ccatune pantheon analyze` and `report`: statistics and reports of data folders of ccatune and of Pantheon."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
from matplotlib.colors import to_hex, to_rgb

from emulation.errors import EmulationError
from emulation.options import check_output, words_of
from emulation.pantheon.analysis import Analysis, analyse, to_json
from emulation.pantheon.cli import pantheon
from emulation.pantheon.metadata import FILE_NAME
from emulation.pantheon.plots import Style
from emulation.pantheon.schemes import Scheme, read_schemes, schemes_of
from emulation.pantheon.statistics import Spread
from kmod.tables import Column, print_table, shortened
from kmod.terminal import echo

_data_dirs = click.option(
    "--data-dir",
    "data_dirs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    required=True,
    help="A data folder, or a folder with one data folder for each link. Repeat it for several.",
)
_schemes = click.option("--schemes", "names", metavar='"SCHEME1 SCHEME2..."', help="Show only these schemes.")
_checkout = click.option(
    "--pantheon", "checkout", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The checkout of Pantheon whose config.yml has the names and colours of the schemes.",
)  # fmt: skip


def folders_of(data_dirs: Sequence[Path]) -> list[Path]:
    """Return the data folders. A folder that is not a data folder stands for the data folders in it.

    Raises EmulationError if a folder neither is a data folder nor contains one.
    """
    found = []
    for folder in data_dirs:
        inner = sorted(path.parent for path in folder.glob(f"*/{FILE_NAME}"))
        its = [folder] if (folder / FILE_NAME).is_file() else inner
        if not its:
            raise EmulationError(f"{folder}: expected a data folder with {FILE_NAME}, found none in it")
        found += its
    return found


def _analyses(data_dirs: Sequence[Path], names: str | None, *, acks: bool = False) -> list[Analysis]:
    wanted = words_of(names) if names is not None else None
    return [analyse(folder, schemes=wanted, acks=acks) for folder in folders_of(data_dirs)]


def schemes_in(analyses: Sequence[Analysis]) -> set[str]:
    """Return the names of all schemes of the folders."""
    return {scheme.scheme for analysis in analyses for scheme in analysis.schemes}


def styles_for(names: Collection[str], checkout: Path | None = None) -> dict[str, Style]:
    """Return the known names, colours and markers of schemes: those of the checkout, and those of ccatune."""
    known = read_schemes() | (read_schemes(checkout) if checkout is not None else {})
    found = {}
    for name in names:
        try:
            (scheme,) = schemes_of([name], known)
        except EmulationError:
            continue  # a scheme of a checkout that was not given
        found[name] = Style(scheme.label, scheme.color, scheme.marker)
    return found | _shaded(found, known)


def _shaded(styles: Mapping[str, Style], known: Mapping[str, Scheme]) -> dict[str, Style]:
    """Return the styles of schemes with a delay class. The shorter the delay target, the lighter the colour."""
    found = {}
    for base in known:
        classes = [name for name in styles if name.startswith(f"{base}-") and name not in known]
        classes.sort(key=lambda name: float(name.rpartition("-")[2].removesuffix("ms")))
        for at, name in enumerate(classes):
            share = (at + 1) / len(classes)
            red, green, blue = (1 - share * (1 - part) for part in to_rgb(styles[name].color))
            found[name] = replace(styles[name], color=to_hex((red, green, blue)))
    return found


@pantheon.command()
@_data_dirs
@_schemes
@click.option("--acks", is_flag=True, help="Also analyse the direction of the ACKs.")
@click.option("--json", "as_json", is_flag=True, help="Print all results as JSON, with the series over time.")
def analyze(*, data_dirs: tuple[Path, ...], names: str | None, acks: bool, as_json: bool) -> None:
    """Print throughput, one-way delay and loss of each scheme. The exit status is 1 if a run is not valid.

    The statistics are also written into the data folder, in the files of Pantheon's own analysis. Earlier results of
    other schemes, and of runs whose logs are no longer there, are kept in pantheon_perf.json.

    \b
    Example:
      ccatune pantheon analyze --data-dir out --json
    """
    from emulation.pantheon.report import write_results

    analyses = _analyses(data_dirs, names, acks=acks)
    if as_json:
        documents = [to_json(analysis) for analysis in analyses]
        echo(json.dumps(documents[0] if len(documents) == 1 else documents))
    for analysis in analyses if not as_json else ():
        _print_schemes(analysis)
        for run in (run for scheme in analysis.schemes for run in scheme.runs if run.verdict != "ok"):
            echo(f"{run.scheme} run {run.run}: {run.verdict}: {run.reason}", err=True)
    # The results are also printed if the folder cannot be written.
    for analysis in analyses:
        write_results(analysis, styles=styles_for(schemes_in(analyses)), now=datetime.now(UTC))
    if any(run.verdict != "ok" for each in analyses for scheme in each.schemes for run in scheme.runs):
        sys.exit(1)


def _print_schemes(analysis: Analysis) -> None:
    """Print a line for each scheme: mean and standard deviation over its valid runs."""
    capacity = "" if analysis.capacity_mbps is None else f", capacity {analysis.capacity_mbps:.2f} Mbit/s"
    rows = []
    for scheme in analysis.schemes:
        summary = scheme.summary
        cells = (
            _cell(summary.throughput_mbps, "{:.2f}"),
            _cell(summary.delay_p95_ms, "{:.1f}"),
            _cell(summary.loss, "{:.2f}", scale=100),
        )
        rows.append((scheme.scheme, f"{len(scheme.valid_runs)}/{len(scheme.runs)}", *cells))
    numbers = [Column(heading, "right") for heading in ("runs", "Mbit/s", "p95 one-way\ndelay ms", "loss %")]
    print_table([Column("scheme", least=14), *numbers], rows, title=shortened(f"{analysis.name}{capacity}", 80))


def _cell(spread: Spread | None, form: str, *, scale: float = 1) -> str:
    if spread is None:
        return ""
    deviation = f" ± {form.format(spread.sd * scale)}" if spread.n > 1 else ""
    return form.format(spread.mean * scale) + deviation


@pantheon.command()
@_data_dirs
@_schemes
@_checkout
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="The web page  [DATA-DIR/pantheon_report.html]"
)
@click.option("--pdf", type=click.Path(path_type=Path, dir_okay=False), help="The PDF  [DATA-DIR/pantheon_report.pdf]")
def report(*, data_dirs: tuple[Path, ...], names: str | None, checkout: Path | None, **given: Path | None) -> None:
    """Write a web page and a PDF: throughput against delay, tables, and each run over time.

    \b
    Example:
      ccatune pantheon report --data-dir out
      ccatune pantheon report --data-dir a --data-dir b --html both.html --pdf both.pdf
    """
    from emulation.pantheon.report import write_report

    analyses = _analyses(data_dirs, names)
    styles = styles_for(schemes_in(analyses), checkout)
    now = datetime.now(UTC)
    kinds: tuple[Literal["html", "pdf"], ...] = ("html", "pdf")
    for kind in kinds:
        out: Any = given[kind] or data_dirs[0] / f"pantheon_report.{kind}"
        check_output(out)
        write_report(analyses, out, kind=kind, styles=styles, now=now)
        echo(out)
