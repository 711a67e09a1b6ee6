# SPDX-License-Identifier: MIT
"""Database queries on agents."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from serving.database import AgentRow

__all__ = ["find", "insert_or_find", "page_in_order"]


def find(session: Session, *, agent_id: str, cca: str) -> AgentRow | None:
    """Return the agent's row for that algorithm, or None."""
    return session.scalar(select(AgentRow).where(AgentRow.agent_id == agent_id, AgentRow.cca == cca))


def insert_or_find(session: Session, row: AgentRow) -> AgentRow:
    """Insert the row and return it, or return the existing row of the same agent and algorithm."""
    known = find(session, agent_id=row.agent_id, cca=row.cca)
    if known is not None:
        return known
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        known = find(session, agent_id=row.agent_id, cca=row.cca)
        if known is None:
            raise
        return known
    return row


def page_in_order(
    session: Session, *, cca: str | None, channel: str | None, after_id: int | None, limit: int
) -> Sequence[AgentRow]:
    """Return rows with an id above `after_id`, in the order in which the agents first reported."""
    query = select(AgentRow).order_by(AgentRow.id).limit(limit)
    if cca is not None:
        query = query.where(AgentRow.cca == cca)
    if channel is not None:
        query = query.where(AgentRow.channel == channel)
    if after_id is not None:
        query = query.where(AgentRow.id > after_id)
    return session.scalars(query).all()
