# SPDX-License-Identifier: MIT
"""Opens a registry's database: schema first, then the name that it goes by.

The kernel compares serials per registry and channel, so the name belongs to the
database that hands the serials out: it is written at the first start and kept.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError

from serving.database.engine import Database
from serving.database.migrate import migrate, require_current_schema
from serving.database.models import RegistryRow
from serving.errors import DatabaseError, SettingsError
from serving.settings import DEFAULT_REGISTRY, ServingSettings

__all__ = ["open_database", "registry_name"]


def open_database(settings: ServingSettings) -> Database:
    """Open the database of the settings, and migrate it or check its schema.

    Raises:
        DatabaseError: it cannot be opened, or has another schema.
    """
    database = Database(settings.database_url.get_secret_value(), busy_timeout_ms=settings.busy_timeout_ms)
    try:
        if settings.migrate:
            migrate(database)
        else:
            require_current_schema(database)
    except BaseException:
        database.close()
        raise
    return database


def registry_name(database: Database, *, wanted: str | None, now: datetime) -> str:
    """The name kept in the database; at the first start `wanted` (or `local`) is written.

    Raises:
        SettingsError: another name is wanted than the one that serials were given out under.
        DatabaseError: the database does not answer.
    """
    try:
        try:
            kept = _keep_name(database, wanted=wanted, now=now)
        except IntegrityError:
            # Another process wrote the one row first; now it is there to be read.
            kept = _keep_name(database, wanted=wanted, now=now)
    except DBAPIError as error:
        raise DatabaseError(f"database {database.shown_url}: expected it to answer, got {error.orig}") from error
    if wanted is not None and wanted != kept:
        raise SettingsError(
            f"registry: expected {kept!r}, the name in the database {database.shown_url}, got {wanted!r}; "
            "leave the name out, or use another database"
        )
    return kept


def _keep_name(database: Database, *, wanted: str | None, now: datetime) -> str:
    with database.write() as session:
        kept = session.scalar(select(RegistryRow.name))
        if kept is None:
            kept = wanted or DEFAULT_REGISTRY
            session.add(RegistryRow(id=1, name=kept, created_at=now))
        return kept
