# SPDX-License-Identifier: MIT
"""Deletes agents that have not reported for `agent_retention_days`, in the background.

A sweep runs a minute after the start and then every hour. It deletes a few hundred rows at a time, each time by a short
write and with a pause after it, so that it delays no report. Without old rows it writes nothing. Several processes on
one database may sweep at once.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError

from serving.agents import repository
from serving.context import Context
from serving.errors import BusyError, DatabaseError

_FIRST_S = 60.0
_EVERY_S = 3600.0
_STEP_ROWS = 500
_PAUSE_S = 0.2

_log = logging.getLogger(__name__)


class AgentRetention:
    """The sweeps of one registry. All methods belong to the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept = timedelta(days=context.settings.agent_retention_days)
        self._task: asyncio.Task[None] | None = None
        context.on_start.append(self.start)
        context.on_stop.append(self.stop)

    def start(self) -> None:
        """Begin to sweep in the background."""
        self._task = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    def stop(self) -> None:
        """End the sweeps. A step that runs is completed."""
        if self._task is not None:
            self._task.cancel()

    async def sweep(self, *, step_rows: int = _STEP_ROWS) -> None:
        """Delete every agent whose last report is too old. Raises SQLAlchemyError, BusyError."""
        before = self._context.clock() - self._kept
        after_id = 0
        while ids := await self._context.read(repository.ids_older, before=before, after_id=after_id, limit=step_rows):
            await self._context.write(repository.delete_older, ids, before=before)
            after_id = ids[-1]
            await asyncio.sleep(_PAUSE_S)

    async def _sweep_for_ever(self) -> None:
        await asyncio.sleep(_FIRST_S)
        while True:
            try:
                await self.sweep()
            except (SQLAlchemyError, BusyError, DatabaseError) as error:
                _log.warning("old agents are not deleted, which is tried again in an hour: %s", error)
            await asyncio.sleep(_EVERY_S)
