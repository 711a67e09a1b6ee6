# SPDX-License-Identifier: MIT
"""Rules for the accounts of people.

- A person is a principal of kind `human`, which may have tokens besides. Disabling the principal ends its sessions.
- A new person, and one whose account is reset, gets a set-up link that works once and for three days, or a password
  from an administrator that serves only to choose another one.
- A change of the role, a reset and a new password end all sessions of the person. Whoever changes the own password
  continues in a new session.
- Nobody changes the own role, and nobody resets or disables the own account, so that no mistake locks out the last
  administrator.
- Every change leaves a row in the audit log, in the same transaction.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access import repository as access_repository
from serving.access import service as access_service
from serving.access.grants import ROLES, Caller, Grant, Role
from serving.database import OneTimeRow, PasskeyRow, PersonRow, PrincipalRow
from serving.errors import (
    LogInRefusedError,
    OneselfError,
    PasskeyNotFoundError,
    PersonExistsError,
    PersonNotFoundError,
    PrincipalConflictError,
    SetUpLinkError,
)
from serving.people import repository, sessions
from serving.people.sessions import Browser, NewSession
from serving.people.words import digest_text, new_word
from serving.settings import ServingSettings

SET_UP = "set-up"
SET_UP_S = 3 * 86_400


def caller_for(person: PersonRow, *, request_id: str | None, address: str | None) -> Caller:
    """Return the caller who has proved to be the person."""
    role: Role = person.role  # type: ignore[assignment]  # only roles are stored
    return caller_named(person.principal.name, role, request_id=request_id, address=address)


def caller_named(name: str, role: Role, *, request_id: str | None, address: str | None) -> Caller:
    """Return the caller of a person with that name and role."""
    return Caller(Grant(name, frozenset(ROLES[role]), kind="human", role=role), request_id, address)


def add_person(
    session: Session,
    name: str,
    role: Role,
    *,
    password_hash: str | None = None,
    must_change: bool = True,
    subject: str | None = None,
    by: Caller,
    now: datetime,
) -> PersonRow:
    """Make an account, and its principal if there is none.

    Raises:
        PersonExistsError: there is an account of that name.
        PrincipalConflictError: the principal is disabled, or no human.
    """
    access_repository.next_access_version(session)
    # A provider's users may choose their names there, so they must not become a principal that exists here.
    if subject is not None and access_repository.principal(session, name) is not None:
        raise PersonExistsError(f"expected a name that nobody has here, got {name}; ask an administrator")
    principal = access_service.principal_for(session, name, "human", by=by, now=now)
    if repository.person_of_id(session, principal.id) is not None:
        raise PersonExistsError(f"expected the name of a new person, got {name}, who has an account; use another name")
    row = PersonRow(
        principal=principal,
        handle=secrets.token_hex(32),
        role=role,
        password_hash=password_hash,
        must_change=password_hash is not None and must_change,
        subject=subject,
        created_at=now,
    )
    session.add(row)
    _record(session, row, "create-person", by=by, now=now, role=role, by_provider=subject is not None)
    session.flush()
    return row


def make_admin(session: Session, name: str, password_hash: str, *, by: Caller, now: datetime) -> None:
    """Make a person with the role admin, or give an existing one this role and password.

    Raises PrincipalConflictError: the principal of that name is disabled, or no human.
    """
    row = repository.person(session, name)
    if row is None:
        add_person(session, name, "admin", password_hash=password_hash, must_change=False, by=by, now=now)
        return
    _renew(session, row, password_hash, by=by, now=now)
    row.must_change = False
    set_role(session, name, "admin", by=by, now=now)


def set_up_word(session: Session, person: PersonRow, *, now: datetime) -> str:
    """Return the word of a new set-up link. Earlier links of the person are no longer accepted."""
    repository.delete_one_time(session, person.principal_id, kind=SET_UP)
    return new_one_time(session, SET_UP, now=now, lifetime_s=SET_UP_S, principal_id=person.principal_id)


def new_one_time(
    session: Session,
    kind: str,
    *,
    now: datetime,
    lifetime_s: float,
    principal_id: int | None = None,
    details: Mapping[str, object] | None = None,
) -> str:
    """Make a word that is used once, and return it."""
    word = new_word()
    session.add(
        OneTimeRow(
            digest=digest_text(word),
            kind=kind,
            principal_id=principal_id,
            details=json.dumps(dict(details or {})),
            expires_at=now + timedelta(seconds=lifetime_s),
        )
    )
    return word


def set_role(session: Session, name: str, role: Role, *, by: Caller, now: datetime) -> PersonRow:
    """Change the role of a person, whose sessions end. Raises PersonNotFoundError, OneselfError."""
    row = _other_person(session, name, by=by)
    if row.role != role:
        _record(session, row, "set-role", by=by, now=now, role=role, before=row.role)
        row.role = role
        repository.end_sessions(session, row.principal_id, now=now)
    return row


def reset(
    session: Session, name: str, *, password_hash: str | None = None, by: Caller, now: datetime
) -> tuple[PersonRow, str | None]:
    """Remove password and passkeys of a person, and end the sessions. Return the person, and the word of a set-up link.

    password_hash: of a password that serves only to choose another one, instead of a link.

    Raises:
        PersonNotFoundError, OneselfError.
        PrincipalConflictError: the person is disabled, or logs in by the provider.
    """
    row = _other_person(session, name, by=by)
    if row.subject is not None:
        raise PrincipalConflictError(f"expected a person with a password, got {name}, who logs in by the provider")
    _renew(session, row, password_hash, by=by, now=now)
    return row, None if password_hash is not None else set_up_word(session, row, now=now)


def _renew(session: Session, row: PersonRow, password_hash: str | None, *, by: Caller, now: datetime) -> None:
    if row.principal.disabled_at is not None:
        raise PrincipalConflictError(f"expected a person who is enabled, got {row.principal.name}; use another name")
    row.password_hash, row.must_change = password_hash, password_hash is not None
    repository.delete_passkeys(session, row.principal_id)
    repository.delete_one_time(session, row.principal_id, kind=SET_UP)
    repository.end_sessions(session, row.principal_id, now=now)
    _record(session, row, "reset-person", by=by, now=now)


def disable(session: Session, name: str, *, by: Caller, now: datetime) -> PrincipalRow:
    """Disable a person with all tokens and sessions. Raises PersonNotFoundError, OneselfError."""
    _other_person(session, name, by=by)
    return access_service.disable_principal(session, name, by=by, now=now)


def log_in(
    session: Session,
    principal_id: int,
    browser: Browser,
    *,
    method: str,
    request_id: str | None,
    settings: ServingSettings,
    now: datetime,
    n_failed: int = 0,
    verified_hash: str | None = None,
    new_hash: str | None = None,
) -> NewSession:
    """Begin a session of a person who has proved to be it by `method`.

    verified_hash: the hash with which the password agreed; new_hash: another one of the same password.
    Raises LogInRefusedError: the person was disabled or changed the password meanwhile.
    """
    row = repository.person_of_id(session, principal_id)
    if row is None or row.principal.disabled_at is not None:
        raise LogInRefusedError
    if verified_hash is not None and row.password_hash != verified_hash:
        raise LogInRefusedError
    if new_hash is not None:
        row.password_hash = new_hash
    new = sessions.begin(session, row, browser, settings=settings, now=now)
    row.logged_in_at = now
    by = caller_for(row, request_id=request_id, address=browser.address)
    _record(session, row, "log-in", by=by, now=now, method=method, **({"failed_before": n_failed} if n_failed else {}))
    return new


def log_out(session: Session, caller: Caller, *, now: datetime) -> None:
    """End the caller's session."""
    row = own(session, caller)
    if repository.end_sessions(session, row.principal_id, now=now, only_id=caller.grant.session_id):
        _record(session, row, "log-out", by=caller, now=now)


