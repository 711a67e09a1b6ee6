# SPDX-License-Identifier: MIT
"""The answers to agents, one for each channel and arm of a roll-out, kept in memory.

An answer is read from the database when it is first needed after a change of the channel. Every agent then receives the
same bytes. During a roll-out there are two answers, and the agent's id decides which one it receives.

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

from serving.channels import repository, service
from serving.channels.schemas import DeploymentRead
from serving.channels.signing import OfferSigner
from serving.channels.watch import SIGNED_ROWS, ChannelKey, ChannelWatch, Poll
from serving.context import Context
from serving.database import DeploymentRow
from serving.errors import BusyError, ChannelNotFoundError
from serving.http.etags import matches_weakly
from serving.http.protocol import Connection
from serving.rollouts import repository as rollouts
from serving.rollouts.standing import n_treated
from serving.roots import repository as roots

# Only channels that exist are kept. The bound is far above the number of channels of any registry.
_MAX_CACHED = 1024
# A channel that changes while it is read is read again, so often at most.
_MOST_READS = 20
# The form of this registry's ETags: see `service.etag_of`.
_ETAG = re.compile(r'"([^":]+):([0-9]{1,19}):[^"]*"')


@dataclass(frozen=True, slots=True)
class Offer:
    """An answer: a deployment with its ensemble and the signatures of both, as JSON."""

    serial: int
    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ChannelOffers:
    """A channel's answers as of its revision. candidate: for the agents in `candidates`, during a roll-out.

    issued_s: the step of the registry's signature, 0 without one.
    n_signed_rows: how many root documents and signatures the database had when they were read.
    """

    revision: int
    current: Offer
    issued_s: int
    n_signed_rows: int
    candidate: Offer | None = None
    candidates: frozenset[str] = frozenset()

    def of(self, agent_id: str | None) -> Offer:
        """Return the answer to this agent."""
        return self.candidate if self.candidate is not None and agent_id in self.candidates else self.current


class Offers:
    """The cached answers of one registry. All methods belong to the event loop."""

    def __init__(self, context: Context, *, watch: ChannelWatch, signer: OfferSigner) -> None:
        self.signer = signer
        self._context = context
        self._watch = watch
        self._cached: dict[ChannelKey, ChannelOffers] = {}
        # For each channel, the requests that wait for its next query, and the task that runs its queries.
        self._requests: dict[ChannelKey, list[asyncio.Future[ChannelOffers]]] = {}
        self._queries: dict[ChannelKey, asyncio.Task[None]] = {}

    async def follow(
        self,
        key: ChannelKey,
        *,
        agent_id: str | None = None,
        if_none_match: str | None,
        wait_s: float,
        connection: Connection | None,
    ) -> tuple[Offer, bool]:
        """Return the channel's answer to the agent, and whether `if_none_match` still names it when the wait is over.

        A disconnected client ends the wait. Raises ChannelNotFoundError if nothing is deployed when the wait is over,
        BusyError.
        """
        deadline_s = asyncio.get_running_loop().time() + wait_s
        while True:
            # The revision is read before the query, so that a deployment after the query ends the wait.
            known = self._watch.serial_of(key)
            try:
                return await self._follow_deployed(
                    key, agent_id, if_none_match, deadline_s=deadline_s, connection=connection
                )
            except ChannelNotFoundError as error:
                absence = str(error)
            # Only the waiting polls themselves remember a name that has no channel, so invented names occupy nothing.
            left_s = 0.0 if if_none_match is not None else deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self._wait(key, revision=known, timeout_s=left_s, connection=connection):
                raise ChannelNotFoundError(absence)

    async def _follow_deployed(
        self,
        key: ChannelKey,
        agent_id: str | None,
        if_none_match: str | None,
        *,
        deadline_s: float,
        connection: Connection | None,
    ) -> tuple[Offer, bool]:
        loop = asyncio.get_running_loop()
        offers = self._for_poll(key, agent_id, if_none_match) if deadline_s > loop.time() else None
        while True:
            known = 0
            if offers is None:
                known = self._watch.serial_of(key)
                offers = await self.current(key)
            offer = offers.of(agent_id)
            if not matches_weakly(if_none_match, offer.etag):
                return offer, False
            left_s = deadline_s - loop.time()
            # The query began after `known` was announced, so a poll need not wake for that revision again.
            revision = max(known, offers.revision)
            if left_s <= 0 or not await self._wait(key, revision=revision, timeout_s=left_s, connection=connection):
                return offer, True
            offers = self._since(key, self._watch.serial_of(key))

    async def current(self, key: ChannelKey) -> ChannelOffers:
        """Return the channel's answers as of a query that begins after this call. Raises ChannelNotFoundError."""
        loop = asyncio.get_running_loop()
        request: asyncio.Future[ChannelOffers] = loop.create_future()
        self._requests.setdefault(key, []).append(request)
        if key not in self._queries:
            self._queries[key] = loop.create_task(self._answer_requests(key))
        return await request

    def _for_poll(self, key: ChannelKey, agent_id: str | None, if_none_match: str | None) -> ChannelOffers | None:
        """Return the cached answers if a long poll may have its one without a query, else None."""
        offers = self._since(key, self._watch.serial_of(key))
        if offers is None or if_none_match is None:
            return None
        offer = offers.of(agent_id)
        known = _ETAG.fullmatch(if_none_match)
        is_older = known is not None and known[1] == self._context.registry and int(known[2]) < offer.serial
        return offers if is_older or matches_weakly(if_none_match, offer.etag) else None

    def _since(self, key: ChannelKey, revision: int) -> ChannelOffers | None:
        offers = self._cached.get(key)
        if offers is None or offers.revision < revision or offers.issued_s != self.signer.issued_s():
            return None
        return offers if offers.n_signed_rows >= self._watch.serial_of(SIGNED_ROWS) else None

    async def _wait(self, key: ChannelKey, *, revision: int, timeout_s: float, connection: Connection | None) -> bool:
        def leave_when_lost(poll: Poll) -> None:
            if connection is not None:
                connection.on_lost = poll.leave

        try:
            return await self._watch.wait(key, serial=revision, timeout_s=timeout_s, on_start=leave_when_lost)
        finally:
            if connection is not None:
                connection.on_lost = None

    async def _answer_requests(self, key: ChannelKey) -> None:
        try:
            while requests := self._requests.pop(key, []):
                try:
                    offers = await self._query(key)
                except Exception as error:
                    for request in requests:
                        if not request.done():
                            request.set_exception(error)
                else:
                    for request in requests:
                        if not request.done():
                            request.set_result(offers)
        finally:
            del self._queries[key]
            self._requests.pop(key, None)

    async def _query(self, key: ChannelKey) -> ChannelOffers:
        cached = self._cached.get(key)
        offers = await self._context.read(self._read, key, cached)
        if key not in self._cached and len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = offers
        return offers

    def _read(self, session: Session, key: ChannelKey, cached: ChannelOffers | None) -> ChannelOffers:
        cca, name = key
        issued_s = self.signer.issued_s()
        # This is read first: a row that is added meanwhile makes the answer look older than it is.
        n_signed_rows = roots.n_signed_rows(session)
        if cached is not None and (cached.issued_s, cached.n_signed_rows) == (issued_s, n_signed_rows):
            row = service.current(session, cca=cca, name=name)
            if row.channel.revision == cached.revision:
                return cached
        for _ in range(_MOST_READS):
            offers = self._offers_of(session, key, issued_s=issued_s, n_signed_rows=n_signed_rows)
            # On PostgreSQL each query sees what is committed by then. A roll-out that ends between two of them would
            # give a server of the candidate the baseline, whose serial is older.
            if offers.revision == repository.revision(session, cca=cca, name=name):
                return offers
            session.rollback()
        raise BusyError(f"{cca}/{name}: expected a channel that rests while it is read, it changed {_MOST_READS} times")

    def _offers_of(self, session: Session, key: ChannelKey, *, issued_s: int, n_signed_rows: int) -> ChannelOffers:
        cca, name = key
        row, document = service.current_with_document(session, cca=cca, name=name)
        revision = row.channel.revision
        current = self._offer(session, row, document, issued_s=issued_s)
        candidate, candidates = None, frozenset[str]()
        rollout = rollouts.find_open(session, channel_id=row.channel_id)
        if rollout is not None and rollout.baseline_serial == row.serial:
            found = repository.with_document(session, channel_id=row.channel_id, serial=rollout.candidate_serial)
            if found is not None:
                candidate = self._offer(session, *found, issued_s=issued_s)
                candidates = rollouts.candidates(session, rollout.id, number=n_treated(rollout))
        return ChannelOffers(revision, current, issued_s, n_signed_rows, candidate, candidates)

    def _offer(self, session: Session, row: DeploymentRow, document: str, *, issued_s: int) -> Offer:
        signatures = self.signer.signatures(session, row, issued_s=issued_s)
        head = json.dumps(DeploymentRead.of(row, registry=self._context.registry).model_dump(mode="json"))
        # The document is JSON already, so it is inserted as text. Parsing and encoding it would dominate the cost.
        body = f'{head[:-1]}, "signatures": {signatures.text}, "ensemble": {document}}}'.encode()
        return Offer(
            row.serial, service.etag_of(row, registry=self._context.registry, signatures_tag=signatures.tag), body
        )
