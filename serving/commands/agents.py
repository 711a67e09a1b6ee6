# SPDX-License-Identifier: MIT
"""The command `ccatune agents`."""

from __future__ import annotations

from typing import Any

import click

from kmod.tables import Column
from kmod.terminal import echo
from serving.commands.options import connect, json_option, registry_options
from serving.commands.printing import Cells, age_in_words, channel_of, print_table, short_digest

Json = dict[str, Any]

# Three times the time after which an agent reports at the latest by default.
_SILENT_S = 180.0


@click.group()
def agents() -> None:
    """List the agents that report to the registry, or remove one.

    \b
    Example:
      ccatune agents list --cca gr --channel champion
      ccatune agents remove web-1
    """


@agents.command("list")
@click.option("--cca", help="Only reports on this algorithm.")
@click.option("--channel", "channel_name", help="Only agents that follow this channel.")
@click.option("--state", help="Only agents in this state, such as Offline.")
@registry_options
@json_option
def list_agents(*, cca: str | None, channel_name: str | None, state: str | None) -> None:
    """List the agents, each with its last report on each algorithm.

    The serial is that of the table in force, and the one that the registry offers if it is another. An agent whose
    last report is more than three minutes old is marked as silent.

    \b
    Example:
      ccatune agents list --cca gr --channel champion
    """
    with connect() as client:
        print_table(client.agents(cca=cca, channel=channel_name, state=state), _AGENTS)


def _serials(row: Json) -> str:
    in_force, offered = row["effective_serial"], row["offered_serial"]
    return str(in_force) if offered in {0, in_force} else f"{in_force} of {offered}"


def _last_report(row: Json) -> str:
    age = age_in_words(row["age_s"])
    return f"silent {age}" if isinstance(row["age_s"], int | float) and row["age_s"] > _SILENT_S else age


def _problem(row: Json) -> str:
    shared = "another agent reports under this id" if row["shared_id"] else ""
    return "; ".join(filter(None, (shared, row["error"])))


_AGENTS: Cells = {
    Column("agent", least=10): lambda row: str(row["agent_id"]),
    Column("channel", least=12): channel_of,
    Column("state", least=12): lambda row: str(row["state"]),
    Column("serial", "right", least=12): _serials,
    Column("table"): lambda row: short_digest(row["effective_digest"])[:8],
    Column("report"): _last_report,
    Column("problem", least=8, cut="end"): _problem,
}


@agents.command()
@click.argument("agent_id", metavar="ID")
@registry_options
def remove(*, agent_id: str) -> None:
    """Delete the reports of the agent ID from the registry, as of a server that is gone.

    If the agent still runs, its next report lists it again.

    \b
    Example:
      ccatune agents remove web-1
    """
    with connect() as client:
        client.remove_agent(agent_id)
    echo(f"{agent_id}: removed")
