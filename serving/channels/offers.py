# SPDX-License-Identifier: MIT
"""The answers to agents, one for each channel, kept in memory.

An answer is read from the database when it is first needed after a move. Every agent then receives the same bytes.

    a long poll with the cached ETag     held without a query; the watch ends the wait after a move
    a long poll with an older serial     the cached answer, without a query
    any other request                    the answer as of a query that begins after the request arrived
    a long poll of an absent channel     held until its first deployment, after one query; then 404
    a long poll with a tag of a channel  404 at once: the channel was deleted
      that is absent

A cached answer is used until its signatures change: at the end of their step (see signing.py), or after a new root
document or signature. This ends no held poll. The agent receives the new answer with its next poll.

Requests that need a query share the next one. A long poll can therefore miss a move by another process for at most
`recheck_ms`. It never receives a serial older than the one that its ETag names.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass

from sqlalchemy.orm import Session

from serving.channels import service
from serving.channels.schemas import DeploymentRead
from serving.channels.signing import OfferSigner
from serving.channels.watch import SIGNED_ROWS, ChannelKey, ChannelWatch, Poll
from serving.context import Context
from serving.errors import ChannelNotFoundError
from serving.http.etags import matches_weakly
from serving.http.protocol import Connection
from serving.roots import repository as roots

# Only channels that exist are kept. The bound is far above the number of channels of any registry.
_MAX_CACHED = 1024
# The form of this registry's ETags: see `service.etag_of`.
_ETAG = re.compile(r'"([^":]+):([0-9]{1,19}):[^"]*"')


@dataclass(frozen=True, slots=True)
class Offer:
    """A channel's answer: the current deployment with its ensemble and the signatures of both, as JSON.

    issued_s: the step of the registry's signature, 0 without one.
    n_signed_rows: how many root documents and signatures the database had when they were read.
    """

    serial: int
    etag: str
    body: bytes
    issued_s: int
    n_signed_rows: int


class Offers:
    """The cached answers of one registry. All methods belong to the event loop."""

    def __init__(self, context: Context, *, watch: ChannelWatch, signer: OfferSigner) -> None:
        self.signer = signer
        self._context = context
        self._watch = watch
        self._cached: dict[ChannelKey, Offer] = {}
        # For each channel, the requests that wait for its next query, and the task that runs its queries.
        self._requests: dict[ChannelKey, list[asyncio.Future[Offer]]] = {}
        self._queries: dict[ChannelKey, asyncio.Task[None]] = {}

    async def follow(
        self, key: ChannelKey, *, if_none_match: str | None, wait_s: float, connection: Connection | None
    ) -> tuple[Offer, bool]:
        """Return the channel's answer, and whether `if_none_match` still names it when the wait is over.

        A disconnected client ends the wait. Raises ChannelNotFoundError if nothing is deployed when the wait is over,
        BusyError.
        """
        deadline_s = asyncio.get_running_loop().time() + wait_s
        while True:
            # The serial is read before the query, so that a deployment after the query ends the wait.
            known_serial = self._watch.serial_of(key)
            try:
                return await self._follow_deployed(key, if_none_match, deadline_s=deadline_s, connection=connection)
            except ChannelNotFoundError as error:
                absence = str(error)
            # Only the waiting polls themselves remember a name that has no channel, so invented names occupy nothing.
            left_s = 0.0 if if_none_match is not None else deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self._wait(key, serial=known_serial, timeout_s=left_s, connection=connection):
                raise ChannelNotFoundError(absence)

    async def _follow_deployed(
        self, key: ChannelKey, if_none_match: str | None, *, deadline_s: float, connection: Connection | None
    ) -> tuple[Offer, bool]:
        loop = asyncio.get_running_loop()
        offer = self._for_poll(key, if_none_match) if deadline_s > loop.time() else None
        while True:
            known_serial = 0
            if offer is None:
                known_serial = self._watch.serial_of(key)
                offer = await self.current(key)
            if not matches_weakly(if_none_match, offer.etag):
                return offer, False
            left_s = deadline_s - loop.time()
            # The query began after `known_serial` was announced, so a poll need not wake for that serial again.
            serial = max(known_serial, offer.serial)
            if left_s <= 0 or not await self._wait(key, serial=serial, timeout_s=left_s, connection=connection):
                return offer, True
            offer = self._since(key, self._watch.serial_of(key))

    async def current(self, key: ChannelKey) -> Offer:
        """Return the channel's answer as of a query that begins after this call. Raises ChannelNotFoundError."""
        loop = asyncio.get_running_loop()
        request: asyncio.Future[Offer] = loop.create_future()
        self._requests.setdefault(key, []).append(request)
        if key not in self._queries:
            self._queries[key] = loop.create_task(self._answer_requests(key))
        return await request

    def _for_poll(self, key: ChannelKey, if_none_match: str | None) -> Offer | None:
        """Return the cached answer if a long poll may have it without a query, else None."""
        offer = self._since(key, self._watch.serial_of(key))
        if offer is None or if_none_match is None:
            return None
        known = _ETAG.fullmatch(if_none_match)
        is_older = known is not None and known[1] == self._context.registry and int(known[2]) < offer.serial
        return offer if is_older or matches_weakly(if_none_match, offer.etag) else None

    def _since(self, key: ChannelKey, serial: int) -> Offer | None:
        offer = self._cached.get(key)
        if offer is None or offer.serial < serial or offer.issued_s != self.signer.issued_s():
            return None
        return offer if offer.n_signed_rows >= self._watch.serial_of(SIGNED_ROWS) else None

    async def _wait(self, key: ChannelKey, *, serial: int, timeout_s: float, connection: Connection | None) -> bool:
        def leave_when_lost(poll: Poll) -> None:
            if connection is not None:
                connection.on_lost = poll.leave

        try:
            return await self._watch.wait(key, serial=serial, timeout_s=timeout_s, on_start=leave_when_lost)
        finally:
            if connection is not None:
                connection.on_lost = None

    async def _answer_requests(self, key: ChannelKey) -> None:
        try:
            while requests := self._requests.pop(key, []):
                try:
                    offer = await self._query(key)
                except Exception as error:
                    for request in requests:
                        if not request.done():
                            request.set_exception(error)
                else:
                    for request in requests:
                        if not request.done():
                            request.set_result(offer)
        finally:
            del self._queries[key]
            self._requests.pop(key, None)

    async def _query(self, key: ChannelKey) -> Offer:
        cached = self._cached.get(key)
        offer = await self._context.read(self._read, key, cached)
        if key not in self._cached and len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = offer
        return offer

    def _read(self, session: Session, key: ChannelKey, cached: Offer | None) -> Offer:
        cca, name = key
        issued_s = self.signer.issued_s()
        # This is read first: a row that is added meanwhile makes the answer look older than it is.
        n_signed_rows = roots.n_signed_rows(session)
        if cached is not None and (cached.issued_s, cached.n_signed_rows) == (issued_s, n_signed_rows):
            row = service.current(session, cca=cca, name=name)
            if row.serial == cached.serial:
                return cached
        row, document = service.current_with_document(session, cca=cca, name=name)
        signatures = self.signer.signatures(session, row, issued_s=issued_s)
        head = json.dumps(DeploymentRead.of(row, registry=self._context.registry).model_dump(mode="json"))
        # The document is JSON already, so it is inserted as text. Parsing and encoding it would dominate the cost.
        body = f'{head[:-1]}, "signatures": {signatures.text}, "ensemble": {document}}}'.encode()
        etag = service.etag_of(row, registry=self._context.registry, signatures_tag=signatures.tag)
        return Offer(row.serial, etag, body, issued_s, n_signed_rows)
