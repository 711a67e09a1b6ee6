# SPDX-License-Identifier: MIT
"""The web page of a report. It follows the reader's light or dark theme.

Figures are SVG inside the page. Variables of the page replace their fixed colours. Each figure's identifiers get a
prefix, because identifiers must be unique in a page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape as escape_html
from itertools import count, groupby

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from emulation.pantheon.analysis import Analysis, RunAnalysis, SchemeAnalysis
from emulation.pantheon.plots import BLACK, CAPACITY, FAINT, GRID, INK, Style, run_figure, summary_figure
from emulation.pantheon.tables import (
    METHOD,
    Table,
    flow_table,
    head_line,
    left_out_table,
    overview_table,
    set_up,
    summary_table,
)
from kmod.terminal import counted, visible

VARIABLES = {INK: "--ink", FAINT: "--faint", GRID: "--grid", CAPACITY: "--capacity", BLACK: "--strong"}
IMAGE_DPI = 160
CAPTION = (
    "<b>Throughput against delay.</b> Large marks are means, small marks are single runs. "
    "Ellipses are one standard deviation."
)
CSS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #24292f; --faint: #6b7480; --grid: #e9ecf0; --capacity: #e4e8ed;
  --strong: #010101; --rule: #d5dae0; --best: #0a6640; --warn: #9a4a00; --panel: #f7f8fa;
  --sans: system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #dfe3e8; --faint: #98a2ae; --grid: #262b32; --capacity: #2a3038; --strong: #f2f4f6;
    --rule: #343b44; --best: #5fd39b; --warn: #f0a860; --panel: #1b1f25; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 var(--sans); }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; letter-spacing: -.015em; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 3.2rem 0 .3rem; padding-top: 1.2rem; overflow-wrap: anywhere;
  border-top: 2px solid var(--ink); letter-spacing: -.01em; }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; }
.quiet { color: var(--faint); }
nav { margin-top: 1rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
a { color: inherit; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .8rem 0 1.6rem; font-size: .9rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
dd.code { font-family: var(--mono); font-size: .84rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; min-width: 100%; }
th, td { padding: .42rem .8rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: var(--faint); font-size: .82rem; vertical-align: bottom; padding-bottom: .3rem; }
th.group { text-align: center; padding-bottom: .1rem; }
th.group span { display: block; border-bottom: 1px solid var(--rule); }
thead tr:last-child th { border-bottom: 1.5px solid var(--ink); }
tbody td, tbody th { border-bottom: 1px solid var(--rule); }
tbody th { color: var(--ink); font-size: inherit; vertical-align: middle; padding-bottom: .42rem; }
th:first-child, td:first-child { padding-left: 0; }
th.text, td.text { text-align: left; }
td.text:last-child { white-space: normal; }
.best { color: var(--best); font-weight: 650; }
.mark { width: 1.05em; height: 1.05em; vertical-align: -.18em; margin-right: .5em; }
figure { margin: 1.4rem 0; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .88rem; color: var(--faint); margin-bottom: .2rem; }
figcaption b { color: var(--ink); }
details { border-bottom: 1px solid var(--rule); }
summary { cursor: pointer; padding: .6rem .2rem; }
summary:hover { background: var(--panel); }
summary .quiet { margin-left: .6rem; font-size: .88rem; }
.not-ok { color: var(--warn); font-weight: 600; }
footer { margin-top: 3.5rem; font-size: .85rem; color: var(--faint); }
footer ul { padding-left: 1.1rem; margin: .4rem 0; }
@media print { body { max-width: none; padding: 0; } figure { break-inside: avoid; } nav { display: none; } }
"""


def escape(text: str) -> str:
    """Return a text for the page, without characters that control a terminal or are not Unicode."""
    return escape_html(visible(text))


