# SPDX-License-Identifier: MIT
"""Database queries on people, passkeys, sessions, and words that are used once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session, contains_eager

from serving.database import OneTimeRow, PasskeyRow, PersonRow, PrincipalRow, SessionRow

_WITHOUT_SYNC = {"synchronize_session": False}


class LiveSession(NamedTuple):
    """A session that has neither ended nor expired, of a person who is not disabled."""

    session_id: int
    principal_id: int
    name: str
    role: str
    csrf_token: str
    seen_at: datetime
    expires_at: datetime


def live_session(session: Session, digest: str, *, now: datetime, seen_after: datetime) -> LiveSession | None:
    """Return the session with that digest, or None. It is one query by a unique index."""
    query = (
        select(
            SessionRow.id, PrincipalRow.id, PrincipalRow.name, PersonRow.role, SessionRow.csrf_token,
            SessionRow.seen_at, SessionRow.expires_at,
        )
        .join(PersonRow, PersonRow.principal_id == SessionRow.principal_id)
        .join(PersonRow.principal)
        .where(
            SessionRow.digest == digest, SessionRow.ended_at.is_(None), SessionRow.expires_at > now,
            SessionRow.seen_at > seen_after, PrincipalRow.disabled_at.is_(None),
        )
    )  # fmt: skip
    found = session.execute(query).first()
    return None if found is None else LiveSession._make(found)


def write_seen(session: Session, session_id: int, *, now: datetime) -> None:
    """Set the time at which a session was last used."""
    statement = update(SessionRow).where(SessionRow.id == session_id, SessionRow.seen_at < now).values(seen_at=now)
    session.execute(statement, execution_options=_WITHOUT_SYNC)


def sessions_of(session: Session, principal_id: int, *, now: datetime, seen_after: datetime) -> Sequence[SessionRow]:
    """Return the live sessions of a person, newest first."""
    query = select(SessionRow).where(
        SessionRow.principal_id == principal_id,
        SessionRow.ended_at.is_(None),
        SessionRow.expires_at > now,
        SessionRow.seen_at > seen_after,
    )
    return session.scalars(query.order_by(SessionRow.id.desc())).all()


def end_sessions(session: Session, principal_id: int, *, now: datetime, only_id: int | None = None) -> int:
    """End the sessions of a person, or one of them. Return how many ended."""
    statement = update(SessionRow).where(SessionRow.principal_id == principal_id, SessionRow.ended_at.is_(None))
    if only_id is not None:
        statement = statement.where(SessionRow.id == only_id)
    ended = session.execute(statement.values(ended_at=now).returning(SessionRow.id), execution_options=_WITHOUT_SYNC)
    return len(ended.all())


def end_session_of_digest(session: Session, digest: str, *, now: datetime) -> None:
    """End the session of a cookie, if there is one."""
    statement = update(SessionRow).where(SessionRow.digest == digest, SessionRow.ended_at.is_(None))
    session.execute(statement.values(ended_at=now), execution_options=_WITHOUT_SYNC)


def is_device_of(session: Session, principal_id: int, device_digest: str) -> bool:
    """Whether a browser has logged in as that person."""
    query = select(SessionRow.id).where(
        SessionRow.device_digest == device_digest, SessionRow.principal_id == principal_id
    )
    return session.scalar(query.limit(1)) is not None


def delete_expired(session: Session, *, now: datetime, sessions_before: datetime) -> None:
    """Delete the words that have expired, and the sessions that expired before that time."""
    delete_expired_one_time(session, now=now)
    old = delete(SessionRow).where(SessionRow.expires_at <= sessions_before)
    session.execute(old, execution_options=_WITHOUT_SYNC)


def delete_expired_one_time(session: Session, *, now: datetime) -> None:
    """Delete the words that have expired."""
    session.execute(delete(OneTimeRow).where(OneTimeRow.expires_at <= now), execution_options=_WITHOUT_SYNC)


def person(session: Session, name: str) -> PersonRow | None:
    """Return the person with that name, with the principal, or None."""
    return session.scalar(_people().where(PrincipalRow.name == name))


def person_of_id(session: Session, principal_id: int) -> PersonRow | None:
    """Return the person of that principal, with the principal, or None."""
    return session.scalar(_people().where(PersonRow.principal_id == principal_id))


def person_of_subject(session: Session, subject: str) -> PersonRow | None:
    """Return the person whom a provider knows by that subject, with the principal, or None."""
    return session.scalar(_people().where(PersonRow.subject == subject))


def people_page(session: Session, *, after_id: int | None, limit: int) -> Sequence[PersonRow]:
    """Return people in the order in which they were made, with their principals."""
    query = _people().order_by(PersonRow.principal_id).limit(limit)
    return session.scalars(query if after_id is None else query.where(PersonRow.principal_id > after_id)).all()


def passkeys_of(session: Session, principal_id: int) -> Sequence[PasskeyRow]:
    """Return the passkeys of a person, oldest first."""
    query = select(PasskeyRow).where(PasskeyRow.principal_id == principal_id)
    return session.scalars(query.order_by(PasskeyRow.id)).all()


def passkey_of_credential(session: Session, credential_id: str) -> PasskeyRow | None:
    """Return the passkey with that credential id, or None. The row is locked until the transaction ends."""
    return session.scalar(select(PasskeyRow).where(PasskeyRow.credential_id == credential_id).with_for_update())


def delete_passkeys(session: Session, principal_id: int, *, only_id: int | None = None) -> list[str]:
    """Delete the passkeys of a person, or one of them. Return their names."""
    statement = delete(PasskeyRow).where(PasskeyRow.principal_id == principal_id)
    if only_id is not None:
        statement = statement.where(PasskeyRow.id == only_id)
    return list(session.scalars(statement.returning(PasskeyRow.name), execution_options=_WITHOUT_SYNC))


def number_of_one_time(session: Session, kind: str) -> int:
    """Return how many unused words of a kind there are."""
    return session.scalar(select(func.count()).select_from(OneTimeRow).where(OneTimeRow.kind == kind)) or 0


def one_time(session: Session, digest: str, *, kind: str, now: datetime) -> OneTimeRow | None:
    """Return the word, unless it has expired."""
    query = select(OneTimeRow).where(OneTimeRow.digest == digest, OneTimeRow.kind == kind, OneTimeRow.expires_at > now)
    return session.scalar(query)


def use_one_time(session: Session, digest: str, *, kind: str, now: datetime) -> tuple[int | None, str] | None:
    """Delete the word, and return its principal and details. None if it was used, has expired, or was never made."""
    statement = delete(OneTimeRow).where(
        OneTimeRow.digest == digest, OneTimeRow.kind == kind, OneTimeRow.expires_at > now
    )
    found = session.execute(
        statement.returning(OneTimeRow.principal_id, OneTimeRow.details), execution_options=_WITHOUT_SYNC
    ).first()
    return None if found is None else (found[0], found[1])


def delete_one_time(session: Session, principal_id: int, *, kind: str) -> None:
    """Delete the words of a kind that belong to a person."""
    statement = delete(OneTimeRow).where(OneTimeRow.principal_id == principal_id, OneTimeRow.kind == kind)
    session.execute(statement, execution_options=_WITHOUT_SYNC)


def _people() -> Select[PersonRow]:
    return select(PersonRow).join(PersonRow.principal).options(contains_eager(PersonRow.principal))
