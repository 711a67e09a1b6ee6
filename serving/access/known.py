# SPDX-License-Identifier: MIT
"""The live tokens, in memory: a request costs one SHA-256 and one look-up in a dictionary.

Each change of a token has the next version number (`RegistryRow.access_version`). One query therefore finds all
changes since the last one. Until the first query no token is known.

    younger than `refresh_s` / 2    the tokens in memory decide
    younger than `refresh_s`        they decide, and a query begins in the background
    older                           requests wait for a query, which they share
    a token that is not in memory   its request waits for a query: another process may have made the token just now

A change by this process is followed by `refresh`, so it takes effect at once. A revocation by another process takes
effect within `refresh_s`, and before a held request receives an answer. The expiry of a token is compared with the
clock at each use. A query drops the tokens that have expired, at most once a minute, from memory. If the clock was set
back since a query, the next query therefore reads all tokens, because some that had expired by the wrong time may be
valid.

Limits: the memory grows with the tokens that are neither revoked nor expired, by about 0.5 KiB each.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable
from datetime import datetime

from serving.access import repository
from serving.access.grants import Grant
from serving.access.repository import ChangedToken
from serving.access.token_text import digest_of
from serving.context import Context
from serving.errors import NotAuthenticatedError

_USES_INTERVAL_S = 300.0
_USES_BATCH = 500
_RETRY_S = 1.0
_DROP_INTERVAL_S = 60.0

_log = logging.getLogger(__name__)


class KnownTokens:
    """The tokens of one registry. All methods belong to the event loop."""

    def __init__(self, context: Context, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._refresh_s = context.settings.token_cache_s
        self._monotonic = monotonic
        self._grants: dict[bytes, Grant] = {}
        self._version = 0
        # The time of the last query, by the clock with which tokens expire.
        self._queried_at: datetime | None = None
        # From these times on a query begins in the background, and requests wait for a query.
        self._renew_at_s = self._stale_at_s = float("-inf")
        self._write_uses_at_s = monotonic() + _USES_INTERVAL_S
        self._drop_expired_at_s = monotonic() + _DROP_INTERVAL_S
        self._waiting: list[asyncio.Future[None]] = []
        self._queries: asyncio.Task[None] | None = None
        self._uses: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The number of tokens in memory."""
        return len(self._grants)

    @property
    def is_fresh(self) -> bool:
        """Whether the last query is younger than `refresh_s`."""
        return self._monotonic() < self._stale_at_s

    def find(self, text: bytes) -> Grant | None:
        """Return the grant of a token, or None if the tokens in memory do not accept it or are too old to decide."""
        now_s = self._monotonic()
        if now_s >= self._renew_at_s:
            if now_s >= self._stale_at_s:
                return None
            self._renew(now_s)
        return self._accepted(text)

    async def find_after_query(self, text: bytes) -> Grant | None:
        """Return the grant of a token as of a query that begins after this call, or None.

        Raises:
            SQLAlchemyError, BusyError: the database does not answer.
        """
        await self.refresh()
        return self._accepted(text)

    async def refresh(self) -> None:
        """Read the changes by a query that begins after this call.

        Raises:
            SQLAlchemyError, BusyError: the database does not answer.
        """
        await self._next_query()

    async def require_live(self, grant: Grant) -> None:
        """Check, as of a query that begins after this call, that the token of a held request is still accepted.

        Raises:
            NotAuthenticatedError: the token was revoked, by any process, or it has expired.
            SQLAlchemyError, BusyError: the database does not answer.
        """
        if grant.token_id is None:
            return
        await self.refresh()
        if grant.is_revoked or self._has_expired(grant):
            raise NotAuthenticatedError(
                "expected a token that is accepted until the answer, got one revoked or expired meanwhile"
            )

    async def write_uses(self) -> None:
        """Write the time of the last use of each token that was used since the last call."""
        used = [grant for grant in self._grants.values() if grant.is_used]
        for begin in range(0, len(used), _USES_BATCH):
            batch = used[begin : begin + _USES_BATCH]
            ids = [grant.row_id for grant in batch if grant.row_id is not None]
            await self._context.write(repository.write_last_use, ids, now=self._context.clock())
            for grant in batch:
                grant.is_used = False

    def _accepted(self, text: bytes) -> Grant | None:
        grant = self._grants.get(digest_of(text))
        if grant is None or self._has_expired(grant):
            return None
        grant.is_used = True
        return grant

    def _has_expired(self, grant: Grant) -> bool:
        return grant.expires_at is not None and self._context.clock() >= grant.expires_at

    def _next_query(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiting)
        if self._queries is None or self._queries.done():
            self._queries = loop.create_task(self._answer_waiting())
        return waiting

    def _renew(self, now_s: float) -> None:
        # A query that fails is tried again after this time, and by requests once the tokens are too old.
        self._renew_at_s = now_s + _RETRY_S
        self._next_query().add_done_callback(_log_failure)
        if now_s >= self._write_uses_at_s and (self._uses is None or self._uses.done()):
            self._write_uses_at_s = now_s + _USES_INTERVAL_S
            self._uses = asyncio.get_running_loop().create_task(self.write_uses())
            self._uses.add_done_callback(_log_failure)

    async def _answer_waiting(self) -> None:
        waiting: list[asyncio.Future[None]] = []
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                begin_s = self._monotonic()
                self._note_time()
                try:
                    self._apply(await self._context.read(repository.tokens_changed_since, self._version))
                    self._drop_expired()
                except Exception as error:
                    for one in waiting:
                        if not one.done():
                            one.set_exception(error)
                    continue
                self._renew_at_s = begin_s + self._refresh_s / 2
                self._stale_at_s = begin_s + self._refresh_s
                for one in waiting:
                    if not one.done():
                        one.set_result(None)
        finally:
            for one in (*waiting, *self._waiting):
                with contextlib.suppress(RuntimeError):
                    one.cancel()
            self._waiting = []

    def _note_time(self) -> None:
        now = self._context.clock()
        if self._queried_at is not None and now < self._queried_at:
            self._version = 0
        self._queried_at = now

    def _apply(self, rows: list[ChangedToken]) -> None:
        for row in rows:
            digest = bytes.fromhex(row.digest)
            self._version = max(self._version, row.version)
            known = self._grants.pop(digest, None)
            if row.is_revoked:
                if known is not None:
                    known.is_revoked = True
                continue
            grant = known or _grant_of(row)
            # One that is in memory stays, because held requests may have it and must notice its revocation.
            if known is not None or not self._has_expired(grant):
                self._grants[digest] = grant

    def _drop_expired(self) -> None:
        if self._monotonic() < self._drop_expired_at_s:
            return
        self._drop_expired_at_s = self._monotonic() + _DROP_INTERVAL_S
        now = self._context.clock()
        for digest, grant in list(self._grants.items()):
            # The time of the last use is written first.
            if grant.expires_at is not None and now >= grant.expires_at and not grant.is_used:
                # A held request may have it, and would not notice its revocation if the clock were set back.
                grant.is_revoked = True
                del self._grants[digest]


def _grant_of(row: ChangedToken) -> Grant:
    return Grant(
        principal=row.principal,
        kind=row.kind,
        row_id=row.row_id,
        token_id=row.token_id,
        scopes=_words(row.scopes),
        ccas=None if row.ccas is None else _words(row.ccas),
        channels=None if row.channels is None else _words(row.channels),
        agent_id=row.agent_id,
        expires_at=row.expires_at,
    )


@functools.lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    # Thousands of agents' tokens share few different texts.
    return frozenset(text.split())


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.warning("the tokens could not be read or written: %s", done.exception())
