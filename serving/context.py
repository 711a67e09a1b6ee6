# SPDX-License-Identifier: MIT
"""The context of all endpoints. The application makes it once, and FastAPI passes it to each endpoint.

A resource that keeps something in memory, such as the held polls of the channels, adds it as a part when the
application starts. Endpoints get it by its type: `context.part(Offers)`.

Database work runs in thread pools. Reads and writes have a pool each, so that waiting writes delay no read. The queue
of a pool is bounded in length and in time. Work that has waited too long is refused instead of run, because its client
has given up or is about to. Refused work is answered 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from serving.database import Database
from serving.errors import BusyError
from serving.settings import ServingSettings

Clock = Callable[[], datetime]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Part = TypeVar("Part")


class WorkPool:
    """Runs functions in threads of its own. `run` belongs to the event loop.

    name: in errors. n_pending: functions that run or wait. n_refused: those that were refused so far, because the queue
    was full or they had waited too long. n_failed: those that failed so far because of the database.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        max_queued: int,
        max_queue_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._clock = clock
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"ccatune-{name}")
        self.max_pending = threads + max_queued
        self._max_queue_s = max_queue_s
        self.n_pending = self.n_refused = self.n_failed = 0
        self.last_success_s = time.monotonic()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run the function in a thread, and return its result.

        Raises:
            BusyError: the queue is full, or the function has waited too long.
        """
        if self.n_pending >= self.max_pending:
            self.n_refused += 1
            raise BusyError(f"expected room for another of the {self.name}, {self.n_pending} wait; try again")
        queued_s = self._clock()

        def timed() -> Result:
            if self._clock() - queued_s > self._max_queue_s:
                raise BusyError(f"expected the {self.name} to start in {self._max_queue_s:g} s, it waited; try again")
            return work()

        self.n_pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, timed)
        future.add_done_callback(self._ended)
        return await future

    def close(self) -> None:
        """Wait until the work that runs has ended. Work in the queue is dropped."""
        self._executor.shutdown(cancel_futures=True)

    def _ended(self, future: asyncio.Future[Result]) -> None:
        self.n_pending -= 1
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.last_success_s = time.monotonic()
        self.n_refused += isinstance(error, BusyError)
        self.n_failed += isinstance(error, SQLAlchemyError)


@dataclass(frozen=True)
class Context:
    """One registry: its database, name, settings and clock (UTC), and the parts of its resources.

    reads, writes: thread pools for database work; neither waits for the other.
    hashes: thread pool for the hashes of passwords, each of which takes much memory.
    on_start, on_stop: called in the event loop when the server begins to answer, and when it begins to stop.
    on_close: called when no thread works with the database any more.
    """

    database: Database
    registry: str
    settings: ServingSettings
    clock: Clock
    reads: WorkPool
    writes: WorkPool
    hashes: WorkPool
    on_start: list[Callable[[], None]] = field(default_factory=list)
    on_stop: list[Callable[[], None]] = field(default_factory=list)
    on_close: list[Callable[[], None]] = field(default_factory=list)
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    def add(self, part: Part) -> Part:
        """Keep a part of a resource, and return it."""
        self._parts[type(part)] = part
        return part

    def part(self, kind: type[Part]) -> Part:
        """Return the part of this type."""
        found = self._parts[kind]
        assert isinstance(found, kind)  # noqa: S101 - by `add`
        return found

    def close(self) -> None:
        """Wait until no thread works with the database any more. It may be closed then."""
        for pool in (self.hashes, self.reads, self.writes):
            pool.close()
        for step in self.on_close:
            step()

    async def read(
        self,
        query: Callable[Concatenate[Session, Arguments], Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """Return what the function returns for a session, in a thread for reads. Raises BusyError."""

        def work() -> Result:
            with self.database.read() as session:
                return query(session, *arguments, **options)

        return await self.reads.run(work)

    async def write(
        self,
        change: Callable[Concatenate[Session, Arguments], Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """Commit what the function does with a session, in a thread for writes. Raises BusyError."""

        def work() -> Result:
            with self.database.write() as session:
                return change(session, *arguments, **options)

        return await self.writes.run(work)


async def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)  # noqa: S101 - set by create_app, once
    return context


InContext = Annotated[Context, Depends(_context)]
