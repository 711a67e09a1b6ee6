# SPDX-License-Identifier: MIT
"""Work that a registry repeats in the background, from its start to its stop. A process with `role: api` does none.

Several processes on one database may do the same work at once. A round that fails is logged, and the next one follows
at its usual time.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import ClassVar

from sqlalchemy.exc import SQLAlchemyError

from serving.context import Context
from serving.errors import ServingError

_log = logging.getLogger(__name__)


class Background(ABC):
    """One kind of work of one registry. All methods belong to the event loop.

    failure: what the log says of a round that fails.
    """

    failure: ClassVar[str]

    def __init__(self, context: Context) -> None:
        """Begin with the registry's start, if its process does such work."""
        self._context = context
        self._task: asyncio.Task[None] | None = None
        if context.settings.role != "api":
            context.on_start.append(self.start)
        context.on_stop.append(self.stop)

    @property
    @abstractmethod
    def every_s(self) -> float:
        """The time between two rounds."""

    @property
    def first_s(self) -> float:
        """The time before the first round."""
        return self.every_s

    @abstractmethod
    async def round(self) -> None:
        """Do the work once. Raises SQLAlchemyError, ServingError."""

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.get_running_loop().create_task(self._for_ever())

    def stop(self) -> None:
        """End the rounds. A read or write that runs is completed."""
        if self._task is not None:
            self._task.cancel()

    async def _for_ever(self) -> None:
        await asyncio.sleep(self.first_s)
        while True:
            try:
                await self.round()
            except (SQLAlchemyError, ServingError) as error:
                _log.warning("%s, which is tried again in %g s: %s", self.failure, self.every_s, error)
            except Exception:  # a fault of this program must not end the work for ever
                _log.exception("%s, which is tried again in %g s", self.failure, self.every_s)
            await asyncio.sleep(self.every_s)
