# SPDX-License-Identifier: MIT
"""HTTP endpoints of files of observations: below /v1/observations, and the upload below /v1/agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response, status

from serving.access.check import Reader, needs
from serving.access.routes import LARGE_BODY, ApiRoute
from serving.context import Context, InContext
from serving.http.openapi import answered
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.names import AgentId, DigestText
from serving.observations import repository, service
from serving.observations.retention import ObservationRetention
from serving.observations.schemas import ObservationFile

router = APIRouter(prefix="/v1", tags=["observations"], route_class=ApiRoute)

_BYTES = "application/octet-stream"
_FILE = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}


def add_parts(context: Context) -> None:
    """Add the deletion of old files."""
    context.add(ObservationRetention(context))


@router.put(
    "/agents/{agent_id}/observations/{digest}",
    status_code=status.HTTP_201_CREATED,
    dependencies=[needs("report")],
    openapi_extra=LARGE_BODY,
    responses={200: {"model": ObservationFile, "description": "It was uploaded before"}, **problems(413)},
)
async def upload_observations(
    context: InContext,
    response: Response,
    agent_id: AgentId,
    digest: DigestText,
    content: Annotated[bytes, Body(media_type=_BYTES, description="A file that `ccatune observe` wrote.")],
) -> ObservationFile:
    """Store a file of observations. It is committed before the answer. Uploading it again changes nothing."""
    row = await context.reads.run(lambda: service.prepare(content, digest=digest, agent_id=agent_id))
    row.received_at = context.clock()
    kept, is_new = await context.write(service.keep, row, settings=context.settings)
    response.status_code = status.HTTP_201_CREATED if is_new else status.HTTP_200_OK
    return ObservationFile.model_validate(kept)


@router.get("/observations")
async def list_observations(
    context: InContext,
    caller: Reader,
    agent_id: Annotated[AgentId | None, Query(description="Only files of this agent.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ObservationFile]:
    """List the files of observations, the newest upload first. A limited token sees those of its agent."""
    rows = await context.read(
        repository.page_newest_first,
        agent_id=agent_id,
        before_id=cursor_position(cursor),
        limit=limit + 1,
        within_agent=caller.grant.agent_id,
    )
    return page_of(rows, limit=limit, item=ObservationFile.model_validate, position=lambda row: row.id)


@router.get(
    "/observations/{digest}",
    response_class=Response,
    responses={200: answered("The file", content=_FILE), **problems(404)},
)
async def get_observations(context: InContext, caller: Reader, digest: DigestText) -> Response:
    """Return a file of observations, as it was uploaded."""
    return Response(await context.read(service.content, digest, by=caller), media_type=_BYTES)
