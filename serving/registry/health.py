# SPDX-License-Identifier: MIT
"""Whether the registry is well, for a supervisor or a load balancer.

    GET /livez    the process answers: the event loop turns. Restart the process if it does not
    GET /readyz   reads and writes succeed. Send no requests while it answers 503, but do not restart the process
    GET /healthz  as /readyz, under its former name

Reads are tested by a query. Writes count as healthy for `write_stall_s` after a write that succeeded. After that a
small write is tested: the registry's row is written with its own name. A test that does not end within
`_PATIENCE_S`, because another process holds the lock or the disk is slow, counts as failed and continues.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from serving.context import Context, InContext
from serving.database import RegistryRow
from serving.errors import BusyError, DatabaseError, WritesStalledError
from serving.http.problems import problems

router = APIRouter(tags=["health"])

PATHS = frozenset({"/livez", "/readyz", "/healthz"})

_PATIENCE_S = 1.0


class HealthRead(BaseModel):
    """The answer of a registry that is well."""

    status: str = Field(description="`ok`.", examples=["ok"])
    registry: str = Field(description="The registry's name.", examples=["local"])


@router.get("/livez")
async def livez(context: InContext) -> HealthRead:
    """Answer. This needs neither the database nor a thread."""
    return HealthRead(status="ok", registry=context.registry)


@router.get("/readyz", responses=problems(503))
async def readyz(context: InContext) -> HealthRead:
    """Check that the database answers a query, and that writes succeed."""
    await context.part(Health).check()
    return HealthRead(status="ok", registry=context.registry)


@router.get("/healthz", responses=problems(503))
async def healthz(context: InContext) -> HealthRead:
    """Check the same as `/readyz`."""
    return await readyz(context)


class Health:
    """The health of one registry's database. All methods belong to the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._write_stall_s = context.settings.write_stall_s
        self._test: asyncio.Task[str] | None = None

    async def check(self) -> None:
        """Check reads and writes.

        Raises:
            WritesStalledError: no write has succeeded for some time.
            SQLAlchemyError, BusyError: the database does not answer a query.
        """
        await self._context.reads.run(self._context.database.ping)
        idle_s = time.monotonic() - self._context.writes.last_success_s
        if idle_s <= self._write_stall_s:
            return
        if self._test is None or self._test.done():
            self._test = asyncio.get_running_loop().create_task(self._test_write())
        await asyncio.wait({self._test}, timeout=_PATIENCE_S)
        failure = self._test.result() if self._test.done() else f"no answer within {_PATIENCE_S:g} s"
        if failure:
            raise WritesStalledError(
                f"expected a write to succeed, got {failure}; the last one succeeded {idle_s:.0f} s ago; "
                "look for another process that holds the database's lock, and for a full disk"
            )

    async def _test_write(self) -> str:
        """Return what failed, or ""."""
        try:
            await self._context.write(_touch)
        except (SQLAlchemyError, BusyError, DatabaseError) as error:
            return str(getattr(error, "orig", None) or error)
        return ""


def _touch(session: Session) -> None:
    session.execute(update(RegistryRow).values(name=RegistryRow.name))
