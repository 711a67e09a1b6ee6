# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/agents."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, status

from serving.access.check import Administrator, Reader, needs
from serving.access.routes import ApiRoute
from serving.agents import repository, service
from serving.agents.intake import ReportIntake
from serving.agents.retention import AgentRetention
from serving.agents.schemas import AgentRead, AgentReport, StateWord
from serving.agents.service import ReceivedReport
from serving.context import Context, InContext
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.names import AgentId, CcaName, ChannelName

router = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=ApiRoute)


def add_parts(context: Context) -> None:
    """Add the queue of reports, and the deletion of silent agents."""
    context.add(ReportIntake(context))
    context.add(AgentRetention(context))


def received(report: AgentReport, *, agent_id: str, now: datetime) -> ReceivedReport:
    """Return an agent's report with the time at which it arrived."""
    said = report.model_dump(exclude={"cca", "sums", "labels"}) | {"labels": json.dumps(report.labels)}
    return ReceivedReport(agent_id, report.cca, said, now, report.sums)


@router.post(
    "/{agent_id}/reports",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[needs("report")],
    responses=problems(413),
)
async def report_state(context: InContext, agent_id: AgentId, body: AgentReport) -> None:
    """Store an agent's report on the table that is in force in its kernel. It replaces the agent's earlier report.

    Its sums of flows are added to those of earlier reports, unless they were added already.
    """
    await context.part(ReportIntake).submit(received(body, agent_id=agent_id, now=context.clock()))


@router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(404))
async def remove_agent(context: InContext, caller: Administrator, agent_id: AgentId) -> None:
    """Delete an agent's reports on all algorithms. If the agent still runs, its next report lists it again."""
    await context.write(lambda session: service.remove(session, agent_id, now=context.clock(), by=caller))


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
    rows = await context.read(
        repository.page_in_order,
        cca=cca,
        channel=channel,
        state=state,
        after_id=cursor_position(cursor),
        limit=limit + 1,
        within=caller.grant,
    )
    now = context.clock()
    return page_of(rows, limit=limit, item=lambda row: AgentRead.of(row, now=now), position=lambda row: row.id)
