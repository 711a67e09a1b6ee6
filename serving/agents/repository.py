# SPDX-License-Identifier: MIT
"""Database queries on agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from serving.access.grants import Grant
from serving.database import AgentRow

__all__ = ["page_in_order", "replace"]

_KEY = ("agent_id", "cca")


def replace(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert the rows, or replace the existing ones of the same agent and algorithm. Every row has all columns."""
    dialect = session.get_bind().dialect.name
    statement: postgresql.Insert | sqlite.Insert
    if dialect == "postgresql":
        statement = postgresql.insert(AgentRow)
    elif dialect == "sqlite":
        statement = sqlite.insert(AgentRow)
    else:
        for row in rows:
            _replace_one(session, row)
        return
    replaced = {name: statement.excluded[name] for name in rows[0] if name not in _KEY}
    session.connection().execute(statement.on_conflict_do_update(index_elements=list(_KEY), set_=replaced), list(rows))


def _replace_one(session: Session, row: dict[str, Any]) -> None:
    """Replace a row on a database without a statement for it."""
    kept = _find(session, row)
    if kept is None:
        try:
            with session.begin_nested():
                session.add(AgentRow(**row))
        except IntegrityError:
            # Another transaction inserted the row first.
            kept = _find(session, row)
            if kept is None:
                raise
    if kept is not None:
        for column, value in row.items():
            setattr(kept, column, value)


def _find(session: Session, row: dict[str, Any]) -> AgentRow | None:
    query = select(AgentRow).where(AgentRow.agent_id == row["agent_id"], AgentRow.cca == row["cca"])
    return session.scalar(query)


def page_in_order(
    session: Session, *, cca: str | None, channel: str | None, after_id: int | None, limit: int, within: Grant
) -> Sequence[AgentRow]:
    """Return rows within the grant with an id above `after_id`, in the order in which the agents first reported."""
    query = select(AgentRow).order_by(AgentRow.id).limit(limit)
    if cca is not None:
        query = query.where(AgentRow.cca == cca)
    if channel is not None:
        query = query.where(AgentRow.channel == channel)
    if after_id is not None:
        query = query.where(AgentRow.id > after_id)
    if within.ccas is not None:
        query = query.where(AgentRow.cca.in_(within.ccas))
    if within.channels is not None:
        query = query.where(AgentRow.channel.in_(within.channels))
    if within.agent_id is not None:
        query = query.where(AgentRow.agent_id == within.agent_id)
    return session.scalars(query).all()
