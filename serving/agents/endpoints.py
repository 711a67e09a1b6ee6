# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, status

from serving.agents import service
from serving.agents.schemas import AgentRead, AgentReport
from serving.context import InContext
from serving.names import AgentId, CcaName, ChannelName
from serving.paging import Cursor, Limit, Page, cursor_position
from serving.problems import problems

__all__ = ["router"]

router = APIRouter(prefix="/v1/agents", tags=["agents"])


@router.post("/{agent_id}/reports", status_code=status.HTTP_204_NO_CONTENT, responses=problems(413, 422))
def report(context: InContext, agent_id: AgentId, body: AgentReport) -> None:
    """Store an agent's report on the table that is in force in its kernel. It replaces the agent's earlier report."""
    with context.database.write() as session:
        service.report(
            session,
            agent_id=agent_id,
            cca=body.cca,
            said=body.model_dump(exclude={"cca"}),
            now=context.clock(),
        )


@router.get("", responses=problems(422))
def list_agents(
    context: InContext,
    cca: Annotated[CcaName | None, Query(description="Only reports of this algorithm.")] = None,
    channel: Annotated[ChannelName | None, Query(description="Only agents that follow this channel.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AgentRead]:
    """List the latest report of each agent and algorithm, with its age."""
    with context.database.read() as session:
        rows, last = service.page(session, cca=cca, channel=channel, after_id=cursor_position(cursor), limit=limit)
    now = context.clock()
    return Page(items=[AgentRead.of(row, now=now) for row in rows], next_cursor=None if last is None else str(last.id))
