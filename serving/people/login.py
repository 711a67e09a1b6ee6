# SPDX-License-Identifier: MIT
"""Log-in by password, and the limits on attempts.

    failed attempts           limit            who is counted
    from an address           10 in 5 min      the address, or the /64 network of an IPv6 address
    for a name                30 in 5 min      all browsers that have never logged in as that person
    of a known browser        10 in 5 min      a browser that has logged in as the person before (its device cookie)

A known browser is not counted with the others and not blocked with them. So nobody can lock a person out of the own
browser by guessing. One address cannot reach the limit of a name, and a name is free again after five minutes at most.
Passkeys and the provider are not limited by name, because they cannot be guessed.

An attempt is counted before the password is checked, and taken back if it was right: attempts at the same time cannot
exceed the limit together. The answer is the same whether the person does not exist, is disabled, has no password, or
has another one, and it takes the same time.

Limits: each process counts for itself, and forgets its counts when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.attempts import Attempts
from serving.access.grants import Caller, Grant
from serving.context import Context
from serving.errors import LogInRefusedError, TooManyAttemptsError
from serving.people import repository, service
from serving.people.passwords import Passwords
from serving.people.sessions import Browser, NewSession
from serving.people.words import digest_text

WINDOW_S = 300.0
MAX_FROM_ADDRESS = 10
MAX_FOR_NAME = 30
_AUDIT_EVERY_S = 600.0
_MAX_NAMES = 10_000
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NOBODY = -1
_ANONYMOUS = Grant("anonymous", frozenset())

_log = logging.getLogger(__name__)


class _Known(NamedTuple):
    """What is stored of a name: None and False where there is no such person."""

    principal_id: int | None
    password_hash: str | None
    must_change: bool
    is_own_browser: bool


@dataclass
class _Failures:
    """Failed attempts of a person: since the last log-in, and since the last row of the audit log."""

    since_log_in: int = 0
    since_row: int = 0
    row_at_s: float = -math.inf


class LogIns:
    """Checks passwords, and counts failed attempts. All methods belong to the event loop."""

    def __init__(self, context: Context, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._monotonic = monotonic
        self._addresses = Attempts(max_refused=MAX_FROM_ADDRESS, window_s=WINDOW_S, monotonic=monotonic)
        self._names = Attempts(max_refused=MAX_FOR_NAME, window_s=WINDOW_S, key_of=str, monotonic=monotonic)
        self._browsers = Attempts(max_refused=MAX_FROM_ADDRESS, window_s=WINDOW_S, key_of=str, monotonic=monotonic)
        # By name; by "" for names that no person has, so that texts of strangers are neither kept nor logged.
        self._failures: dict[str, _Failures] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def by_password(
        self, name: str, password: str, browser: Browser, *, request_id: str | None
    ) -> NewSession | str:
        """Return the new session of a person, or the word of a set-up link if the password must be changed first.

        Raises:
            LogInRefusedError: there is no such person with that password.
            TooManyAttemptsError: too many attempts have failed.
            BusyError: too many passwords are being checked.
        """
        # Another text is nobody's name, and not every database can search for it.
        name = name if _NAME.fullmatch(name) else ""
        known = await self._context.read(_known, name, browser.device_word)
        counted = self._begin_attempt(name, known, browser)
        passwords = self._context.part(Passwords)
        if not await passwords.verify(known.password_hash, password):
            self.note_failure(name if known.principal_id is not None else None, browser, request_id=request_id)
            raise LogInRefusedError
        assert known.principal_id is not None and known.password_hash is not None  # noqa: S101, PT018 - by `verify`
        new_hash = await passwords.hash(password) if passwords.is_outdated(known.password_hash) else None
        found = await self._context.write(
            self._logged_in, known, browser, name=name, request_id=request_id, new_hash=new_hash
        )
        for attempts, key in counted:
            attempts.taken_back(key)
        self._failures.pop(name, None)
        return found

    async def confirm(self, caller: Caller, password_hash: str | None, password: str) -> None:
        """Check the password of a person who is logged in once more.

        Raises:
            LogInRefusedError: it is another one.
            TooManyAttemptsError: too many attempts of the session have failed.
            BusyError: too many passwords are being checked.
        """
        key = f"session {caller.grant.session_id}"
        _require_unblocked([(self._browsers, key)])
        self._browsers.refused(key)
        if not await self._context.part(Passwords).verify(password_hash, password):
            raise LogInRefusedError("expected the present password, got another; enter it again")
        self._browsers.taken_back(key)

    def require_unblocked(self, browser: Browser) -> None:
        """Check that the address may try to log in. Raises TooManyAttemptsError."""
        _require_unblocked([(self._addresses, browser.address)])

    def note_failure(self, name: str | None, browser: Browser, *, request_id: str | None) -> None:
        """Count a failed attempt for the audit log, which gets a row at most every 10 minutes for a person.

        name: None for an attempt that names no person. The answer does not wait for the row, so that its time does not
        tell whether one is written.
        """
        if name is not None and name not in self._failures and len(self._failures) >= _MAX_NAMES:
            del self._failures[next(iter(self._failures))]
        failures = self._failures.setdefault(name or "", _Failures())
        failures.since_log_in += 1
        failures.since_row += 1
        if self._monotonic() - failures.row_at_s < _AUDIT_EVERY_S:
            return
        failures.row_at_s, n_failed, failures.since_row = self._monotonic(), failures.since_row, 0
        caller = Caller(_ANONYMOUS, request_id, browser.address)
        target = "unknown person" if name is None else f"person {name}"
        now = self._context.clock()

        def write(session: Session) -> None:
            audit.record(session, by=caller, action="fail-log-in", target=target, now=now, attempts=n_failed)

        writing = asyncio.get_running_loop().create_task(self._context.write(write))
        self._writing.add(writing)
        writing.add_done_callback(self._written)

    async def written(self) -> None:
        """Wait until all rows of failed attempts are written."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _written(self, writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            _log.warning("failed attempts to log in are not in the audit log: %s", error)

    def note_refused_proof(self, browser: Browser, *, request_id: str | None) -> None:
        """Count an attempt with a passkey or by the provider that failed."""
        self._addresses.refused(browser.address)
        self.note_failure(None, browser, request_id=request_id)

    def _begin_attempt(self, name: str, known: _Known, browser: Browser) -> list[tuple[Attempts, str | None]]:
        """Count an attempt, and return where. Raises TooManyAttemptsError."""
        counted: list[tuple[Attempts, str | None]]
        if known.is_own_browser:
            counted = [(self._browsers, browser.device_word)]
        else:
            counted = [(self._addresses, browser.address), (self._names, name)]
        _require_unblocked(counted)
        for attempts, key in counted:
            attempts.refused(key)
        return counted

    def _logged_in(
        self,
        session: Session,
        known: _Known,
        browser: Browser,
        *,
        name: str,
        request_id: str | None,
        new_hash: str | None,
    ) -> NewSession | str:
        assert known.principal_id is not None  # noqa: S101 - by `by_password`
        now: datetime = self._context.clock()
        if known.must_change:
            row = repository.person_of_id(session, known.principal_id)
            if row is None or row.password_hash != known.password_hash or row.principal.disabled_at is not None:
                raise LogInRefusedError
            return service.set_up_word(session, row, now=now)
        failures = self._failures.get(name)
        return service.log_in(
            session,
            known.principal_id,
            browser,
            method="password",
            request_id=request_id,
            settings=self._context.settings,
            now=now,
            n_failed=0 if failures is None else failures.since_log_in,
            verified_hash=known.password_hash,
            new_hash=new_hash,
        )


def _known(session: Session, name: str, device_word: str | None) -> _Known:
    row = repository.person(session, name)
    if row is not None and row.principal.disabled_at is not None:
        row = None
    # The query is made for unknown names, too, so that the time does not tell them.
    person_id = _NOBODY if row is None else row.principal_id
    is_own = device_word is not None and repository.is_device_of(session, person_id, digest_text(device_word))
    if row is None:
        return _Known(None, None, must_change=False, is_own_browser=False)
    return _Known(row.principal_id, row.password_hash, must_change=row.must_change, is_own_browser=is_own)


def _require_unblocked(counted: list[tuple[Attempts, str | None]]) -> None:
    blocked_s = max(attempts.blocked_s(key) for attempts, key in counted)
    if blocked_s > 0:
        raise TooManyAttemptsError(
            "expected fewer attempts to log in that fail; wait before you try again, or use a passkey or a browser in "
            "which you have logged in before",
            retry_after_s=math.ceil(blocked_s),
        )
