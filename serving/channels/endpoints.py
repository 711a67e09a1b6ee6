# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/channels."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response, status
from starlette.concurrency import run_in_threadpool

from serving.channels import service
from serving.channels.schemas import ChannelMove, DeploymentRead, OfferRead, RollBack
from serving.context import Context, InContext
from serving.database import DeploymentRow
from serving.etags import IF_MATCH, IF_NONE_MATCH, IF_NONE_MATCH_MOVE, matches_weakly
from serving.names import CcaName, ChannelName
from serving.paging import Cursor, Limit, Page, cursor_position
from serving.problems import problems

__all__ = ["router"]

router = APIRouter(prefix="/v1/channels", tags=["channels"])

# Interval at which a long poll checks whether its client has disconnected.
_GONE_CHECK_S = 5.0

IfMatch = Annotated[str | None, Header(description=IF_MATCH)]


@router.get("", responses=problems(422))
def list_channels(
    context: InContext,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[DeploymentRead]:
    """List the channels, each with its current deployment."""
    with context.database.read() as session:
        rows, last = service.list_channels(session, cca=cca, after_id=cursor_position(cursor), limit=limit)
    items = [DeploymentRead.of(row, registry=context.registry) for row in rows]
    return Page(items=items, next_cursor=None if last is None else str(last.channel_id))


@router.get("/{cca}/{name}/history", responses=problems(404, 422))
def channel_history(
    context: InContext, cca: CcaName, name: ChannelName, limit: Limit = 50, cursor: Cursor = None
) -> Page[DeploymentRead]:
    """List the channel's deployments, newest first."""
    with context.database.read() as session:
        rows, last = service.history(session, cca=cca, name=name, before_serial=cursor_position(cursor), limit=limit)
    items = [DeploymentRead.of(row, registry=context.registry) for row in rows]
    return Page(items=items, next_cursor=None if last is None else str(last.serial))


@router.put(
    "/{cca}/{name}",
    responses={
        201: {"model": DeploymentRead, "description": "The channel's first deployment"},
        **problems(404, 409, 412, 413, 422),
    },
)
def move_channel(
    *,
    context: InContext,
    response: Response,
    cca: CcaName,
    name: ChannelName,
    body: ChannelMove,
    if_match: IfMatch = None,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH_MOVE)] = None,
) -> DeploymentRead:
    """Point the channel to an ensemble. This is a new deployment with the next serial, committed before the answer."""
    with context.database.write() as session:
        row = service.move(
            session,
            registry=context.registry,
            cca=cca,
            name=name,
            digest=body.digest,
            hold_back_permille=body.hold_back_permille,
            urgent=body.urgent,
            note=body.note,
            if_match=if_match,
            if_none_match=if_none_match,
            now=context.clock(),
        )
    if row.serial == 1:
        response.status_code = status.HTTP_201_CREATED
    return _moved(context, response, row)


@router.post(
    "/{cca}/{name}/rollback",
    status_code=status.HTTP_201_CREATED,
    responses=problems(404, 409, 412, 413, 422),
)
def roll_back_channel(
    *,
    context: InContext,
    response: Response,
    cca: CcaName,
    name: ChannelName,
    body: RollBack | None = None,
    if_match: IfMatch = None,
) -> DeploymentRead:
    """Point the channel back to its previous ensemble. This is a new deployment with the next serial."""
    wanted = body if body is not None else RollBack()
    with context.database.write() as session:
        row = service.roll_back(
            session,
            registry=context.registry,
            cca=cca,
            name=name,
            urgent=wanted.urgent,
            note=wanted.note,
            if_match=if_match,
            now=context.clock(),
        )
    return _moved(context, response, row)


def _moved(context: Context, response: Response, row: DeploymentRow) -> DeploymentRead:
    """Wake the channel's long polls and return the answer. Call this only after the commit."""
    moved = DeploymentRead.of(row, registry=context.registry)
    context.watch.announce((moved.cca, moved.channel), serial=moved.serial)
    response.headers["ETag"] = service.etag_of(row, registry=context.registry)
    return moved


@router.get(
    "/{cca}/{name}",
    response_model=OfferRead,
    responses={304: {"description": "The channel stands where the caller knows it to stand"}, **problems(404, 422)},
)
async def get_channel(
    request: Request,
    *,
    context: InContext,
    cca: CcaName,
    name: ChannelName,
    wait: Annotated[
        float,
        Query(
            ge=0,
            le=3600,
            description="Seconds to hold the request while If-None-Match is current; the registry bounds it.",
        ),
    ] = 0.0,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH)] = None,
) -> Response:
    """Return the current deployment with its ensemble.

    With If-None-Match and `wait`, the answer is held until the channel is moved or the wait is over.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + min(wait, context.settings.max_wait_s)
    while True:
        answer, serial = await run_in_threadpool(_offer, context, cca=cca, name=name, if_none_match=if_none_match)
        if answer.status_code != status.HTTP_304_NOT_MODIFIED:
            return answer
        if not await _moved_meanwhile(request, context, (cca, name), serial=serial, deadline_s=deadline_s):
            return answer


def _offer(context: Context, *, cca: str, name: str, if_none_match: str | None) -> tuple[Response, int]:
    """Return the answer for the current deployment, and its serial. A 304 does not read the ensemble's document."""
    with context.database.read() as session:
        if if_none_match is not None:
            row = service.current(session, cca=cca, name=name)
            headers = _headers(context, row)
            if matches_weakly(if_none_match, headers["ETag"]):
                return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers), row.serial
        row, document = service.current_with_document(session, cca=cca, name=name)
    head = json.dumps(DeploymentRead.of(row, registry=context.registry).model_dump(mode="json"))
    # The document is JSON already, so it is inserted as text. Parsing and encoding it would dominate the cost.
    body = f'{head[:-1]}, "ensemble": {document}}}'
    return Response(body, media_type="application/json", headers=_headers(context, row)), row.serial


def _headers(context: Context, row: DeploymentRow) -> dict[str, str]:
    return {"ETag": service.etag_of(row, registry=context.registry), "Cache-Control": "private, no-cache"}


async def _moved_meanwhile(
    request: Request, context: Context, key: tuple[str, str], *, serial: int, deadline_s: float
) -> bool:
    """Wait until the channel is moved. Return False if time is out, the client has disconnected or the server stops."""
    loop = asyncio.get_running_loop()
    while not context.watch.is_closed:
        left_s = deadline_s - loop.time()
        if left_s <= 0:
            return False
        if await context.watch.wait(key, serial=serial, timeout_s=min(left_s, _GONE_CHECK_S)):
            return True
        if await request.is_disconnected():
            return False
    return False
