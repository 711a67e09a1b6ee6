# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/ensembles."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Response, status

from serving.access.check import Publisher, Reader
from serving.access.routes import LARGE_BODY, ApiRoute
from serving.channels.watch import SIGNED_ROWS, ChannelWatch
from serving.context import InContext
from serving.ensembles import repository, service, signing
from serving.ensembles.schemas import EnsembleSignatures, EnsembleSummary, PublishedEnsemble
from serving.http.etags import IF_NONE_MATCH, matches_weakly, quoted
from serving.http.openapi import ETAG, LOCATION, answered
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.names import EXAMPLE_DOCUMENT, CcaName, DigestText
from serving.roots.schemas import SignedEnvelope

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
    row = await context.reads.run(lambda: service.prepare(document))
    caller.require("publish", cca=row.cca)
    kept, created = await context.write(lambda session: service.publish(session, row, by=caller, now=context.clock()))
    response.status_code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
    response.headers["Location"] = f"ensembles/{kept.digest}"
    return PublishedEnsemble(**EnsembleSummary.model_validate(kept).model_dump(), created=created)


@router.get("")
async def list_ensembles(
    context: InContext,
    caller: Reader,
    cca: Annotated[CcaName | None, Query(description="Only those of this algorithm.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[EnsembleSummary]:
    """List the published ensembles, newest first. A limited token sees those of its algorithms."""
    rows = await context.read(
        repository.page_newest_first,
        cca=cca,
        before_id=cursor_position(cursor),
        limit=limit + 1,
        within_ccas=caller.grant.ccas,
    )
    return page_of(rows, limit=limit, item=EnsembleSummary.model_validate, position=lambda row: row.id)


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
    document = await context.read(service.document, digest, by=caller)
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
    n_new, found, n_signed_rows = await context.write(
        lambda session: signing.add(session, envelope, digest=digest, now=context.clock(), by=caller)
    )
    context.part(ChannelWatch).announce(SIGNED_ROWS, serial=n_signed_rows)
    response.status_code = status.HTTP_201_CREATED if n_new > 0 else status.HTTP_200_OK
    return EnsembleSignatures.of(digest, found)


@router.get("/{digest}/signatures", responses=problems(404))
async def list_signatures(context: InContext, caller: Reader, digest: DigestText) -> EnsembleSignatures:
    """List the publishers' signatures of an ensemble, and whether they are enough for a move."""
    return EnsembleSignatures.of(digest, await context.read(signing.of_ensemble, digest, by=caller))
