# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/channels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Header, Query, Request, Response, status
from sqlalchemy.orm import Session

from serving.access.check import Mover, Reader, needs
from serving.access.grants import Caller
from serving.access.known import KnownTokens
from serving.access.routes import ApiRoute
from serving.channels import repository, service
from serving.channels.offers import Offer, Offers
from serving.channels.schemas import ChannelMove, DeploymentRead, IdempotencyKey, OfferRead, RollBack, idempotency_of
from serving.channels.signing import OfferSigner
from serving.channels.watch import SIGNED_ROWS, ChannelKey, ChannelWatch
from serving.context import Context, InContext
from serving.database import DeploymentRow
from serving.drift.schemas import ChannelRead, DriftSummary
from serving.drift.service import ChannelDrift
from serving.http.etags import IF_MATCH, IF_NONE_MATCH, IF_NONE_MATCH_MOVE
from serving.http.openapi import ETAG, answered
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.http.protocol import connection_of
from serving.names import AgentId, CcaName, ChannelName
from serving.roots import repository as roots
from serving.signatures import PrivateKey

router = APIRouter(prefix="/v1/channels", tags=["channels"], route_class=ApiRoute)

IfMatch = Annotated[str | None, Header(description=IF_MATCH)]


AGENT_HEADER = "Ccatune-Agent"


def add_parts(context: Context, *, key: PrivateKey | None) -> None:
    """Add what the channels keep in memory. key: signs deployments.

    Raises:
        SettingsError: the newest root document does not name the key.
    """
    settings = context.settings
    signer = OfferSigner(key, registry=context.registry, validity_s=settings.signature_validity_s, clock=context.clock)
    # A controller makes no offers.
    if settings.role != "controller":
        with context.database.read() as session:
            signer.require_named(session)

    def revisions() -> dict[ChannelKey, int]:
        with context.database.read() as session:
            return {**repository.heads(session), SIGNED_ROWS: roots.n_signed_rows(session)}

    watch = context.add(ChannelWatch(revisions, recheck_ms=settings.recheck_ms, spread_ms=settings.wake_spread_ms))
    context.on_stop.append(watch.close)
    context.add(Offers(context, watch=watch, signer=signer))


@router.get("")
async def list_channels(
    context: InContext,
    caller: Reader,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ChannelRead]:
    """List the channels, each with its current deployment and drift. A limited token sees those that it may read."""
    deployed = _reader(context)

    def page(session: Session) -> list[tuple[DeploymentRow, DriftSummary | None]]:
        after_id = cursor_position(cursor)
        rows = repository.list_page(session, cca=cca, after_id=after_id, limit=limit + 1, within=caller.grant)
        if caller.grant.agent_id is not None:
            return [(row, None) for row in rows]
        return list(zip(rows, context.part(ChannelDrift).summaries(session, rows, now=context.clock()), strict=True))

    return page_of(
        await context.read(page),
        limit=limit,
        item=lambda found: ChannelRead(**dict(deployed(found[0])), drift=found[1]),
        position=lambda found: found[0].channel_id,
    )


@router.get("/{cca}/{name}/history", dependencies=[needs("read")], responses=problems(404))
async def channel_history(
    *, context: InContext, cca: CcaName, name: ChannelName, limit: Limit = 50, cursor: Cursor = None
) -> Page[DeploymentRead]:
    """List the channel's deployments, newest first."""
    rows = await context.read(
        service.history, cca=cca, name=name, before_serial=cursor_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit=limit, item=_reader(context), position=lambda row: row.serial)


def _reader(context: Context) -> Callable[[DeploymentRow], DeploymentRead]:
    return functools.partial(DeploymentRead.of, registry=context.registry)


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
    change = change_of(
        context, caller, (cca, name), if_match=if_match, if_none_match=if_none_match, idempotency=idempotency
    )
    row, is_first = await context.write(service.move, change, body)
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
    change = change_of(context, caller, (cca, name), if_match=if_match, idempotency=idempotency)
    row = await context.write(service.roll_back, change, wanted)
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
    revision = await context.write(service.delete, change_of(context, caller, (cca, name), if_match=if_match))
    wake_later(context, background, (cca, name), revision=revision)


def change_of(context: Context, caller: Caller, key: ChannelKey, **conditions: Any) -> service.Change:
    """Return the request of a caller to change a channel."""
    cca, name = key
    return service.Change(registry=context.registry, cca=cca, name=name, by=caller, clock=context.clock, **conditions)


def _moved(context: Context, response: Response, background: BackgroundTasks, row: DeploymentRow) -> DeploymentRead:
    """Return the answer to a committed move. The channel's long polls are woken after the answer is sent."""
    moved = DeploymentRead.of(row, registry=context.registry)
    wake_later(context, background, (moved.cca, moved.channel), revision=row.channel.revision)
    response.headers["ETag"] = service.etag_of(row, registry=context.registry)
    return moved


def wake_later(context: Context, background: BackgroundTasks, key: ChannelKey, *, revision: int) -> None:
    """Wake the channel's long polls after the answer is sent."""

    async def wake() -> None:
        context.part(ChannelWatch).announce(key, serial=revision)

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
    agent_id: Annotated[
        AgentId | None,
        Header(
            alias=AGENT_HEADER,
            description="The agent's id, by which a roll-out knows its servers. That of the token counts more.",
        ),
    ] = None,
) -> Response:
    """Return the current deployment with its ensemble.

    With If-None-Match and `wait`, the answer is held until the channel is moved or the wait is over. With `wait`, a 404
    for a channel without a deployment is held, too, until the first deployment.
    """
    offer, is_held = await context.part(Offers).follow(
        (cca, name),
        agent_id=caller.grant.agent_id or agent_id,
        if_none_match=if_none_match,
        wait_s=min(wait, context.settings.max_wait_s),
        connection=connection_of(request.scope),
    )
    if is_held:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=offer_headers(offer))
    if wait > 0:
        await context.part(KnownTokens).require_live(caller.grant)
    return Response(offer.body, media_type="application/json", headers=offer_headers(offer))


def offer_headers(offer: Offer) -> dict[str, str]:
    """Return the headers of an answer to an agent, which a 304 has as well."""
    return {"ETag": offer.etag, "Cache-Control": "private, no-cache"}
