# SPDX-License-Identifier: MIT
"""The command `ccatune people`."""

from __future__ import annotations

from pathlib import Path

import click

from kmod.tables import Column
from serving.access.grants import ROLES
from serving.client_people import People
from serving.commands.options import FILE, connect, json_option, registry_options
from serving.commands.passwords import new_password
from serving.commands.printing import Cells, print_facts, print_table, time_in_words

_ROLE = click.Choice(tuple(ROLES))


def _log_in(row: dict[str, object]) -> str:
    if row["disabled_at"]:
        return "disabled"
    if row["by_provider"]:
        return "by the provider"
    return "set up" if row["is_set_up"] else "not set up"


_PEOPLE: Cells = {
    Column("name", least=12): lambda row: str(row["name"]),
    Column("role"): lambda row: str(row["role"]),
    Column("log-in"): _log_in,
    Column("last log-in (UTC)"): lambda row: time_in_words(row["logged_in_at"]) or "never",
    Column("made (UTC)"): lambda row: time_in_words(row["created_at"], to="days"),
}
_password_file = click.option(
    "--password-file",
    type=FILE,
    help="File with a password for the first log-in, which asks for another one.  [default: make a set-up link]",
)


@click.group()
def people() -> None:
    """List and change the people who log in to the pages. This needs a token with the scope admin.

    \b
    Example:
      export CCATUNE_TOKEN_FILE=admin.token
      ccatune people add alice --role operator
      ccatune people list
      ccatune people disable alice
    """


@people.command("list")
@registry_options
@json_option
def list_people() -> None:
    """List the people.

    \b
    Example:
      ccatune people list
    """
    with connect() as client:
        rows = list(People(client).all())
    print_table(rows, _PEOPLE)


@people.command()
@click.argument("name")
@click.option("--role", type=_ROLE, required=True, help="What NAME may do.")
@_password_file
@registry_options
@json_option
def add(*, name: str, role: str, password_file: Path | None) -> None:
    """Make an account for NAME. It prints a link with which NAME sets the password, once and within three days.

    \b
    Example:
      ccatune people add alice --role operator
    """
    password = None if password_file is None else new_password(name, password_file)
    with connect() as client:
        made = People(client).add(name, role, password=password)
    print_facts(made, shown=_shown(made), whole="set_up_url")


@people.command("set-role")
@click.argument("name")
@click.argument("role", type=_ROLE)
@registry_options
@json_option
def set_role(*, name: str, role: str) -> None:
    """Change the role of NAME, whose sessions end.

    \b
    Example:
      ccatune people set-role alice viewer
    """
    with connect() as client:
        print_facts(People(client).set_role(name, role))


@people.command()
@click.argument("name")
@_password_file
@registry_options
@json_option
def reset(*, name: str, password_file: Path | None) -> None:
    """Remove the password and the passkeys of NAME, and end the sessions. It prints a new set-up link.

    \b
    Example:
      ccatune people reset alice
    """
    password = None if password_file is None else new_password(name, password_file)
    with connect() as client:
        made = People(client).reset(name, password=password)
    print_facts(made, shown=_shown(made), whole="set_up_url")


@people.command()
@click.argument("name")
@registry_options
@json_option
def disable(*, name: str) -> None:
    """Disable NAME for ever, with all tokens and sessions.

    \b
    Example:
      ccatune people disable alice
    """
    with connect() as client:
        print_facts(People(client).disable(name))


def _shown(made: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in made.items() if value is not None}
