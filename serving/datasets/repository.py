# SPDX-License-Identifier: MIT
"""Database queries on datasets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from serving.database import DatasetRow, insert_for


def names(session: Session) -> set[str]:
    """Return the names of which a runner has said something."""
    return set(session.scalars(select(DatasetRow.name).distinct()))


def contents(session: Session) -> Sequence[DatasetRow]:
    """Return what runners said of their datasets, newest first."""
    return session.scalars(select(DatasetRow).order_by(DatasetRow.said_at.desc(), DatasetRow.id.desc())).all()


def put(session: Session, *, name: str, content: str, runner: str, facts: str, now: datetime) -> None:
    """Insert or replace the row of this name and content."""
    values = {"runner": runner, "facts": facts, "said_at": now}
    statement = insert_for(session, DatasetRow).values(name=name, content=content, **values)
    session.execute(statement.on_conflict_do_update(index_elements=["name", "content"], set_=values))


def delete_older(session: Session, *, before: datetime, most: int) -> None:
    """Delete rows of which no runner has spoken since `before`, and the oldest ones beyond `most`."""
    kept = select(DatasetRow.id).order_by(DatasetRow.said_at.desc(), DatasetRow.id.desc()).limit(most)
    session.execute(delete(DatasetRow).where((DatasetRow.said_at < before) | DatasetRow.id.not_in(kept)))
