# SPDX-License-Identifier: MIT
"""HTTP endpoints of /v1/token, /v1/tokens, /v1/principals and /v1/audit. All but the first need the scope admin."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response, status

from serving.access import repository, service
from serving.access.check import Administrator, Holder, needs
from serving.access.known import KnownTokens
from serving.access.routes import ApiRoute
from serving.access.schemas import (
    AuditRead,
    OwnToken,
    PrincipalName,
    PrincipalRead,
    TokenCreate,
    TokenCreated,
    TokenRead,
)
from serving.access.token_text import new_token
from serving.context import InContext
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems

router = APIRouter(prefix="/v1", tags=["access"], route_class=ApiRoute)

TokenId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{16}$", description="A token's id: 16 hexadecimal digits.", examples=["0123456789abcdef"]),
]
_Word = Annotated[str | None, Query(pattern=r"^[ -~]{1,256}$")]


@router.post("/tokens", status_code=status.HTTP_201_CREATED, responses=problems(409, 413))
async def create_token(
    context: InContext, caller: Administrator, response: Response, body: TokenCreate
) -> TokenCreated:
    """Make a token, and its principal if there is none. No later answer contains the token's text."""
    new = new_token()
    row = await context.write(lambda session: service.create_token(session, body, new, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    response.headers["Cache-Control"] = "no-store"
    return TokenCreated(**TokenRead.of(row, now=row.created_at).model_dump(), token=new.text)


@router.get("/token")
async def own_token(caller: Holder) -> OwnToken:
    """Return what the token of this request permits, and for which agent it is. Any token permits this request."""
    return OwnToken.of(caller.grant)


@router.get("/tokens", dependencies=[needs("admin")])
async def list_tokens(
    context: InContext,
    principal: Annotated[PrincipalName | None, Query(description="Only those of this principal.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[TokenRead]:
    """List the tokens without their texts, newest first."""
    rows = await context.read(
        repository.token_page, principal=principal, before_id=cursor_position(cursor), limit=limit + 1
    )
    now = context.clock()
    return page_of(rows, limit=limit, item=lambda row: TokenRead.of(row, now=now), position=lambda row: row.id)


@router.delete("/tokens/{token_id}", responses=problems(404))
async def revoke_token(context: InContext, caller: Administrator, token_id: TokenId) -> TokenRead:
    """Revoke a token, for ever. Other processes on the same database accept it for some more seconds."""
    row = await context.write(lambda session: service.revoke_token(session, token_id, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    return TokenRead.of(row, now=context.clock())


@router.delete("/principals/{name}", responses=problems(404))
async def disable_principal(context: InContext, caller: Administrator, name: PrincipalName) -> PrincipalRead:
    """Disable a principal: all its tokens are revoked, and it gets no new one."""
    row = await context.write(lambda session: service.disable_principal(session, name, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    return PrincipalRead.model_validate(row)


@router.get("/audit", dependencies=[needs("admin")])
async def list_audit(
    *,
    context: InContext,
    actor: Annotated[_Word, Query(description="Only changes by this principal.")] = None,
    action: Annotated[_Word, Query(description="Only this kind of change, such as `move`.")] = None,
    target: Annotated[_Word, Query(description="Only changes of this, such as `channel gr/champion`.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AuditRead]:
    """List the changes, newest first."""
    rows = await context.read(
        repository.audit_page,
        actor=actor,
        action=action,
        target=target,
        before_id=cursor_position(cursor),
        limit=limit + 1,
    )
    return page_of(rows, limit=limit, item=AuditRead.model_validate, position=lambda row: row.id)
