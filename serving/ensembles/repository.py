# SPDX-License-Identifier: MIT
"""Database queries on ensembles."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from serving import database
from serving.database import EnsembleRow, EnsembleSignatureRow


def find(session: Session, digest: str) -> EnsembleRow | None:
    """Return the row with that digest, without its document, or None."""
    return session.scalar(select(EnsembleRow).where(EnsembleRow.digest == digest))


def cca_and_document(session: Session, digest: str) -> tuple[str, str] | None:
    """Return the algorithm and the document of the ensemble with that digest, or None."""
    query = select(EnsembleRow.cca, EnsembleRow.document).where(EnsembleRow.digest == digest)
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def insert_or_find(session: Session, row: EnsembleRow) -> tuple[EnsembleRow, bool]:
    """Insert the row unless one with its digest exists. Return the stored row, and whether it was inserted."""
    return database.insert_or_find(session, row, find=lambda: find(session, row.digest))


def page_newest_first(
    session: Session, *, cca: str | None, before_id: int | None, limit: int, within_ccas: frozenset[str] | None
) -> Sequence[EnsembleRow]:
    """Return rows with an id below `before_id`, newest first. Only of the algorithms `within_ccas`, if not None."""
    query = select(EnsembleRow).order_by(EnsembleRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(EnsembleRow.id < before_id)
    return session.scalars(database.narrowed(query, (EnsembleRow.cca, cca), (EnsembleRow.cca, within_ccas))).all()


def signatures(session: Session, *, digest: str) -> Sequence[EnsembleSignatureRow]:
    """Return the signatures of an ensemble, in the order of the keys' ids."""
    query = select(EnsembleSignatureRow).where(EnsembleSignatureRow.digest == digest)
    return session.scalars(query.order_by(EnsembleSignatureRow.key_id)).all()


def insert_signature(session: Session, row: EnsembleSignatureRow) -> bool:
    """Insert the row unless its key has signed the ensemble already. Return whether it was inserted."""
    known = select(EnsembleSignatureRow).where(
        EnsembleSignatureRow.digest == row.digest, EnsembleSignatureRow.key_id == row.key_id
    )
    return database.insert_or_find(session, row, find=lambda: session.scalar(known))[1]
