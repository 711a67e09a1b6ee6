# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/channels/{cca}/{name}/rollouts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Path, status

from serving.access.check import Roller, needs
from serving.access.routes import ApiRoute
from serving.channels.endpoints import IfMatch, change_of, wake_later
from serving.channels.schemas import IdempotencyKey, idempotency_of
from serving.context import Context, InContext
from serving.database import RolloutRow
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.names import CcaName, ChannelName
from serving.rollouts import repository, service
from serving.rollouts.controller import RolloutController
from serving.rollouts.plan import Plan
from serving.rollouts.rehearsal import rehearse
from serving.rollouts.schemas import (
    RehearsedStep,
    RolloutAction,
    RolloutEventRead,
    RolloutRead,
    RolloutRequest,
    RolloutStart,
)

router = APIRouter(prefix="/v1/channels/{cca}/{name}/rollouts", tags=["rollouts"], route_class=ApiRoute)

Action = Annotated[RolloutAction, Path(description="What to do with it.")]
Number = Annotated[int, Path(ge=1, le=2**63 - 1, description="The roll-out's number.")]


def add_parts(context: Context) -> None:
    """Add the judge of the roll-outs."""
    context.add(RolloutController(context))


@router.post("", status_code=status.HTTP_201_CREATED, responses=problems(404, 409, 412, 413))
async def start_rollout(
    *,
    context: InContext,
    caller: Roller,
    background: BackgroundTasks,
    cca: CcaName,
    name: ChannelName,
    body: RolloutStart,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> RolloutRead:
    """Begin to move the channel to an ensemble in steps, of which each must show no harm."""
    idempotency = idempotency_of(idempotency_key, kind="roll-out", body=body.model_dump(mode="json"), if_match=if_match)
    change = change_of(context, caller, (cca, name), if_match=if_match, idempotency=idempotency)
    kept_days = context.settings.qos_agent_retention_days
    needs_shadow = context.settings.shadow_gate == "required"
    row = await context.write(service.start, change, body, kept_days=kept_days, needs_shadow=needs_shadow)
    return _changed(context, background, row)


@router.post("/rehearsal", dependencies=[needs("read")], responses=problems(404, 409, 413))
async def rehearse_rollout(*, context: InContext, cca: CcaName, name: ChannelName, body: Plan) -> list[RehearsedStep]:
    """Judge a plan on the figures of the last two days, for a candidate without effect. Changes nothing."""
    kept_days = context.settings.qos_agent_retention_days
    return await context.read(rehearse, cca=cca, name=name, plan=body, now=context.clock(), kept_days=kept_days)


@router.get("", dependencies=[needs("read")])
async def list_rollouts(
    *, context: InContext, cca: CcaName, name: ChannelName, limit: Limit = 50, cursor: Cursor = None
) -> Page[RolloutRead]:
    """List the channel's roll-outs, newest first."""
    rows = await context.read(repository.page, cca=cca, name=name, before_id=cursor_position(cursor), limit=limit + 1)
    return page_of(rows, limit=limit, item=RolloutRead.of, position=lambda row: row.id)


@router.get("/{number}", dependencies=[needs("read")], responses=problems(404))
async def get_rollout(*, context: InContext, cca: CcaName, name: ChannelName, number: Number) -> RolloutRead:
    """Return where a roll-out stands."""
    return RolloutRead.of(await context.read(service.get, cca=cca, name=name, rollout_id=number))


@router.get("/{number}/events", dependencies=[needs("read")], responses=problems(404))
async def list_rollout_events(
    *, context: InContext, cca: CcaName, name: ChannelName, number: Number, limit: Limit = 50, cursor: Cursor = None
) -> Page[RolloutEventRead]:
    """List what was done in a roll-out and why, newest first."""
    rows = await context.read(
        service.record_of, cca=cca, name=name, rollout_id=number, before_id=cursor_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit=limit, item=RolloutEventRead.of, position=lambda row: row.id)


@router.post("/{number}/{action}", responses=problems(404, 409, 413))
async def change_rollout(
    *,
    context: InContext,
    caller: Roller,
    background: BackgroundTasks,
    cca: CcaName,
    name: ChannelName,
    number: Number,
    action: Action,
    body: RolloutRequest | None = None,
) -> RolloutRead:
    """Pause, resume, abort or promote a roll-out."""
    note = "" if body is None else body.note
    change = change_of(context, caller, (cca, name), if_match=None)
    row = await context.write(service.request, change, number, action, note=note)
    return _changed(context, background, row)


def _changed(context: Context, background: BackgroundTasks, row: RolloutRow) -> RolloutRead:
    wake_later(context, background, (row.channel.cca, row.channel.name), revision=row.channel.revision)
    return RolloutRead.of(row)
