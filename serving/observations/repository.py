# SPDX-License-Identifier: MIT
"""Database queries on files of observations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from serving import database
from serving.database import ObservationRow

# What a row costs besides its content, so that a limit of bytes is one of files, too.
_ROW_BYTES = 4096
_STEP_ROWS = 500


def find(session: Session, digest: str) -> ObservationRow | None:
    """Return the row with that digest, without its content, or None."""
    return session.scalar(select(ObservationRow).where(ObservationRow.digest == digest))


def agent_and_content(session: Session, digest: str) -> tuple[str, bytes] | None:
    """Return the agent and the content of the file with that digest, or None."""
    query = select(ObservationRow.agent_id, ObservationRow.content).where(ObservationRow.digest == digest)
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def insert_or_find(session: Session, row: ObservationRow) -> tuple[ObservationRow, bool]:
    """Insert the row unless one with its digest exists. Return the stored row, and whether it was inserted."""
    return database.insert_or_find(session, row, find=lambda: find(session, row.digest))


def page_newest_first(
    session: Session, *, agent_id: str | None, before_id: int | None, limit: int, within_agent: str | None
) -> Sequence[ObservationRow]:
    """Return rows with an id below `before_id`, newest first. Only of the agent `within_agent`, if not None."""
    query = select(ObservationRow).order_by(ObservationRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(ObservationRow.id < before_id)
    column = ObservationRow.agent_id
    return session.scalars(database.narrowed(query, (column, agent_id), (column, within_agent))).all()


def delete_oldest(session: Session, *, agent_id: str | None, keep_bytes: int) -> None:
    """Delete the oldest files of an agent, or of all, until the rest has at most so many bytes, _ROW_BYTES each added.

    One call deletes at most _STEP_ROWS.
    """
    row = ObservationRow
    of_agent = row.agent_id == agent_id if agent_id is not None else row.id > 0
    counted = select(func.coalesce(func.sum(row.size_bytes + _ROW_BYTES), 0)).where(of_agent)
    surplus_bytes = (session.scalar(counted) or 0) - keep_bytes
    oldest = select(row.id, row.size_bytes).where(of_agent).order_by(row.id).limit(_STEP_ROWS)
    doomed = []
    for number, size_bytes in session.execute(oldest) if surplus_bytes > 0 else ():
        if surplus_bytes <= 0:
            break
        doomed.append(number)
        surplus_bytes -= size_bytes + _ROW_BYTES
    delete_all(session, doomed)


def ids_older(session: Session, *, before: datetime, limit: int) -> Sequence[int]:
    """Return ids of files that were received before a time."""
    query = select(ObservationRow.id).where(ObservationRow.received_at < before).order_by(ObservationRow.id)
    return session.scalars(query.limit(limit)).all()


def delete_all(session: Session, ids: Sequence[int]) -> None:
    """Delete the files with these ids."""
    session.execute(delete(ObservationRow).where(ObservationRow.id.in_(ids)))
