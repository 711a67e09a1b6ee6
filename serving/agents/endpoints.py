# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, status

from serving.access.check import Administrator, Reader, needs
from serving.agents import service
from serving.agents.schemas import AgentRead, AgentReport, StateWord
from serving.agents.service import ReceivedReport
from serving.context import InContext
from serving.database import AgentRow
from serving.http.paging import Cursor, Limit, Page, cursor_position
from serving.http.problems import problems
from serving.http.routes import ApiRoute
from serving.names import AgentId, CcaName, ChannelName

__all__ = ["received", "router"]

router = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=ApiRoute)


def received(report: AgentReport, *, agent_id: str, now: datetime) -> ReceivedReport:
    """Return an agent's report with the time at which it arrived."""
    return ReceivedReport(agent_id, report.cca, report.model_dump(exclude={"cca"}), now)


@router.post(
    "/{agent_id}/reports",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[needs("report")],
    responses=problems(413),
)
async def report_state(context: InContext, agent_id: AgentId, body: AgentReport) -> None:
    """Store an agent's report on the table that is in force in its kernel. It replaces the agent's earlier report."""
    await context.reports.submit(received(body, agent_id=agent_id, now=context.clock()))


@router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(404))
async def remove_agent(context: InContext, caller: Administrator, agent_id: AgentId) -> None:
    """Delete an agent's reports on all algorithms. If the agent still runs, its next report lists it again."""

    def delete() -> None:
        with context.database.write() as session:
            service.remove(session, agent_id, now=context.clock(), by=caller)

    await context.writes.run(delete)


@router.get("")
async def list_agents(
    *,
    context: InContext,
    caller: Reader,
    cca: Annotated[CcaName | None, Query(description="Only reports of this algorithm.")] = None,
    channel: Annotated[ChannelName | None, Query(description="Only agents that follow this channel.")] = None,
    state: Annotated[StateWord | None, Query(description="Only agents in this state, such as `Offline`.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AgentRead]:
    """List the latest report of each agent and algorithm, with its age. A limited token sees a part of them."""
    after_id = cursor_position(cursor)

    def page() -> tuple[Sequence[AgentRow], AgentRow | None]:
        with context.database.read() as session:
            return service.page(
                session, cca=cca, channel=channel, state=state, after_id=after_id, limit=limit, by=caller
            )

    rows, last = await context.reads.run(page)
    now = context.clock()
    return Page(items=[AgentRead.of(row, now=now) for row in rows], next_cursor=None if last is None else str(last.id))
