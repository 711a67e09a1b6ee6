# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Response, status

from serving.access.check import InCaller
from serving.context import InContext
from serving.database import EnsembleRow
from serving.ensembles import service
from serving.ensembles.schemas import EnsembleSummary, PublishedEnsemble
from serving.etags import IF_NONE_MATCH, matches_weakly, quoted
from serving.names import CcaName, DigestText
from serving.paging import Cursor, Limit, Page, cursor_position
from serving.problems import problems

__all__ = ["router"]

router = APIRouter(prefix="/v1/ensembles", tags=["ensembles"])

_JSON_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_IMMUTABLE = "private, max-age=31536000, immutable"


@router.post(
    "",
    response_model=PublishedEnsemble,
    status_code=status.HTTP_201_CREATED,
    responses={200: {"model": PublishedEnsemble, "description": "It was published before"}, **problems(413, 422)},
)
async def publish(
    context: InContext,
    caller: InCaller,
    response: Response,
    document: Annotated[dict[str, Any], Body(description="An ensemble as `ccatune train` writes it, digest included.")],
) -> PublishedEnsemble:
    """Publish an ensemble. It is committed before the answer. Publishing it again changes nothing."""
    caller.require("publish")
    row = await context.reads.run(lambda: service.prepare(document, now=context.clock()))
    caller.require("publish", cca=row.cca)

    def store() -> tuple[EnsembleRow, bool]:
        with context.database.write() as session:
            return service.publish(session, row, by=caller)

    kept, created = await context.writes.run(store)
    response.status_code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
    response.headers["Location"] = f"/v1/ensembles/{kept.digest}"
    return PublishedEnsemble(**EnsembleSummary.of(kept).model_dump(), created=created)


@router.get("", responses=problems(422))
async def list_ensembles(
    context: InContext,
    caller: InCaller,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[EnsembleSummary]:
    """List the published ensembles, newest first. A limited token sees those of its algorithms."""
    caller.require("read")
    before_id = cursor_position(cursor)

    def page() -> tuple[Sequence[EnsembleRow], EnsembleRow | None]:
        with context.database.read() as session:
            return service.page(session, cca=cca, before_id=before_id, limit=limit, by=caller)

    rows, last = await context.reads.run(page)
    return Page(items=[EnsembleSummary.of(row) for row in rows], next_cursor=None if last is None else str(last.id))


@router.get(
    "/{digest}",
    response_class=Response,
    responses={
        200: {
            "description": "The ensemble's document",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        304: {"description": "The caller has it already"},
        **problems(404, 422),
    },
)
async def get_ensemble(
    context: InContext,
    caller: InCaller,
    digest: DigestText,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH)] = None,
) -> Response:
    """Return the ensemble's document. Its bytes never change."""
    caller.require("read")
    etag = quoted(digest)

    def read() -> str:
        with context.database.read() as session:
            return service.document(session, digest, by=caller)

    document = await context.reads.run(read)
    headers = {"ETag": etag, "Cache-Control": _IMMUTABLE}
    if matches_weakly(if_none_match, etag):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(document, media_type="application/json", headers=headers)
