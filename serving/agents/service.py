# SPDX-License-Identifier: MIT
"""Rules for agents.

- Only the latest report of each agent and algorithm is stored, so the table grows only with the number of agents.
- Two agents under one id are noticed by their run ids: a report comes from a run that another one replaced shortly
  before. Several agents with the same id are noticed as soon as two of them alternate.
- An agent that has not reported for the retention time is deleted, and so is one that an operator removes. An agent
  that still runs returns with its next report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.grants import Caller
from serving.agents import repository
from serving.agents.schemas import SHARED_WINDOW
from serving.errors import AgentNotFoundError
from serving.qos import service as qos
from serving.qos.schemas import ReportedSums


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """An agent's report. `said` maps the other columns of the agent's row to their values.

    sums: by how much the sums of flows have grown, or None.
    """

    agent_id: str
    cca: str
    said: dict[str, Any]
    received_at: datetime
    sums: ReportedSums | None = None


def store(session: Session, reports: Sequence[ReceivedReport]) -> None:
    """Store reports, in the order in which they arrived, each in place of the agent's earlier one. Add their sums."""
    latest: dict[tuple[str, str, str | None], ReceivedReport] = {}
    for report in reports:
        # The latest report of each run is kept, in the order in which these arrived.
        run = (report.agent_id, report.cca, report.said.get("run_id"))
        latest.pop(run, None)
        latest[run] = report
    # Two processes that write the same agents in different orders could wait for each other's row locks. The sort is
    # stable, so the runs of one agent stay in order.
    rows = [
        {"agent_id": report.agent_id, "cca": report.cca, "received_at": report.received_at,
         "effective_since": report.received_at, **report.said}
        for report in sorted(latest.values(), key=lambda report: (report.agent_id, report.cca))
    ]  # fmt: skip
    repository.replace(session, rows, shared_since=reports[-1].received_at - SHARED_WINDOW)
    qos.count(session, reports)


def remove(session: Session, agent_id: str, *, now: datetime, by: Caller) -> None:
    """Delete the agent's reports on all algorithms. Raises AgentNotFoundError where there is none."""
    if repository.delete_agent(session, agent_id) == 0:
        raise AgentNotFoundError(f"expected the id of an agent that has reported, got {agent_id}; list the agents")
    audit.record(session, by=by, action="remove-agent", target=f"agent {agent_id}", now=now)
