# SPDX-License-Identifier: MIT
"""The tables and sentences of a Pantheon report, as text. The page and the PDF show the same ones.

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
from kmod.terminal import counted

NONE = "–"
METHOD = (
    "Throughput is the number of bits that left the link, divided by the time from the first to the last departure.",
    "The delay is the one-way delay of single packets, from one end of the path to the other.",
    "Loss is the share of the bytes that entered the link but did not leave it.",
    "Values are the mean over the valid runs, ± one sample standard deviation.",
    "An ellipse is one standard deviation around the mean. A small mark is a single run.",
    "A run is valid if packets left during at least 0.8 of the runtime and the runner noted no failure.",
)


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


@dataclass(frozen=True)
class _Metric:
    """How a statistic is shown. name: in Summary. best: chooses the best of the means; None: no cell is marked."""

    name: str
    head: Column
    digits: int
    scale: float = 1
    best: Callable[[list[float]], float] | None = None
    with_sd: bool = False

    def text(self, spread: Spread | None) -> str:
        """Return the mean, with the standard deviation if it is required."""
        if spread is None:
            return NONE
        text = f"{spread.mean * self.scale:.{self.digits}f}"
        return f"{text} ± {spread.sd * self.scale:.{self.digits}f}" if self.with_sd and spread.n > 1 else text

    def cells(self, summaries: Sequence[Summary | None]) -> list[Cell]:
        """Return a cell for each scheme."""
        spreads: list[Spread | None] = [getattr(summary, self.name) if summary else None for summary in summaries]
        means = [round(spread.mean * self.scale, self.digits) for spread in spreads if spread]
        target = self.best(means) if self.best and len(means) > 1 else None
        return [
            Cell(self.text(spread), spread is not None and round(spread.mean * self.scale, self.digits) == target)
            for spread in spreads
        ]


METRICS = (
    _Metric("throughput_mbps", Column("throughput (Mbit/s)"), 2, best=max, with_sd=True),
    _Metric("utilization", Column("utilization (%)"), 1, 100),
    _Metric("delay_p95_ms", Column("95th percentile (ms)", "one-way delay"), 1, best=min, with_sd=True),
    _Metric("delay_median_ms", Column("median (ms)", "one-way delay"), 1),
    _Metric("loss", Column("loss (%)"), 2, 100),
)
OF_FLOWS = (
    _Metric("throughput_mbps", Column("throughput (Mbit/s)"), 2),
    _Metric("delay_p95_ms", Column("95th percentile of the delay (ms)"), 1),
    _Metric("loss", Column("loss (%)"), 2, 100),
)
OF_LINKS = (
    _Metric("throughput_mbps", Column("Mbit/s"), 2, best=max),
    _Metric("delay_p95_ms", Column("p95 ms"), 1, best=min),
)
SCHEME = Column("scheme", is_text=True)


def summary_table(analysis: Analysis, styles: Mapping[str, Style]) -> Table:
    """Return the summary table of a folder."""
    runs = [Cell(f"{len(scheme.valid_runs)} of {len(scheme.runs)}") for scheme in analysis.schemes]
    columns = [runs, *(metric.cells([scheme.summary for scheme in analysis.schemes]) for metric in METRICS)]
    heads = (SCHEME, Column("valid runs"), *(metric.head for metric in METRICS))
    return Table("", heads, _rows([scheme.scheme for scheme in analysis.schemes], columns, styles))


def flow_table(analysis: Analysis, styles: Mapping[str, Style]) -> Table | None:
    """Return the table with the means of each flow; None if runs have fewer than two flows."""
    flows = range(1, analysis.metadata.flows + 1)
    if len(flows) < 2:
        return None
    heads, columns = [SCHEME], []
    for metric in OF_FLOWS:
        for flow in flows:
            heads.append(Column(f"flow {flow}", metric.head.name))
            columns.append(metric.cells([scheme.summary.flows.get(flow) for scheme in analysis.schemes]))
    rows = _rows([scheme.scheme for scheme in analysis.schemes], columns, styles)
    return Table("Each flow, mean of the valid runs", tuple(heads), rows)


def _rows(schemes: Sequence[str], columns: Sequence[Sequence[Cell]], styles: Mapping[str, Style]) -> tuple[Row, ...]:
    """Return the rows. columns: those after the name of the scheme."""
    rows = zip(*columns, strict=True)
    return tuple(
        Row(styles[scheme], (Cell(styles[scheme].name), *cells)) for scheme, cells in zip(schemes, rows, strict=True)
    )


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
    heads = (SCHEME, Column("run"), Column("verdict", is_text=True), Column("reason", is_text=True))
    return Table("Runs that do not count", heads, rows) if rows else None


def overview_table(analyses: Sequence[Analysis], styles: Mapping[str, Style]) -> Table | None:
    """Return the table with throughput and delay of each scheme over several folders; None for a single folder."""
    if len(analyses) < 2:
        return None
    schemes = list(dict.fromkeys(scheme.scheme for analysis in analyses for scheme in analysis.schemes))
    heads, columns = [SCHEME], []
    for analysis in analyses:
        by_name = {scheme.scheme: scheme.summary for scheme in analysis.schemes}
        heads += [Column(metric.head.name, analysis.name) for metric in OF_LINKS]
        columns += [metric.cells([by_name.get(scheme) for scheme in schemes]) for metric in OF_LINKS]
    rows = _rows(schemes, columns, styles)
    return Table("Throughput and 95th percentile of the one-way delay on each link", tuple(heads), rows)


def _without_folder(reason: str, analysis: Analysis) -> str:
    return reason.replace(f"{analysis.data_dir}/", "")


def head_line(analyses: Sequence[Analysis]) -> str:
    """Return the numbers of schemes, links and runs in the report, and how many runs are valid."""
    schemes = {scheme.scheme for analysis in analyses for scheme in analysis.schemes}
    runs = [run for analysis in analyses for scheme in analysis.schemes for run in scheme.runs]
    valid = sum(run.verdict == "ok" for run in runs)
    links = f" on {len(analyses)} links" if len(analyses) > 1 else ""
    return f"{counted(len(schemes), 'scheme')}{links}, {counted(len(runs), 'run')}, {valid} of them valid"


def set_up(analysis: Analysis) -> list[tuple[str, str]]:
    """Return how the runs were made, as pairs of a name and a value."""
    about = analysis.metadata
    flows = counted(about.flows, "flow") if about.flows else "without a tunnel"
    if about.flows > 1:
        flows += f", started {about.interval} s apart"
    runs = f"{about.runtime} s each, {counted(about.run_times, 'run')} of each scheme"
    pairs = [("runs", f"{runs}, {flows}")]
    if about.mahimahi_command:
        pairs.append(("link", about.mahimahi_command))
    elif about.local_desc and about.remote_desc:
        ends = [about.local_desc, about.remote_desc]
        pairs.append(("path", " to ".join(reversed(ends) if about.sender_side == "remote" else ends)))
    if about.ntp_addr:
        pairs.append(("clocks", f"corrected by their offsets from {about.ntp_addr}"))
    if about.ccatune:
        pairs += [("versions", ", ".join(f"{name} {value}" for name, value in about.ccatune.versions.items()))]
        pairs += [("ensembles", ", ".join(f"{name} {value}" for name, value in about.ccatune.ensembles.items()))]
    pairs.append(("folder", analysis.data_dir.resolve().name))
    return [(name, value) for name, value in pairs if value]
