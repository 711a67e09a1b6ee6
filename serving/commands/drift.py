# SPDX-License-Identifier: MIT
"""The command `ccatune drift`."""

from __future__ import annotations

from typing import Any

import click

from kmod import tables
from kmod.tables import Column
from kmod.terminal import echo
from serving.client import require_channel
from serving.client_requests import Json
from serving.commands.options import connect, json_option, registry_options
from serving.commands.printing import Cells, print_answer, print_reasons, short_digest

_SHOWN_STATES = 10


def _percent(name: str) -> Any:
    return lambda row: "-" if row[name] is None else f"{100 * row[name]:.1f}%"


_ROWS: Cells = {
    Column("class", "right"): lambda row: str(row["class"]),
    Column("state", "right"): lambda row: str(row["state"]),
    Column("epochs", "right"): lambda row: str(row["epochs"]),
    Column("mean\ndelay", "right"): lambda row: (
        "-" if row["mean_delay_us"] is None else f"{row['mean_delay_us'] / 1000:.1f} ms"
    ),
    Column("above\ntarget", "right"): _percent("late_share"),
    Column("allowed", "right"): _percent("allowed_late_share"),
    Column("ratio", "right"): lambda row: "-" if row["late_ratio"] is None else f"{row['late_ratio']:.2f}",
    Column("verdict"): lambda row: str(row["verdict"]),
}
_STATES: Cells = {
    Column("state", "right"): lambda row: str(row["state"]),
    Column("share of\nepochs", "right"): _percent("share"),
    Column("in\ntraining", "right"): _percent("training_share"),
}


@click.command()
@click.argument("channel", metavar="CCA/CHANNEL")
@click.option("--hours", type=click.IntRange(min=1), default=24, show_default=True, help="Compare the last hours.")
@click.option("--enforce", is_flag=True, help="Exit with status 1 if the verdict is `drifted`.")
@registry_options
@json_option
def drift(*, channel: str, hours: int, enforce: bool) -> None:
    """Compare the flows of a channel's ensemble with the network of its training.

    The verdict is ok, watch, drifted or unknown. It comes from how often flows visit each state, and from the share of
    delay samples above the target.

    \b
    Example:
      ccatune drift gr/champion
      ccatune drift gr/champion --hours 168 --enforce
    """
    cca, separator, name = channel.partition("/")
    if not separator:
        raise click.UsageError(f"expected an algorithm and a channel such as gr/champion, got {channel!r}")
    with connect() as client:
        found: Json = client.ask("GET", f"{require_channel(cca, name)}/drift?hours={hours}")
    print_answer(found, lambda: _print(found))
    if enforce and found["verdict"] == "drifted":
        click.get_current_context().exit(1)


def _print(found: Json) -> None:
    echo(f"{found['cca']}/{found['channel']} serial {found['serial']} {short_digest(found['digest'])}, last "
         f"{found['hours']} hours: {found['verdict']}")  # fmt: skip
    print_reasons(found["reasons"])
    most = sorted(found["states"], key=lambda row: -abs(row["share"] - row["training_share"]))[:_SHOWN_STATES]
    for rows, cells in ((most, _STATES), (found["rows"], _ROWS)):
        if rows:
            echo("")
            tables.print_table(list(cells), [[cell(row) for cell in cells.values()] for row in rows])
