# SPDX-License-Identifier: MIT
"""The command `ccatune registry`: what an operator does with the registry's database on its own machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from serving.commands.options import FILE, json_option
from serving.commands.printing import print_facts
from serving.errors import DatabaseError
from serving.settings import load_settings


@click.group()
def registry() -> None:
    """Back up the registry's database.

    \b
    Example:
      ccatune registry backup /backup/registry-$(date +%F).db --database sqlite:///registry.db
    """


@registry.command()
@click.argument("file", type=FILE)
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings, as in configs/serving/."
)
@click.option(
    "--database",
    envvar="CCATUNE_DATABASE_URL",
    show_envvar=True,
    help="sqlite:///FILE.  [default: sqlite:///ccatune.db]",
)
@json_option
def backup(*, file: Path, config: Path | None, database: str | None) -> None:
    """Copy the registry's SQLite database to the new FILE, also while the registry runs.

    The copy shows one moment and is checked before it gets its name. It is readable by its owner alone. For PostgreSQL
    the command fails and names the `pg_dump` to run. docs/backup.md says what else to back up, and how to restore.

    \b
    Example:
      ccatune registry backup /backup/registry-$(date +%F).db --database sqlite:///registry.db
    """
    # This import loads the database. The group's help needs none.
    from serving.database import Database
    from serving.database.backup import back_up_sqlite, pg_dump_command

    settings = load_settings(config, database_url=database)
    url = settings.database_url.get_secret_value()
    opened = Database(url)
    opened.close()
    if opened.sqlite_file is None:
        raise DatabaseError(
            f"database {opened.shown_url}: expected sqlite:///FILE, got another one; run `{pg_dump_command(url, file)}`"
        )
    facts = asdict(back_up_sqlite(opened.sqlite_file, file))
    channels = ", ".join(f"{name} at serial {serial}" for name, serial in facts["channels"].items())
    print_facts(facts, shown={**facts, "channels": channels})
