# SPDX-License-Identifier: MIT
"""`ccatune report states` and `ccatune report bound`: judge learned rows in their own states, on unseen data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from kmod.tables import Column, table_lines
from training.reports.judged import Judged, finish, of_ensemble, requirement_lines

if TYPE_CHECKING:
    from emulation.traces import Recording
    from training.progress import Terminal
    from training.study import StudySettings
    from training.workloads import Case, State

__all__ = ["bound", "states"]

LINE = (
    "in every state no more cost than the defaults and the best single set have, beyond the interval and the room that "
    "the requirement leaves"
)
_least = click.option("--least", type=click.IntRange(2), default=5, show_default=True,
                      help="Cases of a state that counts")  # fmt: skip
_most = click.option("--most", type=click.IntRange(2), default=30, show_default=True, help="Cases of a state at most")


@click.command()
@of_ensemble
@_least
@_most
@click.option("--runs", type=click.IntRange(10), default=40, show_default=True, help="R-TCP: files of each state")
def states(*, judged: Judged, least: int, most: int, runs: int) -> None:
    """Compare an ensemble's rows with the defaults and the best single set, on unseen cases of their states.

    A difference counts only beyond its 95 % interval. A class may use the room that its requirement leaves: delay
    within its target, or goodput above its share. Of R-TCP, flows follow the table behind newly drawn rate limits, and
    the report compares them with the paper's single setting.

    \b
    Example:
      ccatune report states roccet.json
      ccatune report states rtcp.json
    """
    from emulation.run.simulator import default_threads
    from training.objectives import RetransmissionSettings
    from training.reports.policed_states import report_policed_states
    from training.validation.states import validate_states

    with judged.read(with_targets=False) as (ensemble, study, recordings, terminal):
        if isinstance(study.objective, RetransmissionSettings):
            report_policed_states(judged, ensemble, study, recordings, terminal, runs=runs)
            return
        here = judging_cases(study, recordings, terminal, least=least, most=most)
        terminal.phase("running cases", total=len(here))
        rows = validate_states(study, ensemble, here, threads=judged.threads or default_threads(),
                               progress=terminal.advance)  # fmt: skip
    judged_of = f"judged: {len(here)} of {ensemble.n_states} states; the others have fewer than {least} unseen cases"
    lines = [*state_lines(rows), "", judged_of, *summary_lines(rows)]
    finish(rows, lines, line=LINE, as_json=judged.as_json)


@click.command()
@of_ensemble
@_least
@_most
def bound(*, judged: Judged, least: int, most: int) -> None:
    """Compare an ensemble's rows with the best ones that a search finds on the judging cases themselves.

    A class falls short if the ensemble meets its requirement in fewer states than the bound. That difference was not
    learned. Where the bound misses the requirement, too, the algorithm cannot meet it.

    \b
    Example:
      ccatune report bound gr.json
    """
    from emulation.run.simulator import default_threads
    from training.reports.bound import SCHEMES, bounds

    with judged.read(with_targets=False) as (ensemble, study, recordings, terminal):
        here = judging_cases(study, recordings, terminal, least=least, most=most)
        terminal.phase("searching", total=len(here))
        rows = bounds(study, ensemble, here, threads=judged.threads or default_threads(), judged=terminal.advance)
    lines = requirement_lines(rows, SCHEMES)
    finish(rows, lines, line="the rows meet their requirement in as many states as the bound", as_json=judged.as_json)


def judging_cases(
    study: StudySettings, recordings: Sequence[Recording], terminal: Terminal, *, least: int, most: int
) -> dict[State, list[Case]]:
    """The unseen cases of each state that has at least `least` of them; at most `most` of each."""
    from training.study import setting_of
    from training.workloads import Sample

    workload = study.workload.open(setting_of(study, recordings=recordings, unseen=recordings, progress=terminal))
    sample = Sample(maximum=most, unlimited_share=0)
    found = {state: workload.cases([state], "validation", sample) for state in study.states}
    return {state: its for state, its in found.items() if len(its) >= least}


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
    from training.validation.states import OTHERS, summary

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
