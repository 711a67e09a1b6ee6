# SPDX-License-Identifier: MIT
"""The PDF of a report: for each link an A4 page with tables and the summary figure, and then its runs.

There are six runs on a page, or four if they have several flows.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from emulation.figure import new_figure
from emulation.pantheon.analysis import Analysis
from emulation.pantheon.plots import FAINT, INK, Style, draw_run, draw_summary
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
from kmod.terminal import visible

PAGE_IN = (11.69, 8.27)
LINE_IN = 0.2
LEAST_SUMMARY_IN = 2.6
RUNS_ON_A_PAGE = 6
POINTS = 8.5
# The mean width of a character of the font, in em.
CHARACTER_EM = 0.56
MOST_LINE_CHARS = 150
MOST_CELL_CHARS = 95
BEST = "#0a6640"


def pdf_content(analyses: Sequence[Analysis], *, styles: Mapping[str, Style], now: datetime) -> bytes:
    """Return the content of the PDF. analyses: at least one. styles: by scheme, with all schemes. now: in UTC."""
    content = io.BytesIO()
    with PdfPages(content, metadata={"Title": _title(analyses), "CreationDate": now, "ModDate": now}) as pages:
        for figure in pages_of(analyses, styles=styles, now=now):
            pages.savefig(figure)
    return content.getvalue()


def pages_of(analyses: Sequence[Analysis], *, styles: Mapping[str, Style], now: datetime) -> list[Figure]:
    """Return the pages of the PDF. The arguments are those of pdf_content."""
    about = f"{head_line(analyses)}. Written on {now:%Y-%m-%d at %H:%M} UTC."
    overview = overview_table(analyses, styles)
    figures = [_page(_title(analyses), [about], [overview])] if overview else []
    for analysis in analyses:
        title = analysis.name if overview else _title(analyses)
        figures += [_link_page(analysis, styles, title=title, about=about), *_run_pages(analysis, styles)]
    return figures


def _title(analyses: Sequence[Analysis]) -> str:
    return "Pantheon report" if len(analyses) > 1 else visible(f"Pantheon report: {analyses[0].name}")


def _link_page(analysis: Analysis, styles: Mapping[str, Style], *, title: str, about: str) -> Figure:
    tables = [make(analysis, styles) for make in (summary_table, flow_table, left_out_table)]
    lines = [about, *(f"{name}: {value}" for name, value in set_up(analysis))]
    figure = _page(title, lines, [table for table in tables if table], summary_in=LEAST_SUMMARY_IN)
    draw_summary(figure, figure.axes[-1], analysis, styles)
    return figure


def _page(title: str, lines: Sequence[str], tables: Sequence[Table], *, summary_in: float = 0.0) -> Figure:
    """Return a page with texts, tables and, if summary_in is not 0, axes for a figure, which are the last axes.

    The page is higher than A4 if its content requires it, and lower without the axes. summary_in: their least height.
    """
    wrapped = [part for line in lines for part in textwrap.wrap(line, MOST_LINE_CHARS)]
    explained = textwrap.wrap(" ".join(METHOD), MOST_LINE_CHARS) if summary_in else []
    heights = [LINE_IN * (len(wrapped) + 2), *(LINE_IN * (len(table.rows) + 3.5) for table in tables)]
    heights += [LINE_IN * (len(explained) + 1)]
    height_in = max(PAGE_IN[1] if summary_in else 0.0, sum(heights) + (summary_in or LINE_IN))
    rest_in = height_in - sum(heights)
    figure = new_figure(PAGE_IN[0], height_in)
    figure.set_layout_engine("constrained", rect=(0.04, 0.03, 0.92, 0.94), h_pad=0.06)
    panels: list[Axes] = figure.subplots(len(heights) + 1, 1, height_ratios=[*heights, rest_in]).tolist()
    for axes in panels[: -1 if summary_in else None]:
        axes.set_axis_off()
    panels[0].text(0, 1, title, fontsize=16, weight="bold", color=INK, va="top")
    _write(panels[0], wrapped, top=1 - 2 * LINE_IN / heights[0])
    for axes, table in zip(panels[1:], tables, strict=False):
        _draw_table(axes, table)
    _write(panels[-2], explained, top=1)
    return figure


def _write(axes: Axes, lines: Sequence[str], *, top: float) -> None:
    axes.text(0, top, "\n".join(lines), fontsize=POINTS, color=FAINT, va="top", linespacing=1.4)


def _draw_table(axes: Axes, table: Table) -> None:
    axes.set_title(table.title, fontsize=10, weight="bold", color=INK, loc="left")
    columns = table.columns
    has_groups = any(column.group for column in columns)
    # The name of a group stands above the name of its first column.
    groups = ["" if at and columns[at - 1].group == column.group else column.group for at, column in enumerate(columns)]
    heads = [visible(column.name) for column in columns]
    if has_groups:
        heads = [f"{visible(group)}\n{name}" for group, name in zip(groups, heads, strict=True)]
    rows = [
        [textwrap.shorten(visible(cell.text), MOST_CELL_CHARS, placeholder=" ...") for cell in row.cells]
        for row in table.rows
    ]
    widths = [max(map(len, "\n".join(texts).split("\n"))) + 3 for texts in zip(heads, *rows, strict=True)]
    points = min(POINTS, PAGE_IN[0] * 0.92 * 72 / CHARACTER_EM / sum(widths))
    shares = [width / sum(widths) for width in widths]
    drawn = axes.table(rows, colLabels=heads, colWidths=shares, bbox=Bbox.unit(), edges="horizontal")
    drawn.auto_set_font_size(value=False)
    for (number, at), cell in drawn.get_celld().items():
        is_best = number > 0 and table.rows[number - 1].cells[at].is_best
        look = {"color": BEST, "weight": "bold"} if is_best else {"color": INK if number else FAINT}
        cell.set_text_props(ha="left" if columns[at].is_text else "right", fontsize=points, parse_math=False, **look)
        cell.set_edgecolor(FAINT)
        cell.visible_edges = "B"
        cell.PAD = 0.02
        if has_groups and number == 0:
            cell.set_height(2 * cell.get_height())


def _run_pages(analysis: Analysis, styles: Mapping[str, Style]) -> list[Figure]:
    runs = [run for scheme in analysis.schemes for run in scheme.runs if run.series]
    figures = []
    # The legend of several flows takes room.
    count = RUNS_ON_A_PAGE if analysis.metadata.flows <= 1 else 4
    for first in range(0, len(runs), count):
        shown = runs[first : first + count]
        figure = new_figure(*PAGE_IN)
        figure.set_layout_engine("constrained", rect=(0.02, 0.02, 0.96, 0.96))
        parts = figure.subfigures(-(-len(shown) // 2), min(2, len(shown)), squeeze=False).ravel()
        for part, run in zip(parts, shown, strict=False):
            title = f"{styles[run.scheme].name}, run {run.run}" + ("" if run.verdict == "ok" else f" ({run.verdict})")
            draw_run(part, run, title=title, runtime_s=float(analysis.metadata.runtime))
        figures.append(figure)
    return figures
