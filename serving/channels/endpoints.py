# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Header, Query, Request, Response, status

from serving.access.check import Mover, Reader, needs
from serving.channels import repository, service
from serving.channels.idempotency import IdempotencyKey, idempotency_of
from serving.channels.offers import Offer
from serving.channels.schemas import ChannelMove, DeploymentRead, OfferRead, RollBack
from serving.channels.watch import ChannelKey
from serving.context import Context, InContext
from serving.database import DeploymentRow
from serving.http.etags import IF_MATCH, IF_NONE_MATCH, IF_NONE_MATCH_MOVE
from serving.http.openapi import ETAG, answered
from serving.http.paging import Cursor, Limit, Page, cursor_position
from serving.http.problems import problems
from serving.http.protocol import connection_of
from serving.http.routes import ApiRoute
from serving.names import CcaName, ChannelName

__all__ = ["offer_headers", "router"]

router = APIRouter(prefix="/v1/channels", tags=["channels"], route_class=ApiRoute)

_DeploymentPage = tuple[Sequence[DeploymentRow], DeploymentRow | None]
IfMatch = Annotated[str | None, Header(description=IF_MATCH)]


@router.get("")
async def list_channels(
    context: InContext,
    caller: Reader,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[DeploymentRead]:
    """List the channels, each with its current deployment. A limited token sees those that it may read."""
    after_id = cursor_position(cursor)

    def page() -> _DeploymentPage:
        with context.database.read() as session:
            return service.list_channels(session, cca=cca, after_id=after_id, limit=limit, by=caller)

    rows, last = await context.reads.run(page)
    items = [DeploymentRead.of(row, registry=context.registry) for row in rows]
    return Page(items=items, next_cursor=None if last is None else str(last.channel_id))


@router.get("/{cca}/{name}/history", dependencies=[needs("read")], responses=problems(404))
async def channel_history(
    *, context: InContext, cca: CcaName, name: ChannelName, limit: Limit = 50, cursor: Cursor = None
) -> Page[DeploymentRead]:
    """List the channel's deployments, newest first."""
    before_serial = cursor_position(cursor)

    def page() -> _DeploymentPage:
        with context.database.read() as session:
            return service.history(session, cca=cca, name=name, before_serial=before_serial, limit=limit)

    rows, last = await context.reads.run(page)
    items = [DeploymentRead.of(row, registry=context.registry) for row in rows]
    return Page(items=items, next_cursor=None if last is None else str(last.serial))


@router.put(
    "/{cca}/{name}",
    responses={
        200: answered("The new deployment", ETAG),
        201: answered("The channel's first deployment, which makes the channel", ETAG, model=DeploymentRead),
        **problems(404, 409, 412, 413),
    },
)
async def move_channel(
    *,
    context: InContext,
    caller: Mover,
    response: Response,
    background: BackgroundTasks,
    cca: CcaName,
    name: ChannelName,
    body: ChannelMove,
    if_match: IfMatch = None,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH_MOVE)] = None,
    idempotency_key: IdempotencyKey = None,
) -> DeploymentRead:
    """Point the channel to an ensemble. This is a new deployment with the next serial, committed before the answer."""
    idempotency = idempotency_of(
        idempotency_key, kind="move", body=body.model_dump(), if_match=if_match, if_none_match=if_none_match
    )

    def move() -> tuple[DeploymentRow, bool]:
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
                idempotency=idempotency,
                by=caller,
            )
            return row, repository.is_first(session, row)

    row, is_first = await context.writes.run(move)
    if is_first:
        response.status_code = status.HTTP_201_CREATED
    return _moved(context, response, background, row)


@router.post(
    "/{cca}/{name}/rollback",
    status_code=status.HTTP_201_CREATED,
    responses={201: answered("The new deployment", ETAG), **problems(404, 409, 412, 413)},
)
async def roll_back_channel(
    *,
    context: InContext,
    caller: Mover,
    response: Response,
    background: BackgroundTasks,
    cca: CcaName,
    name: ChannelName,
    body: RollBack | None = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> DeploymentRead:
    """Point the channel back to its previous ensemble. This is a new deployment with the next serial."""
    wanted = body if body is not None else RollBack()
    idempotency = idempotency_of(idempotency_key, kind="roll-back", body=wanted.model_dump(), if_match=if_match)

    def roll_back() -> DeploymentRow:
        with context.database.write() as session:
            return service.roll_back(
                session,
                registry=context.registry,
                cca=cca,
                name=name,
                urgent=wanted.urgent,
                note=wanted.note,
                if_match=if_match,
                now=context.clock(),
                idempotency=idempotency,
                by=caller,
            )

    row = await context.writes.run(roll_back)
    return _moved(context, response, background, row)


@router.delete("/{cca}/{name}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(404, 412))
async def delete_channel(
    *,
    context: InContext,
    caller: Mover,
    background: BackgroundTasks,
    cca: CcaName,
    name: ChannelName,
    if_match: IfMatch = None,
) -> None:
    """Delete the channel and its history. Its agents keep their tables and report the state NoChannel.

    Serials of a channel that is made again under this name go on from the last one.
    """

    def delete() -> int:
        with context.database.write() as session:
            return service.delete(
                session,
                registry=context.registry,
                cca=cca,
                name=name,
                if_match=if_match,
                now=context.clock(),
                by=caller,
            )

    serial = await context.writes.run(delete)
    _wake_later(context, background, (cca, name), serial=serial)


def _moved(context: Context, response: Response, background: BackgroundTasks, row: DeploymentRow) -> DeploymentRead:
    """Return the answer to a committed move. The channel's long polls are woken after the answer is sent."""
    moved = DeploymentRead.of(row, registry=context.registry)
    _wake_later(context, background, (moved.cca, moved.channel), serial=moved.serial)
    response.headers["ETag"] = service.etag_of(row, registry=context.registry)
    return moved


def _wake_later(context: Context, background: BackgroundTasks, key: ChannelKey, *, serial: int) -> None:
    async def wake() -> None:
        context.watch.announce(key, serial=serial)

    background.add_task(wake)


@router.get(
    "/{cca}/{name}",
    response_model=OfferRead,
    responses={
        200: answered("The current deployment with its ensemble", ETAG),
        304: answered("The current deployment is still the one that If-None-Match names", ETAG),
        **problems(404),
    },
)
async def get_channel(
    request: Request,
    *,
    context: InContext,
    caller: Reader,
    cca: CcaName,
    name: ChannelName,
    wait: Annotated[
        float,
        Query(
            ge=0,
            le=3600,
            description="Seconds to hold the request while If-None-Match is current, or while the channel has no "
            "deployment; the registry bounds it.",
        ),
    ] = 0.0,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH)] = None,
) -> Response:
    """Return the current deployment with its ensemble.

    With If-None-Match and `wait`, the answer is held until the channel is moved or the wait is over. With `wait`, a 404
    for a channel without a deployment is held, too, until the first deployment.
    """
    offer, is_held = await context.offers.follow(
        (cca, name),
        if_none_match=if_none_match,
        wait_s=min(wait, context.settings.max_wait_s),
        connection=connection_of(request.scope),
    )
    if is_held:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=offer_headers(offer))
    if wait > 0:
        await context.tokens.require_live(caller.grant)
    return Response(offer.body, media_type="application/json", headers=offer_headers(offer))


def offer_headers(offer: Offer) -> dict[str, str]:
    """Return the headers of an answer to an agent, which a 304 has as well."""
    return {"ETag": offer.etag, "Cache-Control": "private, no-cache"}
