# SPDX-License-Identifier: MIT
"""Upgrades a database's schema to that of this version, in one transaction.

If the process is killed during the upgrade, the next start finds the complete old schema. Two processes that start
at once run the upgrade one after the other: SQLite by its write lock, PostgreSQL by an advisory lock.
"""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from serving.database.engine import Database
from serving.errors import DatabaseError

# An arbitrary key that other programs on the same database are unlikely to use: "ccatune" in ASCII.
_ADVISORY_LOCK = 0x63636174756E65

_CONNECTION_LIMITS = (("max_connections", 1), ("superuser_reserved_connections", -1))
# PostgreSQL's messages for a connection over its limit. The driver has no code for a failed connection.
_NO_CONNECTION_LEFT = ("too many clients", "remaining connection slots", "too many connections")


def alembic_config(connection: Connection | None = None) -> Config:
    """Return the Alembic configuration of the package's migrations, for an open connection."""
    config = Config()
    config.set_main_option("script_location", str(resources.files("serving.database").joinpath("migrations")))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """Return the schema revision that this version requires."""
    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert head is not None, "the package ships at least one migration"  # noqa: S101 - a packaging mistake
    return head


def migrate(database: Database, *, revision: str = "head") -> None:
    """Upgrade the schema. Does nothing if it is current.

    Raises:
        DatabaseError: the database does not answer, or a newer version of ccatune made its schema.
    """
    try:
        with database.connect_for_schema() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            command.upgrade(alembic_config(connection), revision)
    except CommandError as error:
        raise DatabaseError(
            f"database {database.shown_url}: expected a schema up to {head_revision()}, got {error}; "
            "it was made by a newer version: run that one"
        ) from error
    except DBAPIError as error:
        raise _unreachable(database, error) from error


def require_current_schema(database: Database) -> None:
    """Check the schema without changing anything.

    Raises:
        DatabaseError: the schema is not that of this version, or the database does not answer.
    """
    # SQLite would create a missing file.
    if database.sqlite_file is not None and not database.sqlite_file.exists():
        raise DatabaseError(
            f"database {database.shown_url}: expected a database, there is none; start once without --no-migrate"
        )
    try:
        with database.read() as session:
            current = MigrationContext.configure(session.connection()).get_current_revision()
    except DBAPIError as error:
        raise _unreachable(database, error) from error
    if current != head_revision():
        raise DatabaseError(
            f"database {database.shown_url}: expected schema {head_revision()}, got {current or 'none'}; "
            "start once without --no-migrate"
        )


def require_room(database: Database, n_connections: int) -> None:
    """Check that PostgreSQL allows this process as many connections as it may open. SQLite has no limit.

    Raises:
        DatabaseError: `max_connections` of the server is too small, or the database does not answer.
    """
    if database.is_sqlite:
        return
    try:
        with database.read() as session:
            allowed = sum(int(session.scalar(text(f"SHOW {name}")) or 0) * sign for name, sign in _CONNECTION_LIMITS)
    except DBAPIError as error:
        raise _unreachable(database, error) from error
    if n_connections > allowed:
        raise DatabaseError(
            f"database {database.shown_url}: expected {n_connections} connections for this process, the server allows "
            f"{allowed}; raise its max_connections, or lower database_connections"
        )


def _unreachable(database: Database, error: DBAPIError) -> DatabaseError:
    said = str(error.orig).strip()
    advice = ""
    if any(words in said for words in _NO_CONNECTION_LEFT):
        advice = (
            "; all processes together need fewer: lower database_connections, or raise the server's max_connections"
        )
    return DatabaseError(f"database {database.shown_url}: expected it to answer, got {said}{advice}")
