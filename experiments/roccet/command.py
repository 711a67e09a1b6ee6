# SPDX-License-Identifier: MIT
"""`python -m experiments roccet`: compares the ROCCET paper's statements with the simulator."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kmod.terminal import echo
from training.options import as_json_option, enforce_option, plot_option, threads_option, traces_option

if TYPE_CHECKING:
    from emulation.traces import Recording
    from experiments.roccet import RoccetSettings
    from experiments.roccet.runs import Results

__all__ = ["roccet"]

NOTE = "* unvalidated: no kernel here has BBRv3"
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "reports" / "roccet.yaml"
NAMES = ("frozen", "halved", "recorded", "share")


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, help="[configs/reports/roccet.yaml]")
@click.option("--only", "parts", multiple=True, type=click.Choice(NAMES), help="These parts  [all]")
@click.option("--seeds", type=click.IntRange(5, 10_000), help="Runs of each case on a made link  [the config's]")
@traces_option
@click.option("--work", type=click.Path(path_type=Path), default=Path("report-roccet.parts"), show_default=True,
              help="Finished cases are kept here, and not run again")  # fmt: skip
@threads_option
@plot_option
@click.option("--markdown", is_flag=True, help="Print the tables of docs/roccet.md instead of the statements.")
@enforce_option
@as_json_option
def roccet(
    *, config: Path, parts: tuple[str, ...], seeds: int | None, paths: tuple[Path, ...], work: Path,
    threads: int | None, plot: Path | None, markdown: bool, enforce: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare the ROCCET paper's statements, and this project's targets, with the simulator.

    A figure has a 95 % interval. ! marks a figure that differs from the statement. BBRv3 is unvalidated, because no
    kernel here has it. docs/roccet.md gives the differences and their reasons. The report takes half an hour on two
    processors. An interrupted report continues where it stopped. --markdown and --json print the figures that the
    statements use: RTT and goodput before and after the change, their distributions on recorded links, and every share.

    \b
    Example:
      python -m experiments roccet --only frozen --only halved --plot roccet.png
    """
    from experiments.roccet import load_settings, markdown_of, tables_of

    if markdown and set(parts) == {"frozen"}:
        raise click.UsageError("expected --only halved, recorded or share beside --markdown, which have tables")
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
        if set(parts) == {"frozen"}:
            raise click.UsageError("expected --only halved, recorded or share beside --plot, which draws them")
    settings = load_settings(config)
    if seeds is not None:
        settings = settings.model_copy(update={"seeds": seeds})
    results, rows = _run(settings, parts=parts or NAMES, paths=paths, work=work, threads=threads, quiet=as_json)
    if plot is not None:
        from experiments.roccet.plot import draw

        draw(settings, results, path=plot)
    differing = sum(not row["agrees"] for row in rows)
    tables = tables_of(settings, results, parts=parts or NAMES)
    if as_json:
        figures = {"settings": settings.model_dump(mode="json"), "rows": rows, "tables": tables,
                   "rows_differing": differing}  # fmt: skip
        echo(json.dumps(figures, indent=1))
    elif markdown:
        echo("\n".join(markdown_of(tables)))
    else:
        agree = f"agree in {len(rows) - differing} of {len(rows)}; {settings.seeds} seeds on made links"
        echo("\n".join([*lines_of(rows), NOTE, agree]))
    if enforce and differing:
        sys.exit(1)


def _run(
    settings: RoccetSettings, *, parts: Sequence[str], paths: Sequence[Path], work: Path, threads: int | None,
    quiet: bool,
) -> tuple[Results, list[dict[str, Any]]]:  # fmt: skip
    from emulation.traces import default_traces, read
    from experiments.roccet import PARTS, plan
    from experiments.roccet.runs import key_of
    from training.errors import TrainingError
    from training.progress import Terminal
    from training.study.journal import Journal

    results: Results = {}
    rows = []
    with Terminal(quiet=quiet) as terminal:
        recordings: Sequence[Recording] = ()
        if "recorded" in parts:
            terminal.phase("reading traces", total=1)
            found = list(paths) or [path for path in (default_traces(),) if path is not None]
            if not found:
                raise TrainingError("report: expected recorded traces, got none; give --traces, or leave recorded out")
            datasets = {settings.recorded.stationary.dataset, settings.recorded.mobile.dataset}
            recordings = read(found, wanted=datasets.__contains__).recordings
        campaign = plan(settings, parts=parts, recordings=recordings)
        for part in campaign.cases:
            terminal.phase(PARTS[part][0].split(",")[0], total=campaign.seconds(part))
            journal = Journal(work, key=key_of(getattr(settings, part), campaign.cases[part]))
            found_here = campaign.run(part, journal=journal, threads=threads, advance=terminal.advance)
            rows += campaign.judge(part, found_here)
            results |= found_here
    return results, rows


def lines_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A heading for each part, followed by the lines of its statements."""
    from experiments.figures import statement_lines

    lines = []
    for title, group in groupby(rows, key=lambda row: str(row["title"])):
        lines += [title[0].upper() + title[1:], *statement_lines(list(group), at="at"), ""]
    return lines
