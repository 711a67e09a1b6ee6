# SPDX-License-Identifier: MIT
"""Ends leases that have run out, and deletes jobs `job_retention_days` after their end, in the background.

A round is made a quarter of a lease after the last one. Without anything to do it writes nothing. Several processes
on one database may do it at once. Runners do the same to leases when they request a job (service.py), so this counts
for jobs whose runners are all gone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from serving.background import Background
from serving.jobs import repository, service

_STEP_JOBS = 50


class JobUpkeep(Background):
    """The upkeep of one registry's jobs."""

    failure: ClassVar[str] = "leases and old jobs are left as they are"

    @property
    def every_s(self) -> float:
        """A quarter of a lease."""
        return self._context.settings.job_lease_s / 4

    async def round(self) -> None:
        """As Background.round."""
        context = self._context
        now = context.clock()
        if await context.read(repository.any_run_out, now=now):
            await context.write(service.end_leases, now=now, most_losses=context.settings.job_losses)
        before = now - timedelta(days=context.settings.job_retention_days)
        while ids := await context.read(repository.ids_ended, before=before, limit=_STEP_JOBS):
            await context.write(repository.delete_jobs, ids)
