# SPDX-License-Identifier: MIT
"""`python -m experiments rollouts`: how often a roll-out of a simulated fleet ends as it should (docs/rollouts.md)."""

from __future__ import annotations

import json

import click

from experiments.rollouts.cases import Result, known_harm, no_difference, shared_queues
from experiments.rollouts.pool import link_epochs, shared_epochs
from kmod.tables import Column, print_table
from kmod.terminal import echo
from training.options import as_json_option

_COLUMNS = (
    Column("candidate or comparison"),
    Column("counted", least=12, cut="end"),
    Column("hits", "right"),
    Column("rate [95 %]", "right"),
    Column("hours\nmedian", "right"),
    Column("\np95", "right"),
    Column("looks", "right"),
    Column("largest\nshare", "right"),
)


@click.command("rollouts")
@click.option("--seeds", type=click.IntRange(5), default=40, show_default=True, help="Roll-outs of each candidate.")
@click.option("--nulls", type=click.IntRange(5), default=200, show_default=True, help="Of a table against itself.")
@as_json_option
def command(*, seeds: int, nulls: int, as_json: bool) -> None:
    """Roll out candidates whose harm is known to a simulated fleet of 200 servers. It takes about two minutes.

    \b
    Example:
      python -m experiments rollouts --seeds 5 --nulls 20
    """
    links, shared = link_epochs(), shared_epochs()
    results = [*known_harm(links, seeds=seeds), no_difference(links, runs=nulls), *shared_queues(shared, seeds=seeds)]
    if as_json:
        echo(json.dumps([result.summary() for result in results]))
        return
    print_table(_COLUMNS, [_cells(result) for result in results])


def _cells(result: Result) -> list[str]:
    low, high = result.interval
    rate = f"{100 * result.hits / result.of:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
    found = result.summary()
    figures = [found[name] for name in ("median_hours", "p95_hours", "mean_looks", "most_share")]
    shown = ["" if figure is None else f"{figure:.3g}" for figure in figures]
    return [result.case, result.counted, f"{result.hits}/{result.of}", rate, *shown]