def end_sessions(session: Session, caller: Caller, *, only_id: int | None = None, now: datetime) -> None:
    """End all sessions of the caller, or one of them."""
    row = own(session, caller)
    n_ended = repository.end_sessions(session, row.principal_id, now=now, only_id=only_id)
    if n_ended:
        _record(session, row, "end-sessions", by=caller, now=now, sessions=n_ended)


def set_up_person(session: Session, word: str, *, now: datetime) -> PersonRow:
    """Return the person of a set-up link. Raises SetUpLinkError."""
    found = repository.one_time(session, digest_text(word), kind=SET_UP, now=now)
    row = None if found is None or found.principal_id is None else repository.person_of_id(session, found.principal_id)
    if row is None or row.principal.disabled_at is not None:
        raise SetUpLinkError
    return row


def set_up(
    session: Session,
    word: str,
    password_hash: str,
    browser: Browser,
    *,
    request_id: str | None,
    settings: ServingSettings,
    now: datetime,
) -> NewSession:
    """Set the password by a set-up link, which is used up, and begin a session. Raises SetUpLinkError."""
    row = set_up_person(session, word, now=now)
    # Of two requests at once one alone finds the word.
    if repository.use_one_time(session, digest_text(word), kind=SET_UP, now=now) is None:
        raise SetUpLinkError
    by = caller_for(row, request_id=request_id, address=browser.address)
    return _with_password(session, row, password_hash, browser, by=by, settings=settings, now=now)


