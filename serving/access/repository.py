# SPDX-License-Identifier: MIT
"""Database queries on principals, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session, contains_eager

from serving.database import AuditRow, PrincipalRow, RegistryRow, TokenRow, insert_or_find, narrowed


class ChangedToken(NamedTuple):
    """What a process keeps of a token in memory, and whether it still may."""

    row_id: int
    token_id: str
    digest: str
    principal: str
    kind: str
    scopes: str
    ccas: str | None
    channels: str | None
    agent_id: str | None
    version: int
    expires_at: datetime | None
    is_revoked: bool


def has_principal(session: Session) -> bool:
    """Whether there is any principal."""
    return session.scalar(select(PrincipalRow.id).limit(1)) is not None


def principal(session: Session, name: str) -> PrincipalRow | None:
    """Return the principal with that name, or None."""
    return session.scalar(select(PrincipalRow).where(PrincipalRow.name == name))


def insert_or_find_principal(session: Session, row: PrincipalRow) -> tuple[PrincipalRow, bool]:
    """Insert the principal unless one has its name. Return the stored row, and whether it was inserted."""
    return insert_or_find(session, row, find=lambda: principal(session, row.name))


def next_access_version(session: Session) -> int:
    """Return the next version of the tokens.

    The row stays locked until the transaction ends, so versions are committed in their order. A reader who has seen
    a version has therefore seen all changes with lower ones.
    """
    session.execute(update(RegistryRow).values(access_version=RegistryRow.access_version + 1))
    return session.scalars(select(RegistryRow.access_version)).one()


def token(session: Session, public_id: str) -> TokenRow | None:
    """Return the token with that public id, with its principal, or None."""
    query = select(TokenRow).join(TokenRow.principal).options(contains_eager(TokenRow.principal))
    return session.scalar(query.where(TokenRow.public_id == public_id))


def live_tokens_of(session: Session, principal_id: int) -> Sequence[TokenRow]:
    """Return the tokens of a principal that are not revoked."""
    return session.scalars(
        select(TokenRow).where(TokenRow.principal_id == principal_id, TokenRow.revoked_at.is_(None))
    ).all()


def tokens_changed_since(session: Session, version: int) -> list[ChangedToken]:
    """Return the tokens with a higher version."""
    # Plain columns take less than a fifth of the time of mapped objects, and a start reads all tokens.
    query = select(
        TokenRow.id,
        TokenRow.public_id,
        TokenRow.digest,
        PrincipalRow.name,
        PrincipalRow.kind,
        TokenRow.scopes,
        TokenRow.ccas,
        TokenRow.channels,
        TokenRow.agent_id,
        TokenRow.version,
        TokenRow.expires_at,
        TokenRow.revoked_at.is_not(None),
    )
    query = query.join(TokenRow.principal).where(TokenRow.version > version)
    return [ChangedToken._make(row) for row in session.execute(query)]


def token_page(session: Session, *, principal: str | None, before_id: int | None, limit: int) -> Sequence[TokenRow]:
    """Return tokens with an id below `before_id`, newest first, with their principals."""
    query = select(TokenRow).join(TokenRow.principal).options(contains_eager(TokenRow.principal))
    query = query.order_by(TokenRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(TokenRow.id < before_id)
    return session.scalars(narrowed(query, (PrincipalRow.name, principal))).all()


def write_last_use(session: Session, ids: Sequence[int], *, now: datetime) -> None:
    """Set the time of the last use of these tokens, unless a later one is stored."""
    is_earlier = or_(TokenRow.last_used_at.is_(None), TokenRow.last_used_at < now)
    statement = update(TokenRow).where(TokenRow.id.in_(ids), is_earlier).values(last_used_at=now)
    session.execute(statement, execution_options={"synchronize_session": False})


def audit_page(
    session: Session,
    *,
    actor: str | None,
    action: str | None,
    target: str | None,
    before_id: int | None,
    limit: int,
    since: datetime | None = None,
) -> Sequence[AuditRow]:
    """Return entries of the audit log with an id below `before_id`, newest first. since: the earliest time."""
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(AuditRow.id < before_id)
    if since is not None:
        query = query.where(AuditRow.at >= since)
    asked = ((AuditRow.actor, actor), (AuditRow.action, action), (AuditRow.target, target))
    return session.scalars(narrowed(query, *asked)).all()
