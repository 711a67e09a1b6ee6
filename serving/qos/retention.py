# SPDX-License-Identifier: MIT
"""Deletes sums of flows after `qos_retention_days`, and those of single agents after `qos_agent_retention_days`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import ClassVar

from serving.database import AgentQosRow, QosRow
from serving.qos import repository
from serving.qos.schemas import hour_of
from serving.retention import PAUSE_S, Retention

# An hour of 10,000 agents with 3 classes has 30,000 rows.
_STEP_ROWS = 2000


class QosRetention(Retention):
    """The sweeps over the sums of flows."""

    failure: ClassVar[str] = "old sums of flows are not deleted"

    async def round(self, *, step_rows: int = _STEP_ROWS) -> None:
        """As Background.round."""
        settings = self._context.settings
        kept_days: tuple[tuple[repository.Table, float], ...] = (
            (QosRow, settings.qos_retention_days),
            (AgentQosRow, settings.qos_agent_retention_days),
        )
        for table, days in kept_days:
            before_hour = hour_of(self._context.clock() - timedelta(days=days))
            while await self._context.read(repository.has_older, table, before_hour=before_hour):
                await self._context.write(repository.delete_older, table, before_hour=before_hour, limit=step_rows)
                await asyncio.sleep(PAUSE_S)
