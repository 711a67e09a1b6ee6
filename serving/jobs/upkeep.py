# SPDX-License-Identifier: MIT
"""Ends leases that have run out, and deletes jobs `job_retention_days` after their end, in the background.

A round is made a quarter of a lease after the last one. Without anything to do it writes nothing. Several processes
on one database may do it at once. Runners do the same to leases when they request a job (service.py), so this counts
for jobs whose runners are all gone.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError

from serving.context import Context
from serving.errors import BusyError, DatabaseError
from serving.jobs import repository, service

_STEP_JOBS = 50

_log = logging.getLogger(__name__)


class JobUpkeep:
    """The upkeep of one registry's jobs. All methods belong to the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept = timedelta(days=context.settings.job_retention_days)
        self._task: asyncio.Task[None] | None = None
        context.on_start.append(self.start)
        context.on_stop.append(self.stop)

    def start(self) -> None:
        """Begin the rounds in the background."""
        self._task = asyncio.get_running_loop().create_task(self._for_ever())

    def stop(self) -> None:
        """End the rounds. A write that runs is completed."""
        if self._task is not None:
            self._task.cancel()

    async def once(self) -> None:
        """Make one round. Raises SQLAlchemyError, BusyError."""
        context = self._context
        now = context.clock()
        if await context.read(repository.any_run_out, now=now):
            await context.write(service.end_leases, now=now, most_losses=context.settings.job_losses)
        while ids := await context.read(repository.ids_ended, before=now - self._kept, limit=_STEP_JOBS):
            await context.write(repository.delete_jobs, ids)

    async def _for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._context.settings.job_lease_s / 4)
            try:
                await self.once()
            except (SQLAlchemyError, BusyError, DatabaseError) as error:
                _log.warning("leases and old jobs are left as they are, which is tried again soon: %s", error)
