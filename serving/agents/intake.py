# SPDX-License-Identifier: MIT
"""Writes the agents' reports in batches: one transaction for all reports that have arrived since the last one.

    submit -> queue -> batch of at most 1000, every 100 ms at most -> one transaction -> every submit returns

A report is acknowledged only after its transaction is committed. Only one batch is written at a time, so a later
report of an agent is never replaced by an earlier one. A full queue refuses reports with 503 and Retry-After.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass

from sqlalchemy.exc import DataError, IntegrityError

from serving.agents import service
from serving.agents.service import ReceivedReport
from serving.context import Context
from serving.errors import BusyError

_MAX_BATCH = 1000
_PAUSE_S = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Queued:
    report: ReceivedReport
    stored: asyncio.Future[None]

    def fail(self, error: Exception) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)


class ReportIntake:
    """The queue of one registry's reports. All methods belong to the event loop. max_queued: its bound."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.max_queued = context.settings.max_queued_reports
        self._queue: deque[_Queued] = deque()
        self._writer: asyncio.Task[None] | None = None

    @property
    def n_queued(self) -> int:
        """The number of reports that wait to be written."""
        return len(self._queue)

    async def submit(self, report: ReceivedReport) -> None:
        """Store the report in place of the agent's earlier one. Returns after the commit.

        Raises:
            BusyError: the queue is full, or the write pool is.
        """
        if len(self._queue) >= self.max_queued:
            raise BusyError(f"expected room for a report, {len(self._queue)} wait to be written; try again")
        loop = asyncio.get_running_loop()
        queued = _Queued(report, loop.create_future())
        self._queue.append(queued)
        if self._writer is None or self._writer.done():
            self._writer = loop.create_task(self._write_all())
        await queued.stored

    async def _write_all(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(_MAX_BATCH, len(self._queue)))]
            try:
                await self._write(batch)
            except Exception as error:
                for queued in batch:
                    queued.fail(error)
            if self._queue:
                await asyncio.sleep(_PAUSE_S)

    async def _write(self, batch: list[_Queued]) -> None:
        try:
            await self._context.write(service.store, [queued.report for queued in batch])
        except (DataError, IntegrityError) as error:
            if len(batch) == 1:
                raise
            # One report has a value that the database refuses. The others must not be lost with it.
            _log.warning("a batch of %d reports was refused, each is written alone: %s", len(batch), error.orig)
            for queued in batch:
                try:
                    await self._write([queued])
                except (DataError, IntegrityError) as own_error:
                    queued.fail(own_error)
            return
        for queued in batch:
            if not queued.stored.done():
                queued.stored.set_result(None)
