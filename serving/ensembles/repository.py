# SPDX-License-Identifier: MIT
"""Queries on ensembles."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from serving.database import EnsembleRow

__all__ = ["document", "find", "insert_or_find", "page_newest_first"]


def find(session: Session, digest: str) -> EnsembleRow | None:
    """The row of that digest, without its document."""
    return session.scalar(select(EnsembleRow).where(EnsembleRow.digest == digest))


def document(session: Session, digest: str) -> str | None:
    """The document of that digest."""
    return session.scalar(select(EnsembleRow.document).where(EnsembleRow.digest == digest))


def insert_or_find(session: Session, row: EnsembleRow) -> tuple[EnsembleRow, bool]:
    """Insert the row unless its digest is there already; also says whether it was inserted."""
    known = find(session, row.digest)
    if known is not None:
        return known, False
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        # Another transaction committed the same digest between our look and our insertion.
        known = find(session, row.digest)
        if known is None:
            raise
        return known, False
    return row, True


def page_newest_first(session: Session, *, cca: str | None, before_id: int | None, limit: int) -> Sequence[EnsembleRow]:
    """Rows with an id below `before_id`, newest first."""
    query = select(EnsembleRow).order_by(EnsembleRow.id.desc()).limit(limit)
    if cca is not None:
        query = query.where(EnsembleRow.cca == cca)
    if before_id is not None:
        query = query.where(EnsembleRow.id < before_id)
    return session.scalars(query).all()
