# SPDX-License-Identifier: MIT
"""Deletes agents that have not reported for `agent_retention_days`, in the background.

A sweep runs a minute after the start and then every hour. It deletes a few hundred rows at a time, each time by a short
write and with a pause after it, so that it delays no report. Without old rows it writes nothing. Several processes on
one database may sweep at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from serving.agents import service
from serving.database import Database
from serving.errors import BusyError
from serving.http.work import WorkPool

__all__ = ["AgentRetention"]

_FIRST_S = 60.0
_EVERY_S = 3600.0
_STEP_ROWS = 500
_PAUSE_S = 0.2

_log = logging.getLogger(__name__)


class AgentRetention:
    """The sweeps of one registry. All methods belong to the event loop."""

    def __init__(
        self, database: Database, *, reads: WorkPool, writes: WorkPool, clock: Callable[[], datetime], days: float
    ) -> None:
        self._database = database
        self._reads = reads
        self._writes = writes
        self._clock = clock
        self._kept = timedelta(days=days)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep in the background."""
        self._task = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    def stop(self) -> None:
        """End the sweeps. A step that runs is completed."""
        if self._task is not None:
            self._task.cancel()

    async def sweep(self, *, step_rows: int = _STEP_ROWS) -> None:
        """Delete every agent whose last report is too old. Raises SQLAlchemyError, BusyError."""
        before = self._clock() - self._kept
        after_id = 0
        while ids := await self._reads.run(partial(self._find, before, after_id, step_rows)):
            await self._writes.run(partial(self._delete, before, ids))
            after_id = ids[-1]
            await asyncio.sleep(_PAUSE_S)

    def _find(self, before: datetime, after_id: int, limit: int) -> Sequence[int]:
        with self._database.read() as session:
            return service.silent(session, before=before, after_id=after_id, limit=limit)

    def _delete(self, before: datetime, ids: Sequence[int]) -> None:
        with self._database.write() as session:
            service.delete_silent(session, ids, before=before)

    async def _sweep_for_ever(self) -> None:
        await asyncio.sleep(_FIRST_S)
        while True:
            try:
                await self.sweep()
            except (SQLAlchemyError, BusyError) as error:
                _log.warning("old agents are not deleted, which is tried again in an hour: %s", error)
            await asyncio.sleep(_EVERY_S)
