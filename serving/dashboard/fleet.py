# SPDX-License-Identifier: MIT
"""/ui/fleet: a square for each agent, and why some do not stand well. /ui/agents/ID: one agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup, escape
from sqlalchemy import select
from sqlalchemy.orm import Session

from serving.access.check import Administrator, Reader
from serving.access.grants import Grant
from serving.agents import service, standing
from serving.agents.schemas import AgentRead
from serving.context import Context, InContext
from serving.dashboard.pages import PageRoute, page, see_other
from serving.dashboard.words import percent
from serving.database import AgentRow, narrowed
from serving.errors import AgentNotFoundError
from serving.names import AgentId
from serving.qos import repository as qos
from serving.qos.schemas import QosRead, hour_of

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_MOST_LISTED = 200
_MANY = 1500
_DAYS = 7
_MAX_HOUR = 2**31 - 1


@router.get("/fleet")
async def fleet(
    *,
    request: Request,
    context: InContext,
    caller: Reader,
    channel: Annotated[str, Query(max_length=130)] = "",
    standing_: Annotated[str, Query(alias="standing", max_length=16)] = "",
    name: Annotated[str, Query(max_length=128)] = "",
) -> Response:
    """Show the agents, all or those of a channel, of a standing, or with a part of a name."""
    now = context.clock()
    found = await context.read(standing.fleet, now=now, within=caller.grant)
    shown = [
        one
        for one in found
        if channel in {"", f"{one.cca}/{one.channel}"} and standing_ in {"", one.standing} and name in one.agent_id
    ]
    unwell = [one for one in shown if one.standing in {"silent", "trouble", "behind"}]
    listed = unwell or shown
    return page(
        request, "fleet.html", title="Fleet", topics="agents channels",
        agents=shown, n_all=len(found), counted=Counter(one.standing for one in shown), squares=_squares(shown),
        standings=standing.STANDINGS, standing=standing_, channel=channel, name=name, unwell=unwell,
        channels=sorted({f"{one.cca}/{one.channel}" for one in found}),
        listed=[(one, standing.with_reason(one, now=now)) for one in listed[:_MOST_LISTED]],
        n_more=len(listed) - _MOST_LISTED if len(listed) > _MOST_LISTED else 0,
    )  # fmt: skip


def _squares(agents: Sequence[standing.AgentStanding]) -> Markup:
    """Return a link for each agent. This is no template, because 10,000 of them take ten times as long there.

    They are for the pointer. The keyboard and screen readers have the filters and the table.
    """
    order = {name: place for place, name in enumerate(standing.STANDINGS)}
    links = "".join(
        f'<a class={one.standing} href="agents/{one.agent_id}" title="{one.agent_id}: {one.standing}" tabindex=-1></a>'
        for one in sorted(agents, key=lambda one: (order[one.standing], one.cca, one.channel))
        if escape(one.agent_id) == one.agent_id
    )
    many = " many" if len(agents) > _MANY else ""
    return Markup('<div class="squares{}" aria-hidden="true">{}</div>').format(many, Markup(links))  # noqa: S704 - names are checked above


@router.get("/agents/{agent_id}")
async def agent(*, request: Request, context: InContext, caller: Reader, agent_id: AgentId) -> Response:
    """Show an agent: its table, its figures and its errors."""
    reports = await context.read(_reports, context, caller.grant, agent_id=agent_id)
    return page(request, "agent.html", title=agent_id, topics="agents channels", agent_id=agent_id, reports=reports)


def _reports(session: Session, context: Context, grant: Grant, *, agent_id: str) -> list[dict[str, Any]]:
    now = context.clock()
    standings = {one.cca: one for one in standing.fleet(session, now=now, within=grant, agent_id=agent_id)}
    query = narrowed(select(AgentRow).where(AgentRow.agent_id == agent_id), (AgentRow.cca, grant.ccas))
    rows = [row for row in session.scalars(query.order_by(AgentRow.cca)) if row.cca in standings]
    if not rows:
        raise AgentNotFoundError(f"expected the id of an agent that has reported, got {agent_id}; see the fleet")
    return [
        {
            "read": AgentRead.of(row, now=now),
            "standing": standings[row.cca],
            "reasons": standing.with_reason(standings[row.cca], now=now),
            **_figures(session, context, grant, agent_id=agent_id, cca=row.cca),
        }
        for row in rows
    ]


def _figures(session: Session, context: Context, grant: Grant, *, agent_id: str, cca: str) -> dict[str, Any]:
    """Return the figures of an agent's flows by hour: within target by class, and throughput."""
    hours = (hour_of(context.clock() - timedelta(days=_DAYS)), _MAX_HOUR)
    wanted: dict[Any, Any] = {"agent_id": agent_id, "cca": cca}
    by_class = qos.grouped(session, by=["hour", "class"], of_agents=True, hours=hours, wanted=wanted, within=grant,
                           offset=0, limit=10_000)  # fmt: skip
    shares: dict[Any, dict[int, float]] = {}
    classes: set[int] = set()
    for keys, sums, targets in by_class:
        if targets:
            read = QosRead.of(keys, sums, target_samples=targets)
            shares.setdefault(read.hour, {})[keys["class"]] = read.share_within_target or 0.0
            classes.add(keys["class"])
    rows = [[_hour(hour), *(_share(found.get(number)) for number in sorted(classes))] for hour, found in shares.items()]
    whole = qos.grouped(session, by=["hour"], of_agents=True, hours=hours, wanted=wanted, within=grant, offset=0,
                        limit=10_000)  # fmt: skip
    rates = [QosRead.of(keys, sums, target_samples=targets) for keys, sums, targets in whole]
    return {
        "qos": {"columns": [f"class {number}" for number in sorted(classes)], "rows": rows},
        "throughput": [[_hour(one.hour), _mbps(one.goodput_bytes_per_s)] for one in rates],
    }


def _hour(hour: Any) -> tuple[str, float]:
    return f"{hour:%Y-%m-%d %H:%M}", hour.timestamp()


def _share(share: float | None) -> tuple[str, float | None]:
    return percent(share), None if share is None else round(100 * share, 3)


def _mbps(rate: float | None) -> tuple[str, float | None]:
    return ("–", None) if rate is None else (f"{rate * 8e-6:.2f} Mbit/s", round(rate * 8e-6, 3))


@router.post("/agents/{agent_id}/remove")
async def remove(*, request: Request, context: InContext, caller: Administrator, agent_id: AgentId) -> Response:
    """Delete the reports of an agent."""
    await context.write(service.remove, agent_id, now=context.clock(), by=caller)
    return see_other(request, "fleet")
