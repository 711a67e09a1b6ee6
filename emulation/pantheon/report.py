# SPDX-License-Identifier: MIT
"""Writes the results of data folders: Pantheon's own files, one web page, and one PDF.

    pantheon_perf.json                     statistics of each run
    pantheon_summary.svg, .pdf             throughput against delay of each run
    pantheon_summary_mean.svg, .pdf        the same of the mean of each scheme
    <scheme>_stats_run<n>.log              the statistics of the run are added
    pantheon_report.html, .pdf             tables and figures of one or of several folders

Except for the page, the file names are Pantheon's. The page is one file without scripts and external resources.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from emulation.errors import EmulationError
from emulation.mahimahi.logs import log_path
from emulation.pantheon._page import page_text
from emulation.pantheon._pdf import pdf_content
from emulation.pantheon.analysis import Analysis, performance
from emulation.pantheon.plots import Style, styles_of, summary_figure
from emulation.pantheon.statistics import update_stats_log
from emulation.traces.files import write_file

PERFORMANCE_NAME = "pantheon_perf.json"
SUMMARIES = (("pantheon_summary", "runs", ""), ("pantheon_summary_mean", "mean", ", means"))


def write_results(analysis: Analysis, *, styles: Mapping[str, Style], now: datetime) -> None:
    """Write the files that Pantheon's own analysis writes: the first four kinds in the list above.

    Where logs are missing, earlier results are kept: their statistics, and the figures if no run is valid.
    styles: by scheme, as far as they are known. now: the time in UTC that the logs state.

    Raises EmulationError if a file cannot be written.
    """
    folder = analysis.data_dir
    path = folder / PERFORMANCE_NAME
    before = _known(path)
    if (now_known := performance(analysis, before)) != before:
        write_file(path, json.dumps(now_known).encode() + b"\n")
    if not any(scheme.valid_runs for scheme in analysis.schemes):
        return
    for scheme in analysis.schemes:
        for run in scheme.valid_runs:
            if run.statistics:
                path = log_path(folder, scheme=scheme.scheme, run=run.run, kind="stats")
                update_stats_log(path, run.statistics, now=now)
    its = styles_of([scheme.scheme for scheme in analysis.schemes], styles)
    for name, show, what in SUMMARIES:
        for suffix in ("svg", "pdf"):
            figure = summary_figure(analysis, its, show=show, title=f"{analysis.name}{what}")  # type: ignore[arg-type]
            figure.set_facecolor("white")
            content = io.BytesIO()
            figure.savefig(content, format=suffix)
            write_file(folder / f"{name}.{suffix}", content.getvalue())


def _known(path: Path) -> dict[str, dict[str, Any]]:
    """Return the statistics that the file has. Content of another form is not kept."""
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: runs for key, runs in known.items() if isinstance(runs, dict)} if isinstance(known, dict) else {}


def write_report(
    analyses: Sequence[Analysis],
    path: Path,
    *,
    kind: Literal["html", "pdf"],
    styles: Mapping[str, Style],
    now: datetime,
) -> None:
    """Write the report of one or several folders, as a web page or as a PDF with the same content.

    styles: as far as they are known. now: the time in UTC that the report states.

    Raises EmulationError if there is no folder, or the file cannot be written.
    """
    if not analyses:
        raise EmulationError(f"{path}: expected at least one data folder to report, got none")
    # The styles of the schemes of all folders, so that a scheme looks the same in each section.
    schemes = list(dict.fromkeys(scheme.scheme for analysis in analyses for scheme in analysis.schemes))
    its = styles_of(schemes, styles)
    if kind == "pdf":
        write_file(path, pdf_content(analyses, styles=its, now=now))
    else:
        write_file(path, page_text(analyses, styles=its, now=now).encode())
