# SPDX-License-Identifier: MIT
"""`python -m experiments rtcp`: compares the statements of R-TCP 2026 on R-TCP itself with the simulator."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from kmod.terminal import echo
from training.options import as_json_option, enforce_option, plot_option, threads_option

if TYPE_CHECKING:
    from emulation.traces import Recording
    from experiments.rtcp import Kind, Results, RtcpSettings
    from training.progress import Terminal

__all__ = ["CONFIG", "journal_keys", "rtcp"]

NOTES = ("* unvalidated: no kernel here has BBRv3",)
WIDTH = 118
ON_TRACES = {"detection", "baseline"}
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "reports" / "rtcp.yaml"


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, help="[configs/reports/rtcp.yaml]")
@click.option("--only", "kinds", multiple=True,
              type=click.Choice(["files", "detection", "map", "patterns", "second", "concurrent", "lifted", "freed",
                                 "kept", "probing", "fairness", "baseline", "video"]),
              help="This alone; may be given again  [all]")  # fmt: skip
@click.option(
    "--seeds",
    type=click.IntRange(5, 10_000),
    help="Runs of each file, pattern, meeting, lift and video  [the config's]",
)
@click.option("--runs", type=click.IntRange(1, 1_000_000), help="Runs of each cell of detection alone  [the config's]")
@click.option("--traces", "paths", multiple=True, type=click.Path(path_type=Path),
              help="Of links without a limit: files, folders, archives")  # fmt: skip
@click.option("--work", type=click.Path(path_type=Path), default=Path("report-rtcp.parts"), show_default=True,
              help="Finished parts are kept here, and not run again")  # fmt: skip
@threads_option
@plot_option
@click.option("--markdown", is_flag=True, help="Print the tables of docs/rtcp.md instead of the statements.")
@enforce_option
@as_json_option
def rtcp(
    *, config: Path, kinds: tuple[Kind, ...], seeds: int | None, runs: int | None, paths: tuple[Path, ...], work: Path,
    threads: int | None, plot: Path | None, markdown: bool, enforce: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare the R-TCP paper's statements on R-TCP with the simulator.

    They are about files, detection, transfers, connections and videos. A figure is a mean with its 95 % interval. A
    figure that differs from the statement is marked with !. BBRv3 is unvalidated, because no kernel here has it.
    docs/rtcp.md gives the differences and their reasons. The whole report takes long; --only, --seeds and --runs
    shorten it. An interrupted report continues where it stopped.

    \b
    Example:
      python -m experiments rtcp --only files --plot rtcp.png
    """
    from experiments.rtcp import KINDS, judge, load_settings, summary_of
    from training.progress import Terminal

    given = {name: value for name, value in {"seeds": seeds, "runs": runs}.items() if value is not None}
    settings = load_settings(config).model_copy(update=given)
    chosen = tuple(kind for kind in KINDS if not kinds or kind in kinds)
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
        if "files" not in chosen:
            raise click.UsageError("expected --only files beside --plot, which draws them")
    with Terminal(quiet=as_json) as terminal:
        results = _run(settings, chosen, paths, work=work, threads=threads, terminal=terminal)
    rows = judge(results)
    if plot is not None:
        from experiments.rtcp.plot import draw

        draw(results, path=plot)
    differing = sum(not row["agrees"] for row in rows)
    if as_json:
        figures = {"settings": settings.model_dump(mode="json"), "recorded_traces": results.recorded,
                   "parts": summary_of(results), "rows": rows, "rows_differing": differing}  # fmt: skip
        echo(json.dumps(figures, indent=1))
    else:
        echo("\n".join(_tables(results) if markdown else [*lines_of(rows), *NOTES, *_end(results, rows)]))
    if enforce and differing:
        sys.exit(1)


def _run(
    settings: RtcpSettings, kinds: Sequence[Kind], paths: Sequence[Path], *, work: Path, threads: int | None,
    terminal: Terminal,
) -> Results:  # fmt: skip
    """Run every part that the journal lacks, and take the others from it."""
    from experiments.rtcp import Results, parts_of, run_part
    from experiments.rtcp.links import recordings_for
    from training.study.journal import Journal

    recordings, recorded = recordings_for(settings, paths) if ON_TRACES & set(kinds) else ({}, False)
    others, on_traces = (Journal(work, key=key) for key in journal_keys(settings, recordings))
    kept: dict[str, Any] = {**others.parts(), **on_traces.parts()}
    parts = parts_of(settings, kinds)
    terminal.phase("running flows", total=len(parts))
    found = {}
    for part in parts:
        if part.name not in kept:
            kept[part.name] = run_part(settings, part, recordings.get(part.place, ()), threads=threads)
            (on_traces if part.kind in ON_TRACES else others).put(part.name, kept[part.name])
        found[part] = kept[part.name]
        terminal.advance(1)
    return Results(settings, found, recorded)


def journal_keys(settings: RtcpSettings, recordings: Mapping[str, Sequence[Recording]]) -> tuple[str, str]:
    """The keys of two journals: for parts that run without traces, and for parts that run on traces.

    The keys do not depend on the paths of the settings and of the traces.
    """
    from experiments.rtcp import FIGURES_VERSION
    from kmod.ensemble import canonical_json
    from training.evaluation.runner import core_version

    # The digests of the traces identify the models, whose paths are left out.
    used = settings.model_dump(mode="json", exclude={"unlimited": {"__all__": {"model"}}})
    content = {"settings": used, "core": core_version(), "figures": FIGURES_VERSION}
    traces = {name: [[r.name, r.trace.digest] for r in found] for name, found in recordings.items()}
    others, on_traces = (hashlib.sha256(canonical_json(each)).hexdigest()
                         for each in (content, {**content, "traces": traces}))  # fmt: skip
    return others, on_traces


def _tables(results: Results) -> list[str]:
    from experiments.rtcp import concurrent_table, files_table, map_table, probing_table, second_table, video_table

    tables: tuple[tuple[Kind, Callable[[Results], list[str]]], ...] = (
        ("files", files_table), ("map", map_table), ("second", second_table), ("concurrent", concurrent_table),
        ("probing", probing_table), ("video", video_table),
    )  # fmt: skip
    lines = [line for kind, table in tables if results.has(kind) for line in ["", *table(results)]]
    return lines[1:]


def _end(results: Results, rows: Sequence[dict[str, Any]]) -> list[str]:
    settings = results.settings
    agreeing = sum(row["agrees"] for row in rows)
    shown = any(part.kind in ON_TRACES for part in results.parts)
    traces = f"; traces {'recorded' if results.recorded else 'made'}" if shown else ""
    return [f"agree: {agreeing} of {len(rows)}; {settings.seeds} seeds of each file, pattern, meeting, lift and video, "
            f"runs of each cell: {settings.runs} of detection, {settings.probing.runs} of probing, "
            f"{settings.baseline.runs} of the baseline{traces}"]  # fmt: skip


def lines_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A paragraph for each statement, with its words and then its figures."""
    lines = []
    for row in rows:
        mark = "; unvalidated" if row["unvalidated"] else ""
        figures = ", ".join(figure["text"] for figure in row["figures"])
        lines.append(f"{row['statement']}  {row['words']} ({row['expected']}{mark})")
        outcome = f"  {'agrees' if row['agrees'] else 'differs'}  "
        lines += wrap(
            figures, WIDTH, initial_indent=outcome, subsequent_indent=" " * len(outcome), break_on_hyphens=False
        )
    return lines
