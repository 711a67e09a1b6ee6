# SPDX-License-Identifier: MIT
"""`ccatune report states`: validates learned rows in their own states, on unseen data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from kmod.tables import Column, table_lines
from training.objectives import RetransmissionSettings
from training.reports.arguments import (
    ReportArguments,
    finish,
    least_option,
    most_option,
    of_ensemble,
    validation_cases,
)  # fmt: skip
from training.validation.policed import validate_policed
from training.validation.states import OTHERS, summary, validate_states

LINE = (
    "in every state no more cost than the defaults and the best single set have, beyond the interval and the room that "
    "the requirement leaves"
)
POLICED_LINE = (
    "no more retransmissions than the paper's one setting at no less goodput in every state, fewer at no less goodput "
    "over all, the required share of it after a limit is raised, and few clients falsely taken for limited"
)
PLACE = ("RTT ms", "limit Mbit/s")
POLICED_SCHEMES = ("learned", "paper", "single")


@click.command()
@of_ensemble
@least_option
@most_option
@click.option("--runs", type=click.IntRange(10), default=40, show_default=True, help="R-TCP: files of each state")
def states(*, given: ReportArguments, least: int, most: int, runs: int) -> None:
    """Compare an ensemble's rows with the defaults and the best single set, on unseen cases of their states.

    A difference counts only beyond its 95 % interval. A class may use the room that its requirement leaves: delay
    within its target, or goodput above its share. Of R-TCP, flows follow the table behind newly drawn rate limits, and
    the report compares them with the paper's single setting.

    \b
    Example:
      ccatune report states roccet.json
      ccatune report states rtcp.json
    """
    with given.read(with_targets=False) as (ensemble, study, recordings, terminal):
        if isinstance(study.objective, RetransmissionSettings):
            terminal.phase("running states", total=len(ensemble.rows) + ensemble.axes[0].count)
            figures = validate_policed(study, ensemble, recordings, runs=runs, threads=given.threads,
                                       progress=terminal.advance)  # fmt: skip
            rows = [*figures["states"], {"all": True, **figures["all"]}, *figures["unlimited"]]
            lines, criterion = policed_lines(figures), POLICED_LINE
        else:
            here = validation_cases(study, recordings, terminal, least=least, most=most)
            terminal.phase("running cases", total=len(here))
            rows = validate_states(study, ensemble, here, threads=given.threads, progress=terminal.advance)
            line = f"judged: {len(here)} of {ensemble.n_states} states; the others have fewer than {least} unseen cases"
            lines, criterion = [*state_lines(rows), "", line, *summary_lines(rows)], LINE
    finish(rows, lines, line=criterion, as_json=given.as_json)


def state_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table for each class, with a line for each state and the main figures of each set.

    `-` marks a missed requirement.
    """
    names = ("learned", "default", "single")
    lines = []
    for title, group in groupby(rows, key=class_name):
        its = list(group)
        kinds = ("delay\nms", "used\n%") if "delay_ms" in its[0]["learned"] else ("goodput\n%", "retr.\n%")
        heads = [heading for name in names for heading in (f"{name}\n{kinds[0]}", f"\n{kinds[1]}")]
        units = ", ".join(dict.fromkeys(unit_of(name) for name in _places_of(its[0])))
        columns = [Column(f"state\n{units}"), *(Column(heading, "right") for heading in ("cases", *heads)), Column("")]
        lines += [title, *table_lines(columns, [_state_cells(row, names) for row in its])]
    return lines


def _places_of(row: dict[str, Any]) -> dict[str, list[float]]:
    return {name: ends for name, ends in row.items() if name.endswith(("_ms", "_mbps")) and isinstance(ends, list)}


