# SPDX-License-Identifier: MIT
"""Column types that behave the same on every database."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, Integer
from sqlalchemy.types import TypeDecorator

# SQLite assigns row numbers by itself only if the primary key has the type INTEGER.
BigId = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """A datetime with a time zone. It is stored and returned in UTC, because SQLite stores no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base's signature
        """Convert a datetime to UTC. Raises ValueError where it has no time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a moment with a time zone, got {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base's signature
        """Return the stored datetime with the time zone UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
