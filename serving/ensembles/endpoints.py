# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Response, status

from serving.access.check import Publisher, Reader
from serving.channels.signing import SIGNED_ROWS
from serving.context import InContext
from serving.database import EnsembleRow
from serving.ensembles import service, signing
from serving.ensembles.schemas import EnsembleSignatures, EnsembleSummary, PublishedEnsemble
from serving.http.etags import IF_NONE_MATCH, matches_weakly, quoted
from serving.http.example import EXAMPLE_DOCUMENT
from serving.http.openapi import ETAG, LOCATION, answered
from serving.http.paging import Cursor, Limit, Page, cursor_position
from serving.http.problems import problems
from serving.http.routes import LARGE_BODY, ApiRoute
from serving.names import CcaName, DigestText
from serving.roots import repository as roots
from serving.roots.schemas import SignedEnvelope

__all__ = ["router"]

router = APIRouter(prefix="/v1/ensembles", tags=["ensembles"], route_class=ApiRoute)

_DOCUMENT = {
    "application/json": {
        "schema": {"type": "object", "additionalProperties": True, "examples": [EXAMPLE_DOCUMENT]},
    }
}
_IMMUTABLE = "private, max-age=31536000, immutable"


@router.post(
    "",
    response_model=PublishedEnsemble,
    status_code=status.HTTP_201_CREATED,
    openapi_extra=LARGE_BODY,
    responses={
        200: answered("It was published before", LOCATION, model=PublishedEnsemble),
        201: answered("It is published now", LOCATION),
        **problems(413),
    },
)
async def publish_ensemble(
    context: InContext,
    caller: Publisher,
    response: Response,
    document: Annotated[
        dict[str, Any],
        Body(description="An ensemble as `ccatune train` writes it, digest included.", examples=[EXAMPLE_DOCUMENT]),
    ],
) -> PublishedEnsemble:
    """Publish an ensemble. It is committed before the answer. Publishing it again changes nothing."""
    row = await context.reads.run(lambda: service.prepare(document, now=context.clock()))
    caller.require("publish", cca=row.cca)

    def store() -> tuple[EnsembleRow, bool]:
        with context.database.write() as session:
            return service.publish(session, row, by=caller)

    kept, created = await context.writes.run(store)
    response.status_code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
    response.headers["Location"] = f"ensembles/{kept.digest}"
    return PublishedEnsemble(**EnsembleSummary.of(kept).model_dump(), created=created)


@router.get("")
async def list_ensembles(
    context: InContext,
    caller: Reader,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[EnsembleSummary]:
    """List the published ensembles, newest first. A limited token sees those of its algorithms."""
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
        200: answered("The ensemble's document", ETAG, content=_DOCUMENT),
        304: answered("The caller has it already", ETAG),
        **problems(404),
    },
)
async def get_ensemble(
    context: InContext,
    caller: Reader,
    digest: DigestText,
    if_none_match: Annotated[str | None, Header(description=IF_NONE_MATCH)] = None,
) -> Response:
    """Return the ensemble's document. Its bytes never change."""
    etag = quoted(digest)

    def read() -> str:
        with context.database.read() as session:
            return service.document(session, digest, by=caller)

    document = await context.reads.run(read)
    headers = {"ETag": etag, "Cache-Control": _IMMUTABLE}
    if matches_weakly(if_none_match, etag):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(document, media_type="application/json", headers=headers)


@router.post(
    "/{digest}/signatures",
    status_code=status.HTTP_201_CREATED,
    responses={
        200: {"model": EnsembleSignatures, "description": "They were uploaded before"},
        **problems(404, 409, 413),
    },
)
async def sign_ensemble(
    context: InContext, caller: Publisher, response: Response, digest: DigestText, body: SignedEnvelope
) -> EnsembleSignatures:
    """Upload publishers' signatures of a published ensemble. They are committed before the answer.

    Each valid signature of a key that the newest root document names in the role publisher is stored. Others in the
    same envelope are ignored. The answer lists all signatures of the ensemble.
    """
    envelope = body.to_envelope()

    def store() -> tuple[int, signing.SignaturesOf, int]:
        with context.database.write() as session:
            n_new = signing.add(session, envelope, digest=digest, now=context.clock(), by=caller)
            return n_new, signing.of_ensemble(session, digest, by=caller), roots.n_signed_rows(session)

    n_new, found, n_signed_rows = await context.writes.run(store)
    context.watch.announce(SIGNED_ROWS, serial=n_signed_rows)
    response.status_code = status.HTTP_201_CREATED if n_new > 0 else status.HTTP_200_OK
    return EnsembleSignatures.of(digest, found)


@router.get("/{digest}/signatures", responses=problems(404))
async def list_signatures(context: InContext, caller: Reader, digest: DigestText) -> EnsembleSignatures:
    """List the publishers' signatures of an ensemble, and whether they are enough for a move."""

    def read() -> signing.SignaturesOf:
        with context.database.read() as session:
            return signing.of_ensemble(session, digest, by=caller)

    return EnsembleSignatures.of(digest, await context.reads.run(read))