def change_password(
    session: Session,
    caller: Caller,
    password_hash: str,
    browser: Browser,
    *,
    verified_hash: str | None,
    settings: ServingSettings,
    now: datetime,
) -> NewSession:
    """Change the caller's password, end the sessions, and begin another. Raises LogInRefusedError."""
    row = own(session, caller)
    if row.password_hash != verified_hash:
        raise LogInRefusedError
    return _with_password(session, row, password_hash, browser, by=caller, settings=settings, now=now)


def own(session: Session, caller: Caller) -> PersonRow:
    """Return the caller's account. Raises PersonNotFoundError, as for a caller without a session."""
    row = None if caller.grant.session_id is None else repository.person(session, caller.name)
    if row is None:
        raise PersonNotFoundError(f"expected a person who is logged in, got {caller.name}; log in at ui/login")
    return row


def add_passkey(session: Session, caller: Caller, key: PasskeyRow, *, now: datetime) -> None:
    """Keep a passkey of the caller."""
    row = own(session, caller)
    key.principal_id = row.principal_id
    session.add(key)
    _record(session, row, "add-passkey", by=caller, now=now, name=key.name)


def rename_passkey(session: Session, caller: Caller, key_id: int, name: str, *, now: datetime) -> None:
    """Give a passkey of the caller another name. Raises PasskeyNotFoundError."""
    row = own(session, caller)
    key = next((one for one in repository.passkeys_of(session, row.principal_id) if one.id == key_id), None)
    if key is None:
        raise PasskeyNotFoundError("expected one of the own passkeys, got another; open the page of the account again")
    if key.name != name:
        _record(session, row, "rename-passkey", by=caller, now=now, name=name, before=key.name)
        key.name = name


def remove_passkey(session: Session, caller: Caller, key_id: int, *, now: datetime) -> None:
    """Remove a passkey of the caller. One that is not there is removed already."""
    row = own(session, caller)
    for name in repository.delete_passkeys(session, row.principal_id, only_id=key_id):
        _record(session, row, "remove-passkey", by=caller, now=now, name=name)


def _with_password(
    session: Session,
    row: PersonRow,
    password_hash: str,
    browser: Browser,
    *,
    by: Caller,
    settings: ServingSettings,
    now: datetime,
) -> NewSession:
    row.password_hash, row.must_change, row.logged_in_at = password_hash, False, now
    repository.end_sessions(session, row.principal_id, now=now)
    repository.delete_one_time(session, row.principal_id, kind=SET_UP)
    _record(session, row, "change-password", by=by, now=now)
    return sessions.begin(session, row, browser, settings=settings, now=now)


def _other_person(session: Session, name: str, *, by: Caller) -> PersonRow:
    row = repository.person(session, name)
    if row is None:
        raise PersonNotFoundError(f"expected the name of a person, got {name}; `ccatune people list` shows them")
    if by.grant.session_id is not None and by.name == name:
        raise OneselfError("expected another person than the caller; ask another administrator")
    return row


def _record(session: Session, row: PersonRow, action: str, *, by: Caller, now: datetime, **details: object) -> None:
    audit.record(session, by=by, action=action, target=f"person {row.principal.name}", now=now, **details)
