# SPDX-License-Identifier: MIT
"""Server-sent events: GET /ui/events names the topics that have changed, and pages load their figures anew.

    channels    a channel was moved, by any process
    rollouts    a roll-out has a new entry
    jobs        a job was submitted, has progressed or ended, or a runner has described a dataset
    agents      an agent has reported; at most every `_AGENTS_S`
    audit       anything that the audit log names

While at least one page listens, one query every `recheck_ms` finds the changes of all topics. Without listeners there
is none. Nothing but names is sent, so a listener learns nothing that its pages would not show.

Limits: at most `_MOST_LISTENERS` pages listen; further ones are answered 503 and are not updated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Hashable

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.context import Context, InContext
from serving.dashboard.pages import HEADERS, PageRoute
from serving.database import AgentRow, AuditRow, ChannelRow, DatasetRow, JobRow, RolloutEventRow
from serving.errors import BusyError, DatabaseError, NotAuthenticatedError

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_AGENTS_S = 5.0
_MOST_LISTENERS = 500
_ALIVE_S = 15.0
# A browser connects again by itself, and its session is checked anew.
_LONGEST_S = 600.0

_log = logging.getLogger(__name__)


class Changes:
    """Tells listeners which topics have changed. All methods belong to the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._recheck_s = context.settings.recheck_ms / 1000
        self._queues: set[asyncio.Queue[frozenset[str] | None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._agents_at_s = 0.0

    def listen(self) -> asyncio.Queue[frozenset[str] | None]:
        """Return a queue of the changed topics; None in it ends the stream. Raises BusyError."""
        if len(self._queues) >= _MOST_LISTENERS:
            raise BusyError(f"expected at most {_MOST_LISTENERS} pages that are kept up to date; load this one anew")
        queue: asyncio.Queue[frozenset[str] | None] = asyncio.Queue(maxsize=64)
        self._queues.add(queue)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._find_changes())
        return queue

    def leave(self, queue: asyncio.Queue[frozenset[str] | None]) -> None:
        """End the delivery to a queue."""
        self._queues.discard(queue)

    def close(self) -> None:
        """End all streams."""
        for queue in self._queues:
            _put(queue, None)

    async def _find_changes(self) -> None:
        known: dict[str, Hashable] | None = None
        while self._queues:
            try:
                found = await self._context.read(_standing, with_agents=self._agents_are_due(known))
            except (SQLAlchemyError, DatabaseError, BusyError) as error:
                _log.warning("the pages are not kept up to date: %s", error)
                found = known or {}
            changed = frozenset(topic for topic in found if known is not None and found[topic] != known.get(topic))
            known = {**(known or {}), **found}
            if changed:
                for queue in self._queues:
                    _put(queue, changed)
            await asyncio.sleep(self._recheck_s)

    def _agents_are_due(self, known: dict[str, Hashable] | None) -> bool:
        if known is not None and time.monotonic() < self._agents_at_s:
            return False
        self._agents_at_s = time.monotonic() + _AGENTS_S
        return True


def _put(queue: asyncio.Queue[frozenset[str] | None], item: frozenset[str] | None) -> None:
    # A page that does not read misses events; the next one makes it load everything.
    with contextlib.suppress(asyncio.QueueFull):
        queue.put_nowait(item)


def _standing(session: Session, *, with_agents: bool) -> dict[str, Hashable]:
    """Return for each topic a value that changes with it."""
    row = session.execute(
        select(
            select(func.sum(ChannelRow.revision)).scalar_subquery(),
            select(func.max(RolloutEventRow.id)).scalar_subquery(),
            select(func.max(AuditRow.id)).scalar_subquery(),
            select(func.max(JobRow.id)).scalar_subquery(),
            select(func.max(JobRow.lease_until)).scalar_subquery(),
            select(func.max(JobRow.ended_at)).scalar_subquery(),
            select(func.max(DatasetRow.said_at)).scalar_subquery(),
        )
    ).one()
    found: dict[str, Hashable] = {"channels": row[0], "rollouts": row[1], "audit": row[2], "jobs": tuple(row[3:])}
    if with_agents:
        found["agents"] = tuple(session.execute(select(func.count(AgentRow.id), func.max(AgentRow.received_at))).one())
    return found


@router.get("/events")
async def events(request: Request, context: InContext, caller: Reader) -> Response:
    """Stream the names of changed topics until the client leaves."""
    changes = context.part(Changes)
    queue = changes.listen()

    async def stream() -> AsyncIterator[str]:
        end_s = time.monotonic() + _LONGEST_S
        try:
            yield "retry: 2000\n\n"
            while time.monotonic() < end_s:
                try:
                    changed = await asyncio.wait_for(queue.get(), _ALIVE_S)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if changed is None or await request.is_disconnected():
                    return
                caller.require("read")
                yield f"event: changed\ndata: {json.dumps(sorted(changed))}\n\n"
        except NotAuthenticatedError:
            # The session has ended. The browser connects again, and is refused.
            return
        finally:
            changes.leave(queue)

    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
