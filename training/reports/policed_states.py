# SPDX-License-Identifier: MIT
"""`ccatune report states` for R-TCP: compares an ensemble's table with the paper's single setting, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulation.run.simulator import default_threads
from emulation.traces import Recording
from kmod.ensemble import Ensemble
from kmod.tables import Column, table_lines
from training.progress import Terminal
from training.reports.judged import Judged, finish
from training.study import StudySettings
from training.validation.policed import validate_policed

__all__ = ["LINE", "policed_lines", "report_policed_states"]

LINE = (
    "no more retransmissions than the paper's one setting at no less goodput in every state, fewer at no less goodput "
    "over all, the required share of it after a limit is raised, and few clients falsely taken for limited"
)

_PLACE = ("RTT ms", "limit Mbit/s")
_SCHEMES = ("learned", "paper", "single")


def report_policed_states(
    judged: Judged, ensemble: Ensemble, study: StudySettings, recordings: Sequence[Recording], terminal: Terminal,
    *, runs: int,
) -> None:  # fmt: skip
    """Judge the ensemble and print its table; exit 1 if a row falls short."""
    terminal.phase("running states", total=len(ensemble.rows) + ensemble.axes[0].count)
    figures = validate_policed(study, ensemble, recordings, runs=runs, threads=judged.threads or default_threads(),
                               progress=terminal.advance)  # fmt: skip
    rows = [*figures["states"], {"all": True, **figures["all"]}, *figures["unlimited"]]
    finish(rows, policed_lines(figures), line=LINE, as_json=judged.as_json)


def policed_lines(figures: dict[str, Any]) -> list[str]:
    """Tables with a line for each state: its parameters and retransmissions, and its comparison with the paper.

    The last table has a line for each RTT level, about its clients without a limit.
    """
    states, every = figures["states"], figures["all"]
    shares = [(*_place(row), *_values(row), *_shares(row)) for row in states]
    compared = [(*_place(row), *_compared(row)) for row in states]
    return [
        "retransmissions in % of the unmodified algorithm's",
        *_table((*_PLACE, "theta", "eta", "gamma", *_SCHEMES), [*shares, ("all", *[""] * 4, *_shares(every))]),
        "in %: fewer than the paper, goodput over its, and goodput after a raised limit",
        *_table((*_PLACE, "fewer", "goodput", "raised", "paper's", ""), [*compared, ("all", "", *_compared(every))]),
        "without a limit, taken for limited:",
        *_table(("RTT ms", "clients", *_SCHEMES, "share %", ""), [_unlimited(row) for row in figures["unlimited"]]),
    ]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return table_lines([Column(headings[0]), *(Column(heading, "right") for heading in headings[1:])], rows)


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return _span(row["rtt_ms"]), _span(row["limit_mbps"])


def _values(row: dict[str, Any]) -> tuple[str, str, str]:
    values = row["values"]
    gain = f"{values['probe_gain_permille'] / 10:.1f} %"
    return f"{values['reduction_permille'] / 1000:.2f}", str(values["probe_every_rounds"]), gain


def _shares(row: dict[str, Any]) -> list[str]:
    return [f"{100 * row['retransmitted'][name]:.1f}" for name in _SCHEMES]


def _compared(row: dict[str, Any]) -> tuple[str, ...]:
    goodput, lifted = row["goodput"], row.get("lifted")
    raised = (
        (_figure(lifted["learned"], lifted["learned_interval"]), f"{100 * lifted['paper']:.1f}") if lifted else ("", "")
    )
    over = _figure(goodput["over_paper"], goodput["over_paper_interval"], digits=2)
    return _figure(row["fewer"], row["fewer_interval"]), over, *raised, _short(row)


def _unlimited(row: dict[str, Any]) -> tuple[str, ...]:
    false = (str(row["false"][name]) for name in _SCHEMES)
    return _span(row["rtt_ms"]), str(row["clients"]), *false, _figure(row["share"], row["share_interval"]), _short(row)


def _span(ends: Sequence[float]) -> str:
    return f"{ends[0]:g}-{ends[1]:g}"


def _figure(value: float, interval: float, *, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} ± {100 * interval:.{digits}f}"


def _short(row: dict[str, Any]) -> str:
    return "" if row["holds"] else "short"
