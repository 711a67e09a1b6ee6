# SPDX-License-Identifier: MIT
"""The tables of a Pantheon report, as text. The page and the PDF show the same tables.

summary    for each scheme of a folder: valid runs, throughput, utilization, delay and loss, mean ± standard deviation
flows      for each scheme of a folder with several flows: the means of each flow, as in Pantheon's report
left out   the runs that are not ok, with the reason
overview   throughput and delay of each scheme over several folders
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from emulation.pantheon.analysis import Analysis
from emulation.pantheon.plots import Style
from emulation.pantheon.statistics import Spread, Summary

__all__ = ["Cell", "Column", "Row", "Table", "flow_table", "left_out_table", "overview_table", "summary_table"]

NONE = "–"


@dataclass(frozen=True)
class Column:
    """The head of a column.

    group: a common head above consecutive columns. is_text: whether the column is aligned to the left.
    """

    name: str
    group: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell. is_best: whether it has the best value of its column."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class Row:
    """A row. style: the style of the row's scheme. The first cell is the name of the scheme."""

    style: Style
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table. Each row has a cell for each column."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def summary_table(analysis: Analysis, styles: Mapping[str, Style]) -> Table:
    """Return the summary table of a folder."""
    summaries = [scheme.summary for scheme in analysis.schemes]
    columns = [
        _column(summaries, lambda one: one.throughput_mbps, digits=2, best=max),
        _column(summaries, lambda one: one.utilization, digits=1, scale=100, with_sd=False),
        _column(summaries, lambda one: one.delay_p95_ms, digits=1, best=min),
        _column(summaries, lambda one: one.delay_median_ms, digits=1, with_sd=False),
        _column(summaries, lambda one: one.loss, digits=2, scale=100, with_sd=False),
    ]
    rows = tuple(
        Row(
            styles[scheme.scheme],
            (
                Cell(styles[scheme.scheme].name),
                Cell(f"{len(scheme.valid_runs)} of {len(scheme.runs)}"),
                *(column[number] for column in columns),
            ),
        )
        for number, scheme in enumerate(analysis.schemes)
    )
    heads = (
        Column("scheme", is_text=True),
        Column("valid runs"),
        Column("throughput (Mbit/s)"),
        Column("utilization (%)"),
        Column("95th percentile (ms)", "one-way delay"),
        Column("median (ms)", "one-way delay"),
        Column("loss (%)"),
    )
    return Table("", heads, rows)


def flow_table(analysis: Analysis, styles: Mapping[str, Style]) -> Table | None:
    """Return the table with the means of each flow; None if runs have fewer than two flows."""
    flows = range(1, analysis.metadata.flows + 1)
    if len(flows) < 2:
        return None
    metrics: tuple[tuple[str, Callable[[Summary], Spread | None], int, float], ...] = (
        ("throughput (Mbit/s)", lambda one: one.throughput_mbps, 2, 1),
        ("95th percentile of the delay (ms)", lambda one: one.delay_p95_ms, 1, 1),
        ("loss (%)", lambda one: one.loss, 2, 100),
    )
    heads = [Column("scheme", is_text=True)]
    heads += [Column(f"flow {flow}", group) for group, *_ in metrics for flow in flows]
    rows = []
    for scheme in analysis.schemes:
        cells = [Cell(styles[scheme.scheme].name)]
        for _, value_of, digits, scale in metrics:
            for flow in flows:
                its = scheme.summary.flows.get(flow)
                spread = value_of(its) if its else None
                cells.append(Cell(f"{spread.mean * scale:.{digits}f}" if spread else NONE))
        rows.append(Row(styles[scheme.scheme], tuple(cells)))
    return Table("Each flow, mean of the valid runs", tuple(heads), tuple(rows))


def left_out_table(analysis: Analysis, styles: Mapping[str, Style]) -> Table | None:
    """Return the table of the runs that are not ok; None if all runs are ok."""
    rows = tuple(
        Row(
            styles[scheme.scheme],
            (
                Cell(styles[scheme.scheme].name),
                Cell(str(run.run)),
                Cell(run.verdict),
                Cell(_without_folder(run.reason, analysis) + (f" ({run.output})" if run.output else "")),
            ),
        )
        for scheme in analysis.schemes
        for run in scheme.runs
        if run.verdict != "ok"
    )
    heads = (
        Column("scheme", is_text=True),
        Column("run"),
        Column("verdict", is_text=True),
        Column("reason", is_text=True),
    )
    return Table("Runs that do not count", heads, rows) if rows else None


def overview_table(analyses: Sequence[Analysis], styles: Mapping[str, Style]) -> Table | None:
    """Return the table with throughput and delay of each scheme over several folders; None for a single folder."""
    if len(analyses) < 2:
        return None
    schemes = list(dict.fromkeys(scheme.scheme for analysis in analyses for scheme in analysis.schemes))
    heads, columns = [Column("scheme", is_text=True)], []
    for analysis in analyses:
        by_name = {scheme.scheme: scheme.summary for scheme in analysis.schemes}
        summaries = [by_name.get(scheme) for scheme in schemes]
        heads += [Column("Mbit/s", analysis.name), Column("p95 ms", analysis.name)]
        columns.append(_column(summaries, lambda one: one.throughput_mbps, digits=2, best=max, with_sd=False))
        columns.append(_column(summaries, lambda one: one.delay_p95_ms, digits=1, best=min, with_sd=False))
    rows = tuple(
        Row(styles[scheme], (Cell(styles[scheme].name), *(column[number] for column in columns)))
        for number, scheme in enumerate(schemes)
    )
    return Table("Throughput and 95th percentile of the one-way delay on each link", tuple(heads), rows)


def _column(
    summaries: Sequence[Summary | None],
    value_of: Callable[[Summary], Spread | None],
    *,
    digits: int,
    scale: float = 1,
    best: Callable[[list[float]], float] | None = None,
    with_sd: bool = True,
) -> list[Cell]:
    """Return the cells of a column. best: chooses the best of the means; None: no cell is marked."""
    spreads = [value_of(summary) if summary else None for summary in summaries]
    means = [round(spread.mean * scale, digits) for spread in spreads if spread]
    target = best(means) if best and len(means) > 1 else None
    cells = []
    for spread in spreads:
        if spread is None:
            cells.append(Cell(NONE))
            continue
        text = f"{spread.mean * scale:.{digits}f}"
        if with_sd and spread.n > 1:
            text += f" ± {spread.sd * scale:.{digits}f}"
        cells.append(Cell(text, is_best=target is not None and round(spread.mean * scale, digits) == target))
    return cells


def _without_folder(reason: str, analysis: Analysis) -> str:
    return reason.replace(f"{analysis.data_dir}/", "")
