# SPDX-License-Identifier: MIT
"""Deletes agents that have not reported for `agent_retention_days`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import ClassVar

from serving.agents import repository
from serving.retention import PAUSE_S, Retention

_STEP_ROWS = 500


class AgentRetention(Retention):
    """The sweeps over the agents."""

    failure: ClassVar[str] = "old agents are not deleted"

    async def round(self, *, step_rows: int = _STEP_ROWS) -> None:
        """As Background.round."""
        before = self._context.clock() - timedelta(days=self._context.settings.agent_retention_days)
        after_id = 0
        while ids := await self._context.read(repository.ids_older, before=before, after_id=after_id, limit=step_rows):
            await self._context.write(repository.delete_older, ids, before=before)
            after_id = ids[-1]
            await asyncio.sleep(PAUSE_S)