def page_text(analyses: Sequence[Analysis], *, styles: Mapping[str, Style], now: datetime) -> str:
    """Return the page. analyses: at least one. styles: by scheme, with all schemes. now: in UTC."""
    numbers = count(1)
    title = "Pantheon report" if len(analyses) > 1 else f"Pantheon report: {analyses[0].name}"
    parts = [
        f'<header><h1>{escape(title)}</h1><p class="quiet">{escape(head_line(analyses))}. '
        f"Written on {now:%Y-%m-%d at %H:%M} UTC.</p></header>"
    ]
    overview = overview_table(analyses, styles)
    if overview:
        links = "".join(f'<a href="#link-{at}">{escape(one.name)}</a>' for at, one in enumerate(analyses, start=1))
        parts += [f"<nav>{links}</nav>", _table(overview)]
    for at, analysis in enumerate(analyses, start=1):
        parts.append(_section(analysis, at, styles, numbers, is_only=not overview))
    method = "".join(f"<li>{escape(sentence)}</li>" for sentence in METHOD)
    parts.append(f"<footer>How to read it<ul>{method}</ul></footer>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(analysis: Analysis, at: int, styles: Mapping[str, Style], numbers: count[int], *, is_only: bool) -> str:
    head = "" if is_only else f"<h2>{escape(analysis.name)}</h2>"
    pairs = "".join(
        f'<dt>{escape(name)}</dt><dd class="{"code" if name == "link" else ""}">{escape(value)}</dd>'
        for name, value in set_up(analysis)
    )
    figure = _svg(summary_figure(analysis, styles), next(numbers))
    tables = [summary_table(analysis, styles), flow_table(analysis, styles), left_out_table(analysis, styles)]
    shown = [_table(table) for table in tables if table]
    runs = "".join(_scheme(scheme, analysis, styles[scheme.scheme], numbers) for scheme in analysis.schemes)
    summary = f"<figure><figcaption>{CAPTION}</figcaption>{figure}</figure>"
    return (
        f'<section id="link-{at}">{head}<dl>{pairs}</dl>{shown[0]}{summary}{"".join(shown[1:])}'
        f"<h3>Each run over time</h3>{runs}</section>"
    )


def _scheme(scheme: SchemeAnalysis, analysis: Analysis, style: Style, numbers: count[int]) -> str:
    valid = f"{len(scheme.valid_runs)} of {counted(len(scheme.runs), 'run')} valid"
    runs = "".join(_run(run, analysis, next(numbers)) for run in scheme.runs)
    return (
        f"<details><summary>{_mark(style)}<b>{escape(style.name)}</b>"
        f'<span class="quiet">{valid}</span></summary>{runs}</details>'
    )


def _run(run: RunAnalysis, analysis: Analysis, number: int) -> str:
    began = run.times.get("Start at")
    caption = f"<b>Run {run.run}</b>" + (f", {escape(began)} UTC" if began else "")
    if run.verdict != "ok":
        reason = run.reason.replace(f"{analysis.data_dir}/", "")
        caption += f' <span class="not-ok">{run.verdict}</span>: {escape(reason)}'
    figure = run_figure(run, runtime_s=float(analysis.metadata.runtime)) if run.series else None
    return f"<figure><figcaption>{caption}</figcaption>{_svg(figure, number) if figure else ''}</figure>"


def _table(table: Table) -> str:
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    groups = ""
    if any(column.group for column in table.columns):
        for group, columns in groupby(table.columns, key=lambda column: column.group):
            name = f"<span>{escape(group)}</span>" if group else ""
            groups += f'<th class="group" colspan="{len(list(columns))}">{name}</th>'
        groups = f"<tr>{groups}</tr>"
    heads = "".join(f"<th{_class(column.is_text)}>{escape(column.name)}</th>" for column in table.columns)
    rows = ""
    for row in table.rows:
        cells = f'<th class="text" scope="row">{_mark(row.style)}{escape(row.cells[0].text)}</th>'
        for column, cell in zip(table.columns[1:], row.cells[1:], strict=True):
            cells += f"<td{_class(column.is_text, is_best=cell.is_best)}>{escape(cell.text)}</td>"
        rows += f"<tr>{cells}</tr>"
    head = f"<thead>{groups}<tr>{heads}</tr></thead>"
    return f'{title}<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'


def _class(is_text: bool, *, is_best: bool = False) -> str:  # noqa: FBT001 (its only kind of argument)
    names = [name for name, holds in (("text", is_text), ("best", is_best)) if holds]
    return f' class="{" ".join(names)}"' if names else ""


def _mark(style: Style) -> str:
    """Return a scheme's mark as a small picture. Markers are drawn into a square of -1 to 1."""
    marker = MarkerStyle(style.marker)
    path = marker.get_path().transformed(marker.get_transform())
    polygons = [np.asarray(polygon, dtype=np.float64) for polygon in path.to_polygons(closed_only=False)]
    size = max(float(np.abs(polygon).max()) for polygon in polygons)
    is_filled = style.marker in Line2D.filled_markers
    shape = "".join(
        "M" + "L".join(f"{x:.2f},{-y:.2f}" for x, y in (polygon / size).tolist()) + ("Z" if is_filled else "")
        for polygon in polygons
    )
    color = f"var({VARIABLES[BLACK]})" if style.color == BLACK else style.color
    look = f'fill="{color}" stroke="var(--ink)" stroke-width=".12"' if is_filled else f'fill="none" stroke="{color}"'
    extra = "" if is_filled else ' stroke-width=".35"'
    return f'<svg class="mark" viewBox="-1.2 -1.2 2.4 2.4" aria-hidden="true"><path {look}{extra} d="{shape}"/></svg>'


def _svg(figure: Figure, number: int) -> str:
    """Return a figure as an element of the page."""
    content = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "ccatune"}):
        figure.savefig(content, format="svg", dpi=IMAGE_DPI, metadata={"Date": None, "Creator": None})
    text = content.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{number}-", text)
    text = re.sub(r"(font: [^;\"]*?px) [^;\"]*", r"\1 var(--sans)", text)
    for color, name in VARIABLES.items():
        text = text.replace(color, f"var({name})")
    return text.strip()
