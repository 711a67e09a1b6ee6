# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/roots."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response, status

from serving.access.check import Administrator, needs
from serving.access.routes import ApiRoute
from serving.channels.offers import Offers
from serving.channels.watch import SIGNED_ROWS, ChannelWatch
from serving.context import InContext
from serving.http.openapi import LOCATION, answered
from serving.http.problems import problems
from serving.roots import service
from serving.roots.schemas import RootAdded, RootEnvelope

router = APIRouter(prefix="/v1/roots", tags=["roots"], route_class=ApiRoute)

_IMMUTABLE = "private, max-age=31536000, immutable"


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses={
        200: answered("It was uploaded before", LOCATION, model=RootAdded),
        201: answered("It is the newest version now", LOCATION),
        **problems(409, 413),
    },
)
async def add_root(context: InContext, caller: Administrator, response: Response, body: RootEnvelope) -> RootAdded:
    """Upload the next version of the root document. It is committed before the answer.

    The first document is trusted as it is. Each further one must be signed by enough root keys of the newest one and
    by enough of its own.
    """
    envelope = body.to_envelope()
    row, created, n_signed_rows = await context.write(
        lambda session: service.add(
            session,
            envelope,
            registry=context.registry,
            signing_key_id=context.part(Offers).signer.key_id,
            now=context.clock(),
            by=caller,
        )
    )
    context.part(ChannelWatch).announce(SIGNED_ROWS, serial=n_signed_rows)
    response.status_code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
    response.headers["Location"] = f"roots/{row.version}"
    return RootAdded.of(row, created=created)


@router.get("", response_model=RootEnvelope, dependencies=[needs("read")], responses=problems(404))
async def newest_root(context: InContext) -> Response:
    """Return the newest root document, as it was uploaded."""
    row = await context.read(service.newest)
    return Response(row.envelope, media_type="application/json", headers={"Cache-Control": "private, no-cache"})


@router.get("/{version}", response_model=RootEnvelope, dependencies=[needs("read")], responses=problems(404))
async def get_root(
    context: InContext,
    version: Annotated[int, Path(ge=1, le=2**63 - 1, description="Version of the document.")],
) -> Response:
    """Return a version of the root document, as it was uploaded. It never changes."""
    row = await context.read(service.of_version, version)
    return Response(row.envelope, media_type="application/json", headers={"Cache-Control": _IMMUTABLE})
