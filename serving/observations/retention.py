# SPDX-License-Identifier: MIT
"""Deletes files of observations that are older than `observation_retention_days`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import ClassVar

from serving.observations import repository
from serving.retention import PAUSE_S, Retention

_STEP_ROWS = 50


class ObservationRetention(Retention):
    """The sweeps over the files."""

    failure: ClassVar[str] = "old observations are not deleted"

    async def round(self) -> None:
        """As Background.round."""
        before = self._context.clock() - timedelta(days=self._context.settings.observation_retention_days)
        while ids := await self._context.read(repository.ids_older, before=before, limit=_STEP_ROWS):
            await self._context.write(repository.delete_all, ids)
            await asyncio.sleep(PAUSE_S)
