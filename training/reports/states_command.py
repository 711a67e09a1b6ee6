# SPDX-License-Identifier: MIT
"""`ccatune report states`: each learned row in its state, unseen, beside the defaults and the single set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from training.reports.judged import Judged, finish, of_ensemble
from training.reports.rtcp_states import report_rtcp_states

__all__ = ["states"]

LINE = (
    "in every state no more delay than the defaults and the best single set have, at no less goodput, "
    "but for what the class leaves"
)


@click.command()
@of_ensemble
@click.option("--least", type=click.IntRange(2), default=5, show_default=True, help="Epochs of a state that counts")
@click.option("--epochs", type=click.IntRange(2), default=30, show_default=True, help="Of a state at most")
@click.option("--runs", type=click.IntRange(10), default=40, show_default=True, help="R-TCP: files of each state")
def states(*, judged: Judged, least: int, epochs: int, runs: int) -> None:
    """An ensemble's rows on unseen epochs of their own states, beside the defaults and the best single set.

    Differences count beyond their 95 % interval. A class may use what it asks for leaves: delay within its target, or
    goodput above its share. Of R-TCP: flows that follow the table behind rate limits that are drawn anew, beside the
    paper's one setting.

    \b
    Example:
      ccatune report states roccet.json
      ccatune report states rtcp.json
    """
    if _is_of_rtcp(judged):
        report_rtcp_states(judged, runs=runs)
        return
    _report_states(judged, least=least, epochs=epochs)


def _is_of_rtcp(judged: Judged) -> bool:
    from kmod.ensemble import Ensemble
    from training.rtcp.settings import is_rtcp

    return is_rtcp(Ensemble.load(judged.file).cca)


def _report_states(judged: Judged, *, least: int, epochs: int) -> None:
    from emulation.simulator import default_threads
    from training.reports.states import judge_states, states_of
    from training.settings import study_of
    from training.study import epochs_for

    used = judged.threads or default_threads()
    with judged.read(of_gr=False) as (ensemble, recordings, terminal):
        study = study_of(ensemble)
        terminal.phase("measuring levels", total=sum(r.duration_s for r in recordings) * len(study.paths_ms))
        here = states_of(epochs_for(study, recordings, threads=used, ran=terminal.advance), least=least)
        terminal.phase("running epochs", total=len(here))
        rows = judge_states(study, ensemble, here, most_epochs=epochs, threads=used, told=terminal.advance)
    judged_of = (
        f"judged: {len(here)} of {ensemble.n_states} states; of the others fewer than {least} epochs did not train"
    )
    lines = [*state_lines(rows), "", judged_of, *met_lines(rows), *summary_lines(rows)]
    finish(rows, lines, line=LINE, as_json=judged.as_json)


def state_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each state and class: delay and share of the link by each set; `-`: not what the class asks for."""
    heads = "".join(f"{name:>23}" for name in ("learned", "default", "single"))
    lines = [f"{'class':<30}{'RTT':>8} {'level':>5} {'epochs':>6}{heads}"]
    for row in rows:
        sets = (row[name] for name in ("learned", "default", "single"))
        cells = "".join(f"{one['delay_ms']:>12.1f} ms {100 * one['utilization']:>5.1f} %{' ' if one['meets'] else '-'}"
                        for one in sets)  # fmt: skip
        place = f"{class_name(row):<30}{row['rtt_ms']:>5.0f} ms {row['level']:>5} {row['epochs']:>6}"
        lines.append(f"{place}{cells}{'' if row['holds'] else '  short'}".rstrip())
    return lines


def met_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each class: in how many states each set has what the class asks for."""
    from training.reports.states import summary

    return [
        f"{class_name(one):<30}met by the row in {one['met_by_learned']} of {one['states']}, "
        f"by the default in {one['met_by_default']}, by the single in {one['met_by_single']}"
        for one in summary(rows)
    ]


def summary_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each class and set beside: in how many states the learned row holds, and the means."""
    from training.reports.states import OTHERS, summary

    return [
        f"{class_name(one):<30}beside the {other:<8} holds in {one[f'holds_against_{other}']} of "
        f"{one['states']}, less delay at no less goodput in {one[f'better_than_{other}']}; mean "
        f"{one['mean_delay_ms_learned']:.1f} ms, {100 * one['mean_utilization_learned']:.1f} % against "
        f"{one[f'mean_delay_ms_{other}']:.1f} ms, {100 * one[f'mean_utilization_{other}']:.1f} %"
        for one in summary(rows)
        for other in OTHERS
    ]


def class_name(row: dict[str, Any]) -> str:
    """What a class asks for."""
    if row["goal"] == "throughput":
        return f"at most {row['target_ms']} ms"
    return f"least delay, {100 * row['goodput_share']:g} % of {row['rival']}"
