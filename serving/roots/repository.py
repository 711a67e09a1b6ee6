# SPDX-License-Identifier: MIT
"""Database queries on root documents."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from serving.database import EnsembleSignatureRow, RegistryRow, RootRow


def newest(session: Session) -> RootRow | None:
    """Return the newest root document, or None."""
    return session.scalar(select(RootRow).order_by(RootRow.version.desc()).limit(1))


def of_version(session: Session, version: int) -> RootRow | None:
    """Return the root document of that version, or None."""
    return session.get(RootRow, version)


def insert(session: Session, row: RootRow) -> None:
    """Insert a version."""
    session.add(row)
    session.flush()


def lock_for_addition(session: Session) -> None:
    """Wait for the transactions that use the newest version or add one, and exclude others until this one ends."""
    session.execute(select(RegistryRow.id).with_for_update())


def lock_for_use(session: Session) -> None:
    """Make transactions that add a version wait until this one ends."""
    session.execute(select(RegistryRow.id).with_for_update(read=True, key_share=True))


def n_signed_rows(session: Session) -> int:
    """Return how many root documents and signatures of ensembles there are.

    None is ever deleted or changed, so an equal number means that they are the same.
    """
    n_roots = select(func.count()).select_from(RootRow).scalar_subquery()
    n_signatures = select(func.count()).select_from(EnsembleSignatureRow).scalar_subquery()
    return int(session.scalar(select(n_roots + n_signatures)) or 0)
