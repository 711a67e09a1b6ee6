# SPDX-License-Identifier: MIT
"""Rules for principals, tokens and the audit log.

- A token belongs to a principal and never changes. It ends by its expiry or by its revocation, for ever.
- The first token of a principal makes the principal. Its kind never changes.
- Disabling a principal revokes all its tokens and ends its sessions, and it gets no new one.
- A revocation that is repeated changes nothing.
- Every change leaves a row in the audit log, in the same transaction.
- The first administrator's token is made by someone who has the database, not over the API.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.access import audit, repository
from serving.access.grants import Caller, PrincipalKind
from serving.access.schemas import TokenCreate
from serving.access.token_text import NewToken
from serving.database import PrincipalRow, TokenRow
from serving.errors import PrincipalConflictError, PrincipalNotFoundError, TokenNotFoundError
from serving.people import repository as people_repository

ADMIN = "admin"


def create_token(session: Session, wanted: TokenCreate, new: NewToken, *, by: Caller, now: datetime) -> TokenRow:
    """Make a token, and its principal if there is none.

    Raises:
        PrincipalConflictError: the principal is disabled or of another kind, or is new and `kind` is None.
    """
    # Changes of tokens wait for each other here, so the principal cannot be disabled after it was looked at.
    version = repository.next_access_version(session)
    principal = principal_for(session, wanted.principal, wanted.kind, by=by, now=now)
    row = TokenRow(
        public_id=new.public_id,
        digest=new.digest,
        principal=principal,
        scopes=_text(wanted.scopes),
        ccas=None if wanted.ccas is None else _text(wanted.ccas),
        channels=None if wanted.channels is None else _text(wanted.channels),
        agent_id=wanted.agent_id,
        version=version,
        created_at=now,
        expires_at=None if wanted.lifetime_s is None else now + timedelta(seconds=wanted.lifetime_s),
    )
    session.add(row)
    audit.record(
        session,
        by=by,
        action="create-token",
        target=f"token {new.public_id}",
        now=now,
        principal=principal.name,
        scopes=row.scopes.split(),
        ccas=wanted.ccas,
        channels=wanted.channels,
        agent_id=row.agent_id,
        expires_at=None if row.expires_at is None else row.expires_at.isoformat(),
    )
    session.flush()
    return row


def create_admin_token(session: Session, new: NewToken, *, by: Caller, now: datetime) -> TokenRow:
    """Make a token of the principal `admin` with all rights. The principal is made, or enabled again."""
    principal = repository.principal(session, ADMIN)
    if principal is not None and principal.disabled_at is not None:
        principal.disabled_at = None
        audit.record(session, by=by, action="enable-principal", target=f"principal {ADMIN}", now=now)
    kind: PrincipalKind | None = "human" if principal is None else None
    return create_token(session, TokenCreate(principal=ADMIN, kind=kind, scopes=["admin"]), new, by=by, now=now)


def revoke_token(session: Session, public_id: str, *, by: Caller, now: datetime) -> TokenRow:
    """Revoke a token, for ever. Raises TokenNotFoundError."""
    version = repository.next_access_version(session)
    row = repository.token(session, public_id)
    if row is None:
        raise TokenNotFoundError(f"expected the id of a token, got {public_id}; `ccatune tokens list` shows them")
    if row.revoked_at is None:
        _revoke(session, row, principal=row.principal.name, version=version, by=by, now=now)
    return row


def disable_principal(session: Session, name: str, *, by: Caller, now: datetime) -> PrincipalRow:
    """Revoke all tokens of a principal, end its sessions, and give it no further one. Raises PrincipalNotFoundError."""
    version = repository.next_access_version(session)
    row = repository.principal(session, name)
    if row is None:
        raise PrincipalNotFoundError(
            f"expected the name of a principal, got {name}; `ccatune tokens list` shows whose tokens there are"
        )
    if row.disabled_at is None:
        row.disabled_at = now
        audit.record(session, by=by, action="disable-principal", target=f"principal {name}", now=now)
    for token in repository.live_tokens_of(session, row.id):
        _revoke(session, token, principal=name, version=version, by=by, now=now)
    people_repository.end_sessions(session, row.id, now=now)
    return row


def principal_for(
    session: Session, name: str, kind: PrincipalKind | None, *, by: Caller, now: datetime
) -> PrincipalRow:
    """Return the principal of that name, which is made if there is none.

    Raises:
        PrincipalConflictError: the principal is disabled or of another kind, or is new and `kind` is None.
    """
    known = repository.principal(session, name)
    if known is None:
        if kind is None:
            raise PrincipalConflictError(
                f"kind: expected human, agent or ci for the new principal {name}, got none; add it (--kind)"
            )
        known, is_new = repository.insert_or_find_principal(session, PrincipalRow(name=name, kind=kind, created_at=now))
        if is_new:
            target = f"principal {name}"
            audit.record(session, by=by, action="create-principal", target=target, now=now, kind=kind)
    if known.disabled_at is not None:
        raise PrincipalConflictError(f"expected a principal that is enabled, got {name}; use another name")
    if kind is not None and kind != known.kind:
        raise PrincipalConflictError(
            f"kind: expected {known.kind}, the kind of {name}, got {kind}; leave it out or use another name"
        )
    return known


def _revoke(session: Session, row: TokenRow, *, principal: str, version: int, by: Caller, now: datetime) -> None:
    row.revoked_at = now
    row.version = version
    audit.record(session, by=by, action="revoke-token", target=f"token {row.public_id}", now=now, principal=principal)


def _text(words: Sequence[str]) -> str:
    return " ".join(sorted(set(words)))
