# SPDX-License-Identifier: MIT
"""`ccatune report states` for R-TCP: compares an ensemble's table with the paper's single setting, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulation.simulator import default_threads
from emulation.traces import Recording
from kmod.ensemble import Ensemble
from training.judging.policed import judge_policed
from training.progress import Terminal
from training.reports.judged import Judged, finish
from training.study import StudySettings

__all__ = ["LINE", "policed_lines", "report_policed_states"]

LINE = (
    "no more retransmissions than the paper's one setting at no less goodput in every state, fewer at no less goodput "
    "over all, the required share of it after a limit is raised, and few clients falsely taken for limited"
)


def report_policed_states(
    judged: Judged, ensemble: Ensemble, study: StudySettings, recordings: Sequence[Recording], terminal: Terminal,
    *, runs: int,
) -> None:  # fmt: skip
    """Judge the ensemble and print its table; exit 1 if a row falls short."""
    terminal.phase("running states", total=len(ensemble.rows) + ensemble.axes[0].count)
    figures = judge_policed(study, ensemble, recordings, runs=runs, threads=judged.threads or default_threads(),
                            judged=terminal.advance)  # fmt: skip
    rows = [*figures["states"], {"all": True, **figures["all"]}, *figures["unlimited"]]
    finish(rows, policed_lines(figures), line=LINE, as_json=judged.as_json)


def policed_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each state, one for all states together, and one for each RTT level.

    The line of an RTT level is about its clients without a limit.
    """
    every = figures["all"]
    lines = ["retransmissions, in % of the unmodified algorithm's",
             f"{'RTT':>10} {'limit':>15} {'theta':>5} {'eta':>4} {'gamma':>7} {'learned':>8} {'paper':>6} "
             f"{'single':>6}",
             *(_row_line(row) for row in figures["states"]), f"{'all':>10} {'':35}{_retransmitted(every)}", "",
             "fewer retransmissions than with the paper's setting, and goodput in % of its;",
             "after a limit is raised: goodput in % of the unmodified algorithm's",
             f"{'RTT':>10} {'limit':>15} {'fewer':>11} {'goodput':>14} {'raised':>11} {'paper':>6}",
             *(_beside_line(row) for row in figures["states"]),
             f"{'all':>10} {'':15} {_beside(every)}{_short(every)}", ""]  # fmt: skip
    lines.append(f"{'RTT':>10} {'clients':>8}  without a limit, taken for limited: learned, paper, single")
    for row in figures["unlimited"]:
        false = row["false"]
        lines.append(f"{_span(row['rtt_ms'], 'ms'):>10} {row['clients']:>8}  {false['learned']} "
                     f"({_figure(row['share'], row['share_interval'])} %), {false['paper']}, {false['single']}"
                     f"{_short(row)}")  # fmt: skip
    return lines


def _place(row: dict[str, Any]) -> str:
    return f"{_span(row['rtt_ms'], 'ms'):>10} {_span(row['limit_mbps'], 'Mbit/s'):>15}"


def _row_line(row: dict[str, Any]) -> str:
    values = row["values"]
    return (
        f"{_place(row)} {values['reduction_permille'] / 1000:>5.2f} {values['probe_every_rounds']:>4} "
        f"{values['probe_gain_permille'] / 10:>5.1f} % {_retransmitted(row)}"
    )


def _retransmitted(row: dict[str, Any]) -> str:
    shares = row["retransmitted"]
    return " ".join(
        f"{100 * shares[name]:>{width}.1f}" for name, width in (("learned", 8), ("paper", 6), ("single", 6))
    )


def _beside_line(row: dict[str, Any]) -> str:
    lifted = row["lifted"]
    raised = _figure(lifted["learned"], lifted["learned_interval"])
    return f"{_place(row)} {_beside(row)} {raised:>11} {100 * lifted['paper']:>6.1f}{_short(row)}"


def _beside(row: dict[str, Any]) -> str:
    goodput = row["goodput"]
    over_paper = _figure(goodput["over_paper"], goodput["over_paper_interval"], digits=2)
    return f"{_figure(row['fewer'], row['fewer_interval']):>11} {over_paper:>14}"


def _span(ends: Sequence[float], unit: str) -> str:
    return f"{ends[0]:g}-{ends[1]:g} {unit}"


def _figure(value: float, interval: float, *, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} ± {100 * interval:.{digits}f}"


def _short(row: dict[str, Any]) -> str:
    return "" if row["holds"] else "  short"
