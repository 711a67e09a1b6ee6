# SPDX-License-Identifier: MIT
"""HTTP endpoints of /v1/people, which need the scope admin. DELETE /v1/principals/{name} disables a person."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from serving.access.check import Administrator, needs
from serving.access.routes import ApiRoute
from serving.access.schemas import PrincipalName
from serving.context import InContext
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.people import accounts, repository, service
from serving.people.schemas import PersonCreate, PersonRead, PersonReset, PersonWithLink, RoleChange

router = APIRouter(prefix="/v1/people", tags=["people"], route_class=ApiRoute)


@router.post("", status_code=status.HTTP_201_CREATED, responses=problems(409, 413))
async def create_person(
    context: InContext, caller: Administrator, response: Response, body: PersonCreate
) -> PersonWithLink:
    """Make an account with a set-up link, or with a password that serves only to choose another one."""
    response.headers["Cache-Control"] = "no-store"
    return await accounts.create(context, body, by=caller)


@router.get("", dependencies=[needs("admin")])
async def list_people(context: InContext, limit: Limit = 50, cursor: Cursor = None) -> Page[PersonRead]:
    """List the people in the order in which their accounts were made."""
    rows = await context.read(repository.people_page, after_id=cursor_position(cursor), limit=limit + 1)
    return page_of(rows, limit=limit, item=PersonRead.of, position=lambda row: row.principal_id)


@router.put("/{name}/role", responses=problems(404, 409, 413))
async def set_role(context: InContext, caller: Administrator, name: PrincipalName, body: RoleChange) -> PersonRead:
    """Change the role of a person, whose sessions end."""
    return PersonRead.of(await context.write(service.set_role, name, body.role, by=caller, now=context.clock()))


@router.post("/{name}/reset", responses=problems(404, 409, 413))
async def reset_person(
    context: InContext, caller: Administrator, response: Response, name: PrincipalName, body: PersonReset
) -> PersonWithLink:
    """Remove the password and passkeys of a person, and end the sessions. The person sets a password anew."""
    response.headers["Cache-Control"] = "no-store"
    return await accounts.reset(context, name, body, by=caller)
