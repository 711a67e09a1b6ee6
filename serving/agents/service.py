# SPDX-License-Identifier: MIT
"""Rules for agents.

Only the latest report of each agent and algorithm is stored, so the table grows only with the number of agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from serving.agents import repository
from serving.database import AgentRow
from serving.paging import page_of

__all__ = ["page", "report"]


def report(session: Session, *, agent_id: str, cca: str, said: dict[str, Any], now: datetime) -> None:
    """Store an agent's report in place of its earlier one. `said` maps the row's columns to their values."""
    row = repository.insert_or_find(session, AgentRow(agent_id=agent_id, cca=cca, received_at=now, **said))
    for column, value in said.items():
        setattr(row, column, value)
    row.received_at = now


def page(
    session: Session, *, cca: str | None, channel: str | None, after_id: int | None, limit: int
) -> tuple[Sequence[AgentRow], AgentRow | None]:
    """Return a page of agents, and its last row if more follow, else None."""
    rows = repository.page_in_order(session, cca=cca, channel=channel, after_id=after_id, limit=limit + 1)
    return page_of(rows, limit=limit)
