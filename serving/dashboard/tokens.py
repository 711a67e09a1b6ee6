# SPDX-License-Identifier: MIT
"""/ui/tokens: the tokens of programs, for administrators. Only the answer that makes a token has its text."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from serving.access import repository, service
from serving.access.check import Administrator
from serving.access.endpoints import TokenId
from serving.access.grants import SCOPES
from serving.access.known import KnownTokens
from serving.access.schemas import PrincipalName, TokenCreate, TokenRead
from serving.access.token_text import new_token
from serving.context import InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PageRoute, form_of, page, see_other
from serving.errors import InvalidFormError
from serving.http.paging import Cursor, cursor_position, page_of

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_PER_PAGE = 100
_DAY_S = 86_400
_LIFETIMES_DAYS = (1, 7, 30, 90, 365)
_PERMITS = {
    "read": "to read, on these pages and by the API",
    "report": "an agent: to report what its kernel has",
    "publish": "to publish ensembles",
    "move": "to move channels and to roll them back",
    "roll-out": "to control roll-outs",
    "train": "to start and cancel jobs",
    "run-jobs": "a runner: to train jobs",
    "admin": "everything",
}


@router.get("/tokens")
async def tokens(
    *,
    request: Request,
    context: InContext,
    caller: Administrator,
    principal: Annotated[str, Query(max_length=128)] = "",
    cursor: Cursor = None,
) -> Response:
    """List the tokens without their texts, newest first: all, or those of a principal."""
    del caller
    rows = await context.read(
        repository.token_page, principal=principal or None, before_id=cursor_position(cursor), limit=_PER_PAGE + 1
    )
    now = context.clock()
    found = page_of(rows, limit=_PER_PAGE, item=lambda row: TokenRead.of(row, now=now), position=lambda row: row.id)
    return page(
        request, "tokens.html", title="Tokens", topics="audit", tokens=found.items, older=found.next_cursor,
        principal=principal, scopes=[(name, _PERMITS[name]) for name in SCOPES], lifetimes=_LIFETIMES_DAYS,
    )  # fmt: skip


@router.post("/tokens")
async def create(*, request: Request, context: InContext, caller: Administrator) -> Response:
    """Make a token. The answer has its text, and no browser keeps the answer (no-store)."""
    body = model_of(TokenCreate, _wanted(form_of(request), request.state.form.get("scopes", [])))
    new = new_token()
    row = await context.write(lambda session: service.create_token(session, body, new, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    made = TokenRead.of(row, now=row.created_at)
    return page(request, "token.html", title="New token", token=made, text=new.text)


def _wanted(form: dict[str, str], scopes: list[str]) -> dict[str, Any]:
    days = form.get("days", "never")
    if days != "never" and days not in map(str, _LIFETIMES_DAYS):
        raise InvalidFormError(f"days: expected one of {', '.join(map(str, _LIFETIMES_DAYS))} or never, got another")
    return {
        "principal": form.get("principal", ""),
        "kind": form.get("kind"),
        "scopes": scopes,
        "ccas": form["ccas"].split() if "ccas" in form else None,
        "channels": form["channels"].split() if "channels" in form else None,
        "agent_id": form.get("agent_id"),
        "lifetime_s": None if days == "never" else int(days) * _DAY_S,
    }


@router.post("/tokens/{token_id}/revoke")
async def revoke(*, request: Request, context: InContext, caller: Administrator, token_id: TokenId) -> Response:
    """Revoke a token, for ever."""
    await context.write(lambda session: service.revoke_token(session, token_id, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    return see_other(request, "tokens")


@router.post("/principals/{name}/disable")
async def disable(*, request: Request, context: InContext, caller: Administrator, name: PrincipalName) -> Response:
    """Disable a principal and all its tokens, for ever."""
    await context.write(lambda session: service.disable_principal(session, name, by=caller, now=context.clock()))
    await context.part(KnownTokens).refresh()
    return see_other(request, "tokens")
