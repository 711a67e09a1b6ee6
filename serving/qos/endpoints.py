# SPDX-License-Identifier: MIT
"""The HTTP endpoint /v1/qos."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, AwareDatetime

from serving.access.check import Reader
from serving.access.routes import ApiRoute
from serving.context import Context, InContext
from serving.errors import NoStatesError
from serving.http.paging import Cursor, Page, cursor_position
from serving.names import AgentId, CcaName, ChannelName
from serving.qos import repository
from serving.qos.retention import QosRetention
from serving.qos.schemas import (
    KEYS,
    DelayClass,
    DeployedSerial,
    Group,
    Key,
    QosRead,
    StateNumber,
    hour_after,
    hour_of,
)

_DEFAULT_TIME = timedelta(hours=24)
_MAX_HOUR = 2**31 - 1
_MAX_ITEMS = 10_000

router = APIRouter(prefix="/v1/qos", tags=["qos"], route_class=ApiRoute)


def add_parts(context: Context) -> None:
    """Add the deletion of old sums."""
    context.add(QosRetention(context))


def _keys_of(by: str) -> list[Key]:
    return [key for key in KEYS if key in by.split(",")]


def _known_keys(by: str) -> str:
    words = by.split(",") if by else []
    if len(_keys_of(by)) != len(words):
        raise ValueError(f"expected some of {','.join(KEYS)}, each once, with commas between them")
    return by


@router.get("", response_model_exclude_unset=True)
async def list_qos(
    *,
    context: InContext,
    caller: Reader,
    by: Annotated[
        str,
        Query(
            max_length=100,
            description=f"Keys of the groups that are summed, of {', '.join(KEYS)}, with commas between them.",
            examples=["serial,class"],
        ),
        AfterValidator(_known_keys),
    ] = "cca,channel,serial,group",
    cca: Annotated[CcaName | None, Query(description="Only of this algorithm.")] = None,
    channel: Annotated[ChannelName | None, Query(description="Only of tables of this channel.")] = None,
    serial: Annotated[DeployedSerial | None, Query(description="Only of the table with this serial.")] = None,
    group: Annotated[Group | None, Query(description="Only of flows that use the table, or that do not.")] = None,
    delay_class: Annotated[DelayClass | None, Query(alias="class", description="Only of this class.")] = None,
    state: Annotated[StateNumber | None, Query(description="Only of this state; not with agents.")] = None,
    agent_id: Annotated[AgentId | None, Query(description="Only of this agent.")] = None,
    begin: Annotated[
        AwareDatetime | None,
        Query(alias="from", description="Only reports of this hour and later; without it, of the last 24 hours."),
    ] = None,
    end: Annotated[AwareDatetime | None, Query(alias="until", description="Only reports of earlier hours.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_ITEMS, description="Items on this page, at most.")] = 1000,
    cursor: Cursor = None,
) -> Page[QosRead]:
    """Sum what the agents report of their flows, in groups by the given keys, in the order of the keys.

    An item has the keys of its group. Sums by agent have no states, and are kept for a shorter time. A limited token
    sees a part of the sums; one for an agent sees those of this agent.
    """
    keys = _keys_of(by)
    of_agents = "agent_id" in keys or agent_id is not None or caller.grant.agent_id is not None
    if of_agents and ("state" in keys or state is not None):
        raise NoStatesError("expected no `state` for sums of agents, which are kept without states; leave it out")
    wanted: dict[Key, Any] = {"cca": cca, "channel": channel, "serial": serial, "class": delay_class}
    wanted["group"] = None if group is None else group == "held_back"
    wanted |= {"agent_id": agent_id} if of_agents else {"state": state}
    first = context.clock() - _DEFAULT_TIME if begin is None else begin
    offset = cursor_position(cursor) or 0
    rows = await context.read(
        repository.grouped,
        by=keys,
        of_agents=of_agents,
        hours=(hour_of(first), _MAX_HOUR if end is None else hour_after(end)),
        wanted=wanted,
        within=caller.grant,
        offset=offset,
        limit=limit + 1,
    )
    items = [QosRead.of(key, sums, target_samples=targets) for key, sums, targets in rows[:limit]]
    return Page(items=items, next_cursor=str(offset + limit) if len(rows) > limit else None)
