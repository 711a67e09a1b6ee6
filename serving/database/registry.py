# SPDX-License-Identifier: MIT
"""Opens a registry's database, and reads or writes the registry's name in it.

The kernel compares serials of the same registry and channel. The name therefore belongs to the database that assigns
the serials. It is written at the first start and never changes.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError

from serving.database.engine import Database
from serving.database.migrate import migrate, require_current_schema, require_room
from serving.database.models import RegistryRow
from serving.errors import DatabaseError, SettingsError
from serving.settings import DEFAULT_REGISTRY, ServingSettings


def open_database(settings: ServingSettings) -> Database:
    """Open the database of the settings, and either upgrade its schema or check it.

    Raises:
        DatabaseError: the database cannot be opened, or its schema is not that of this version.
    """
    database = Database(
        settings.database_url.get_secret_value(),
        busy_timeout_ms=settings.busy_timeout_ms,
        max_connections=settings.database_connections,
    )
    try:
        require_room(database, settings.database_connections)
        if settings.migrate:
            migrate(database)
        else:
            require_current_schema(database)
    except BaseException:
        database.close()
        raise
    return database


def registry_name(database: Database, *, wanted: str | None, now: datetime) -> str:
    """Return the name in the database. At the first start, `wanted` (or `local` without it) is written first.

    Raises:
        SettingsError: `wanted` differs from the name in the database.
        DatabaseError: the database does not answer.
    """
    try:
        try:
            kept = _keep_name(database, wanted=wanted, now=now)
        except IntegrityError:
            # Another process inserted the row first. The second attempt reads it.
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
