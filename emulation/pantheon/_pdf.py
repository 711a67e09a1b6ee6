# SPDX-License-Identifier: MIT
"""The PDF of a report: A4 pages in landscape with the tables, the summary figure, and then two runs on each page."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from emulation.pantheon._describe import METHOD, head_line, set_up
from emulation.pantheon.analysis import Analysis, RunAnalysis
from emulation.pantheon.plots import FAINT, INK, Style, draw_run, figure_of, summary_figure
from emulation.pantheon.tables import Row, Table, flow_table, left_out_table, overview_table, summary_table

__all__ = ["pdf_content"]

PAGE_IN = (11.69, 8.27)
MARGIN_IN = 0.7
LINE_IN = 0.27
# The part of a page that figures use: left, bottom, width and height, as shares of the page.
INNER = (0.05, 0.05, 0.9, 0.9)
RULE, BEST = "#d5dae0", "#0a6640"
CELL_POINTS = 9.5
# The mean width of a character of the table's font, in em.
CHARACTER_EM = 0.58
GAP_IN = 0.3
MOST_REASON_CHARS = 95


def pdf_content(analyses: Sequence[Analysis], *, styles: Mapping[str, Style], now: datetime) -> bytes:
    """Return the content of the PDF. analyses: at least one. styles: by scheme, with all schemes. now: in UTC."""
    content = io.BytesIO()
    title = "Pantheon report" if len(analyses) > 1 else f"Pantheon report: {analyses[0].name}"
    with PdfPages(content, metadata={"Title": title, "CreationDate": now, "ModDate": now}) as pages:
        sheet = _Sheet(pages)
        sheet.heading(title, points=20)
        sheet.text(f"{head_line(analyses)}. Written on {now:%Y-%m-%d at %H:%M} UTC.", color=FAINT)
        overview = overview_table(analyses, styles)
        if overview:
            sheet.table(overview)
        for analysis in analyses:
            if overview:
                sheet.new_page()
                sheet.heading(analysis.name, points=16)
            _section(sheet, analysis, styles)
            sheet.close()
            summary = summary_figure(analysis, styles, title=analysis.name, size_in=PAGE_IN)
            summary.set_layout_engine("constrained", rect=INNER)
            _save(pages, summary)
            _runs(pages, analysis, styles)
        sheet.new_page()
        sheet.heading("How to read it", points=16)
        for sentence in METHOD:
            sheet.text(sentence)
        sheet.close()
    return content.getvalue()


def _section(sheet: _Sheet, analysis: Analysis, styles: Mapping[str, Style]) -> None:
    for name, value in set_up(analysis):
        sheet.text(f"{name}: {value}", color=FAINT, points=9)
    for table in (summary_table(analysis, styles), flow_table(analysis, styles), left_out_table(analysis, styles)):
        if table:
            sheet.table(table)


def _runs(pages: PdfPages, analysis: Analysis, styles: Mapping[str, Style]) -> None:
    runs = [run for scheme in analysis.schemes for run in scheme.runs if run.series]
    for first in range(0, len(runs), 2):
        figure = figure_of(*PAGE_IN)
        figure.set_layout_engine("constrained", rect=INNER, hspace=0.06)
        parts: list[SubFigure] = figure.subfigures(2, 1, squeeze=False)[:, 0].tolist()
        for part, run in zip(parts, runs[first : first + 2], strict=False):
            title = _run_title(run, analysis, styles[run.scheme])
            draw_run(part, run, title=title, runtime_s=float(analysis.metadata.runtime))
        _save(pages, figure)


def _run_title(run: RunAnalysis, analysis: Analysis, style: Style) -> str:
    title = f"{style.name}, run {run.run}"
    if run.verdict == "ok":
        return title
    reason = run.reason.replace(f"{analysis.data_dir}/", "")
    return textwrap.shorten(f"{title} ({run.verdict}: {reason})", MOST_REASON_CHARS + 20, placeholder=" ...")


def _save(pages: PdfPages, figure: Figure) -> None:
    figure.set_facecolor("white")
    pages.savefig(figure, dpi=160)  # type: ignore[no-untyped-call]


class _Sheet:
    """Writes text and tables from top to bottom. It begins a new page if the next line does not fit."""

    def __init__(self, pages: PdfPages) -> None:
        self._pages = pages
        self._figure: Figure | None = None
        self._at_in = 0.0  # the distance from the top

    def new_page(self) -> None:
        """Save the present page, if there is one, and begin another."""
        self.close()
        self._figure = Figure(figsize=PAGE_IN, facecolor="white")
        FigureCanvasAgg(self._figure)
        self._at_in = MARGIN_IN

    def close(self) -> None:
        """Save the present page, if there is one."""
        if self._figure:
            _save(self._pages, self._figure)
        self._figure = None

    def heading(self, text: str, *, points: float) -> None:
        self._write(text, MARGIN_IN, points=points, weight="bold")
        self._at_in += points / 72 * 1.4

    def text(self, text: str, *, color: str = INK, points: float = 10) -> None:
        for line in textwrap.wrap(text, int((PAGE_IN[0] - 2 * MARGIN_IN) * 72 / points / CHARACTER_EM)):
            self._fit(LINE_IN)
            self._write(line, MARGIN_IN, points=points, color=color)
            self._at_in += points / 72 * 1.6

    def table(self, table: Table) -> None:
        """Write a table. Its head is repeated on each new page."""
        self._at_in += 0.25
        self._fit(LINE_IN * 5)
        if table.title:
            self._write(table.title, MARGIN_IN, points=11, weight="bold")
            self._at_in += 0.32
        edges_in, em = _edges(table)
        self._head(table, edges_in, em)
        for row in table.rows:
            if self._fit(LINE_IN):
                self._head(table, edges_in, em)
            self._row(table, row, edges_in, em)

    def _fit(self, height_in: float) -> bool:
        """Begin a new page if a line of this height does not fit. Return whether a page was begun."""
        if self._figure is None or self._at_in + height_in > PAGE_IN[1] - MARGIN_IN:
            self.new_page()
            return True
        return False

    def _head(self, table: Table, edges_in: list[tuple[float, float]], em: float) -> None:
        if any(column.group for column in table.columns):
            columns = zip(table.columns, edges_in, strict=True)
            for group, members in groupby(columns, key=lambda member: member[0].group):
                spans = [span for _, span in members]
                if group:
                    left_in, right_in = spans[0][0], spans[-1][1]
                    self._write(group, (left_in + right_in) / 2, points=em * 0.9, color=FAINT, ha="center")
                    self._rule(left_in, right_in, self._at_in + 0.2, color=RULE, width=0.8)
            self._at_in += LINE_IN * 0.9
        for column, (left_in, right_in) in zip(table.columns, edges_in, strict=True):
            at_in, ha = (left_in, "left") if column.is_text else (right_in, "right")
            self._write(column.name, at_in, points=em * 0.9, color=FAINT, ha=ha)
        self._at_in += LINE_IN * 0.85
        self._rule(edges_in[0][0], edges_in[-1][1], self._at_in, color=INK, width=1.0)
        self._at_in += LINE_IN * 0.25

    def _row(self, table: Table, row: Row, edges_in: list[tuple[float, float]], em: float) -> None:
        cells = zip(table.columns, row.cells, edges_in, strict=True)
        for number, (column, cell, (left_in, right_in)) in enumerate(cells):
            at_in, ha = (left_in, "left") if column.is_text else (right_in, "right")
            text = textwrap.shorten(cell.text, MOST_REASON_CHARS, placeholder=" ...")
            weight = "bold" if cell.is_best or number == 0 else "normal"
            shift_in = 0.22 if number == 0 else 0.0
            self._write(text, at_in + shift_in, points=em, color=BEST if cell.is_best else INK, ha=ha, weight=weight)
        self._mark(row.style, edges_in[0][0] + 0.07)
        self._at_in += LINE_IN * 0.8
        self._rule(edges_in[0][0], edges_in[-1][1], self._at_in, color=RULE, width=0.6)
        self._at_in += LINE_IN * 0.2

    def _write(self, text: str, at_in: float, *, points: float, **look: Any) -> None:
        if self._figure is None:
            self.new_page()
        assert self._figure is not None  # noqa: S101 (for the type checker; new_page sets it)
        place = (at_in / PAGE_IN[0], 1 - self._at_in / PAGE_IN[1])
        self._figure.text(*place, text, **{"color": INK, "fontsize": points, "va": "top", "parse_math": False, **look})

    def _rule(self, left_in: float, right_in: float, at_in: float, *, color: str, width: float) -> None:
        y = 1 - at_in / PAGE_IN[1]
        self._add(Line2D([left_in / PAGE_IN[0], right_in / PAGE_IN[0]], [y, y], color=color, lw=width))

    def _mark(self, style: Style, at_in: float) -> None:
        is_filled = style.marker in Line2D.filled_markers
        mark = Line2D(
            [at_in / PAGE_IN[0]],
            [1 - (self._at_in + CELL_POINTS / 72 * 0.52) / PAGE_IN[1]],
            marker=style.marker,
            markersize=6.5,
            markerfacecolor=style.color,
            markeredgecolor=INK if is_filled else style.color,
            markeredgewidth=0.5 if is_filled else 1.4,
            linestyle="none",
        )
        self._add(mark)

    def _add(self, line: Line2D) -> None:
        if self._figure:
            line.set_transform(self._figure.transFigure)
            self._figure.add_artist(line)


def _edges(table: Table) -> tuple[list[tuple[float, float]], float]:
    """Return left and right edge of each column in inches, and the size of the text in points."""
    widths = [
        max([len(column.name) * 0.95, *(min(len(row.cells[at].text), MOST_REASON_CHARS) for row in table.rows)])
        for at, column in enumerate(table.columns)
    ]
    widths[0] += 3  # the mark
    for group, members in groupby(range(len(widths)), key=lambda at: table.columns[at].group):
        columns = list(members)
        lacking = len(group) - sum(widths[at] for at in columns)
        for at in columns:
            widths[at] += max(lacking, 0) / len(columns)
    available_in = PAGE_IN[0] - 2 * MARGIN_IN - GAP_IN * (len(widths) - 1)
    em = min(CELL_POINTS, available_in * 72 / CHARACTER_EM / sum(widths))
    edges, left_in = [], MARGIN_IN
    for width in widths:
        right_in = left_in + width * em * CHARACTER_EM / 72
        edges.append((left_in, right_in))
        left_in = right_in + GAP_IN
    return edges, em
