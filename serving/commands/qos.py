# SPDX-License-Identifier: MIT
"""The command `ccatune qos`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from kmod.tables import Column
from serving.commands.options import connect, json_option, registry_options, seconds_of
from serving.commands.printing import Cells, channel_of, print_table, time_in_words

Json = dict[str, Any]

_DEFAULT_BY = "cca,channel,serial,group"


class Moment(click.ParamType[str]):
    """A time of ISO 8601, or how long ago it was, such as 7d or 12h. Its value is a time with a time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time as the API takes it. A time without a zone is in UTC."""
        ago_s = seconds_of(str(value))
        try:
            found = (
                datetime.fromisoformat(str(value)) if ago_s is None else datetime.now(UTC) - timedelta(seconds=ago_s)
            )
        except (OverflowError, ValueError):
            self.fail(
                f"expected a time such as 2026-11-27T08:00, or how long ago, such as 7d, got {value!r}", param, ctx
            )
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


@click.command()
@click.option(
    "--by",
    default=_DEFAULT_BY,
    show_default=True,
    help="Keys of the groups to sum: hour, cca, channel, serial, group, class, state, agent_id.",
)
@click.option("--cca", help="Only of this algorithm.")
@click.option("--channel", help="Only of tables of this channel.")
@click.option("--serial", type=click.IntRange(min=1), help="Only of the table with this serial.")
@click.option("--group", type=click.Choice(["ensemble", "held_back"]), help="Only of flows that use the table, or not.")
@click.option("--class", "delay_class", type=click.IntRange(min=0), help="Only of this class, counted from 0.")
@click.option("--state", type=click.IntRange(min=0), help="Only of this state; not with agents.")
@click.option("--agent", "agent_id", metavar="ID", help="Only of this agent.")
@click.option("--from", "begin", type=Moment(), help="Reports since then, by whole hours.  [default: 24h]")
@click.option("--until", type=Moment(), help="Reports until then, by whole hours.")
@registry_options
@json_option
def qos(*, by: str, begin: str | None, delay_class: int | None, **filters: Any) -> None:
    """Show what the agents report of their flows: goodput, retransmissions and queueing delay.

    Each line sums the epochs of flows that ended in the time of --from and --until. The throughput is the mean of a
    flow. Sums of each agent are kept for a shorter time, and without states.

    \b
    Example:
      ccatune qos --cca gr --channel champion --by serial,class --from 7d
    """
    with connect() as client:
        keys = by.split(",")
        print_table(client.qos(keys, **{"from": begin, "class": delay_class}, **filters), _cells(keys))


def _cells(by: list[str]) -> Cells:
    names = [name for name in _KEYS if name in by]
    if {"cca", "channel"} <= set(names):
        names = ["cca/channel", *(name for name in names if name not in {"cca", "channel"})]
    return {**dict(_KEYS[name] for name in names), **_SUMS}


def _number(name: str, *, by: float = 1.0, digits: int = 1, unit: str = "") -> Callable[[Json], str]:
    def cell(row: Json) -> str:
        return "-" if row[name] is None else f"{row[name] * by:.{digits}f}{unit}"

    return cell


def _key(name: str) -> Callable[[Json], str]:
    return lambda row: "-" if row[name] is None else str(row[name])


_KEYS: dict[str, tuple[Column, Callable[[Json], str]]] = {
    "hour": (Column("hour (UTC)"), lambda row: time_in_words(row["hour"])),
    "cca/channel": (Column("channel", least=12), channel_of),
    "cca": (Column("algorithm"), _key("cca")),
    "channel": (Column("channel", least=12), _key("channel")),
    "serial": (Column("serial", "right"), _key("serial")),
    "group": (Column("group"), _key("group")),
    "class": (Column("class", "right"), _key("class")),
    "state": (Column("state", "right"), _key("state")),
    "agent_id": (Column("agent", least=10), _key("agent_id")),
}
_SUMS: Cells = {
    Column("epochs", "right"): _key("epochs"),
    Column("Mbit/s", "right"): _number("goodput_bytes_per_s", by=8e-6, digits=2),
    Column("retrans.", "right"): _number("retransmission_rate", by=100, digits=2, unit="%"),
    Column("mean\ndelay", "right"): _number("mean_delay_us", by=1e-3, unit=" ms"),
    Column("within\ntarget", "right"): _number("share_within_target", by=100, unit="%"),
}
