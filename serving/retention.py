# SPDX-License-Identifier: MIT
"""Deletes what is older than its retention time, in the background.

A sweep runs a minute after the start and then every hour. It deletes a few hundred rows at a time, each time by a short
write and with a pause after it, so that it delays no report. Without old rows it writes nothing. Several processes on
one database may sweep at once.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import ClassVar

from sqlalchemy.exc import SQLAlchemyError

from serving.context import Context
from serving.errors import BusyError, DatabaseError

PAUSE_S = 0.2
_FIRST_S = 60.0
_EVERY_S = 3600.0

_log = logging.getLogger(__name__)


class Retention(ABC):
    """The sweeps of one registry over one kind of rows. All methods belong to the event loop."""

    what: ClassVar[str]

    def __init__(self, context: Context) -> None:
        """Sweep from the registry's start to its stop."""
        self._context = context
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

    @abstractmethod
    async def sweep(self) -> None:
        """Delete every row that is too old. Raises SQLAlchemyError, BusyError."""

    async def _sweep_for_ever(self) -> None:
        await asyncio.sleep(_FIRST_S)
        while True:
            try:
                await self.sweep()
            except (SQLAlchemyError, BusyError, DatabaseError) as error:
                _log.warning("old %s are not deleted, which is tried again in an hour: %s", self.what, error)
            await asyncio.sleep(_EVERY_S)
