# SPDX-License-Identifier: MIT
"""The context of all endpoints. The application makes it once, and FastAPI passes it to each endpoint.

A resource that keeps something in memory, such as the held polls of the channels, adds it as a part when the
application starts. Endpoints get it by its type: `context.part(Offers)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from serving.database import Database
from serving.http.work import WorkPool
from serving.settings import ServingSettings

__all__ = ["Clock", "Context", "InContext"]

Clock = Callable[[], datetime]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Context:
    """One registry: its database, name, settings and clock (UTC), and the parts of its resources.

    reads, writes: thread pools for database work; neither waits for the other.
    on_start, on_stop: called in the event loop when the server begins to answer, and when it begins to stop.
    """

    database: Database
    registry: str
    settings: ServingSettings
    clock: Clock
    reads: WorkPool
    writes: WorkPool
    on_start: list[Callable[[], None]] = field(default_factory=list)
    on_stop: list[Callable[[], None]] = field(default_factory=list)
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
        self.reads.close()
        self.writes.close()

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