def _state_cells(row: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    places = ", ".join(f"{low:.3g}-{high:.3g}" for low, high in _places_of(row).values())
    cells = [text for name in names for text in _cells_of(row[name])]
    return (places, str(row["cases"]), *cells, "" if row["holds"] else "short")


def _cells_of(one: dict[str, Any]) -> tuple[str, str]:
    mark = " " if one["meets"] else "-"
    if "delay_ms" in one:
        return f"{one['delay_ms']:.1f}", f"{100 * one['utilization']:.1f}{mark}"
    return f"{100 * one['goodput_share']:.1f}", f"{100 * one['retransmitted_share']:.2f}{mark}"


def unit_of(name: str) -> str:
    """The unit at the end of a figure's name, as text."""
    return "ms" if name.endswith("_ms") else "Mbit/s"


def figures_of(one: dict[str, Any]) -> str:
    """The two main figures of a set, as text."""
    if "delay_ms" in one:
        return f"{one['delay_ms']:.1f} ms {100 * one['utilization']:.1f} %"
    return f"{100 * one['goodput_share']:.1f} %, retr. {100 * one['retransmitted_share']:.2f} %"


def summary_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines for each class: one on the requirement, and two for each other set.

    The first counts the states in which each set meets the requirement. The others count the states in which the
    learned row holds or is better, and give the mean figures.
    """
    lines = []
    for one in summary(rows):
        lines.append(f"{class_name(one)}:")
        lines.append(f"  met by the row in {one['met_by_learned']} of {one['states']}, "
                     f"by the default in {one['met_by_default']}, by the single in {one['met_by_single']}")  # fmt: skip
        for other in OTHERS:
            means = [means_of(one, name) for name in ("learned", other)]
            lines.append(f"  beside the {other:<8} holds in {one[f'holds_against_{other}']} of {one['states']}, "
                         f"better in {one[f'better_than_{other}']}")  # fmt: skip
            lines.append(f"    mean {figures_of(means[0])} against {figures_of(means[1])}")
    return lines


def means_of(one: dict[str, Any], name: str) -> dict[str, float]:
    """The mean metrics of a set in a summary."""
    ends = ("mean_", f"_{name}")
    return {key.removeprefix(ends[0]).removesuffix(ends[1]): value for key, value in one.items()
            if key.startswith(ends[0]) and key.endswith(ends[1])}  # fmt: skip


def class_name(row: dict[str, Any]) -> str:
    """The requirement of a class, as text."""
    if row["goal"] == "throughput":
        return f"at most {row['target_ms']} ms"
    if row["goal"] == "delay":
        return f"least delay, {100 * row['goodput_share']:g} % of {row['rival']}"
    return f"most {row['goal']}"


def policed_lines(figures: dict[str, Any]) -> list[str]:
    """Tables with a line for each state: its parameters and retransmissions, and its comparison with the paper.

    The last table has a line for each RTT level, about its clients without a limit.
    """
    states, every = figures["states"], figures["all"]
    shares = [(*_place(row), *_values(row), *_shares(row)) for row in states]
    compared = [(*_place(row), *_compared(row)) for row in states]
    return [
        "retransmissions in % of the unmodified algorithm's",
        *_table((*PLACE, "theta", "eta", "gamma", *POLICED_SCHEMES), [*shares, ("all", *[""] * 4, *_shares(every))]),
        "in %: fewer than the paper, goodput over its, and goodput after a raised limit",
        *_table((*PLACE, "fewer", "goodput", "raised", "paper's", ""), [*compared, ("all", "", *_compared(every))]),
        *_unlimited_lines(figures["unlimited"]),
    ]


def _unlimited_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    table = _table(("RTT ms", "clients", *POLICED_SCHEMES, "share %", ""), [_unlimited(row) for row in rows])
    return ["without a limit, taken for limited:", *table]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return table_lines([Column(headings[0]), *(Column(heading, "right") for heading in headings[1:])], rows)


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return _span(row["rtt_ms"]), _span(row["limit_mbps"])


def _values(row: dict[str, Any]) -> tuple[str, str, str]:
    values = row["values"]
    gain = f"{values['probe_gain_permille'] / 10:.1f} %"
    return f"{values['reduction_permille'] / 1000:.2f}", str(values["probe_every_rounds"]), gain


def _shares(row: dict[str, Any]) -> list[str]:
    return [f"{100 * row['retransmitted'][name]:.1f}" for name in POLICED_SCHEMES]


def _compared(row: dict[str, Any]) -> tuple[str, ...]:
    goodput, lifted = row["goodput"], row.get("lifted")
    raised = (
        (_figure(lifted["learned"], lifted["learned_interval"]), f"{100 * lifted['paper']:.1f}") if lifted else ("", "")
    )
    over = _figure(goodput["over_paper"], goodput["over_paper_interval"], digits=2)
    return _figure(row["fewer"], row["fewer_interval"]), over, *raised, _short(row)


def _unlimited(row: dict[str, Any]) -> tuple[str, ...]:
    false = (str(row["false"][name]) for name in POLICED_SCHEMES)
    return _span(row["rtt_ms"]), str(row["clients"]), *false, _figure(row["share"], row["share_interval"]), _short(row)


def _span(ends: Sequence[float]) -> str:
    return f"{ends[0]:g}-{ends[1]:g}"


def _figure(value: float, interval: float, *, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} ± {100 * interval:.{digits}f}"


def _short(row: dict[str, Any]) -> str:
    return "" if row["holds"] else "short"
