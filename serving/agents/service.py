# SPDX-License-Identifier: MIT
"""Rules for agents.

Only the latest report of each agent and algorithm is stored, so the table grows only with the number of agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from serving.access.grants import Caller
from serving.agents import repository
from serving.database import AgentRow
from serving.paging import page_of

__all__ = ["ReceivedReport", "page", "store"]


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """An agent's report. `said` maps the other columns of the agent's row to their values."""

    agent_id: str
    cca: str
    said: dict[str, Any]
    received_at: datetime


def store(session: Session, reports: Sequence[ReceivedReport]) -> None:
    """Store reports, in the order in which they arrived, each in place of the agent's earlier one."""
    latest = {(report.agent_id, report.cca): report for report in reports}
    # Two processes that write the same agents in different orders could wait for each other's row locks.
    rows = [
        {"agent_id": agent_id, "cca": cca, "received_at": report.received_at, **report.said}
        for (agent_id, cca), report in sorted(latest.items())
    ]
    repository.replace(session, rows)


def page(
    session: Session, *, cca: str | None, channel: str | None, after_id: int | None, limit: int, by: Caller
) -> tuple[Sequence[AgentRow], AgentRow | None]:
    """Return a page of the agents that the caller may see, and its last row if more follow, else None."""
    rows = repository.page_in_order(
        session, cca=cca, channel=channel, after_id=after_id, limit=limit + 1, within=by.grant
    )
    return page_of(rows, limit=limit)
