# SPDX-License-Identifier: MIT
"""/ui/people: the accounts, for administrators.

Limits: the page shows the first 500 people. `ccatune people list` shows all.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response

from serving.access.check import Administrator
from serving.access.grants import ROLES
from serving.access.known import KnownTokens
from serving.access.schemas import PrincipalName
from serving.context import Context, InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PREFIX, PageRoute, form_of, page, see_other
from serving.people import accounts, repository, service
from serving.people.schemas import PersonCreate, PersonRead, PersonReset, PersonWithLink, RoleChange

router = APIRouter(prefix="/ui/people", route_class=PageRoute, include_in_schema=False)

_MOST = 500


@router.get("")
async def people(request: Request, context: InContext, caller: Administrator) -> Response:  # noqa: ARG001 - its scope is checked
    """Show the people."""
    return await _people_page(request, context)


@router.post("")
async def add(request: Request, context: InContext, caller: Administrator) -> Response:
    """Make an account, and show its set-up link once."""
    made = await accounts.create(context, model_of(PersonCreate, form_of(request)), by=caller)
    return await _people_page(request, context, made=made, status=HTTPStatus.CREATED)


@router.post("/{name}/role")
async def set_role(request: Request, context: InContext, caller: Administrator, name: PrincipalName) -> Response:
    """Change the role of a person."""
    wanted = model_of(RoleChange, form_of(request))
    await context.write(service.set_role, name, wanted.role, by=caller, now=context.clock())
    return see_other(request, "people")


@router.post("/{name}/reset")
async def reset(request: Request, context: InContext, caller: Administrator, name: PrincipalName) -> Response:
    """Reset an account, and show its set-up link once."""
    made = await accounts.reset(context, name, model_of(PersonReset, form_of(request)), by=caller)
    return await _people_page(request, context, made=made)


@router.post("/{name}/disable")
async def disable(request: Request, context: InContext, caller: Administrator, name: PrincipalName) -> Response:
    """Disable a person."""
    await context.write(service.disable, name, by=caller, now=context.clock())
    await context.part(KnownTokens).refresh()
    return see_other(request, "people")


async def _people_page(
    request: Request, context: Context, *, made: PersonWithLink | None = None, status: int = HTTPStatus.OK
) -> Response:
    rows = await context.read(repository.people_page, after_id=None, limit=_MOST)
    link = None if made is None or made.set_up_path is None else _address(request) + made.set_up_path
    return page(
        request,
        "people.html",
        title="People",
        status=status,
        people=[PersonRead.of(row) for row in rows],
        made=made,
        link=link,
        roles=tuple(ROLES),
    )


def _address(request: Request) -> str:
    """Return the registry's address as the browser has it. Behind a proxy it may have a path before /ui/."""
    own = f"{request.url.scheme}://{request.headers['host']}/"
    sender = urlsplit(request.headers.get("referer", ""))
    if sender.netloc != request.headers["host"] or PREFIX not in sender.path:
        return own
    return f"{sender.scheme}://{sender.netloc}{sender.path[: sender.path.index(PREFIX)]}/"
