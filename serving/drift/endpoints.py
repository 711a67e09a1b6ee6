# SPDX-License-Identifier: MIT
"""The HTTP endpoint /v1/channels/{cca}/{name}/drift."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from serving.access.check import Reader
from serving.access.routes import ApiRoute
from serving.context import Context, InContext
from serving.drift.schemas import DriftRead
from serving.drift.service import DEFAULT_HOURS, ChannelDrift
from serving.http.problems import problems
from serving.names import CcaName, ChannelName

_MOST_HOURS = 24 * 366

router = APIRouter(prefix="/v1/channels/{cca}/{name}/drift", tags=["drift"], route_class=ApiRoute)


def add_parts(context: Context) -> None:
    """Add what is kept in memory."""
    context.add(ChannelDrift())


@router.get("", responses=problems(404))
async def get_drift(
    *,
    context: InContext,
    caller: Reader,
    cca: CcaName,
    name: ChannelName,
    hours: Annotated[
        int, Query(ge=1, le=_MOST_HOURS, description="Compare the sums of so many hours, and of the current one.")
    ] = DEFAULT_HOURS,
) -> DriftRead:
    """Compare the flows of the channel's current ensemble with its training."""
    drift = context.part(ChannelDrift)
    return await context.read(drift.details, cca=cca, name=name, hours=hours, now=context.clock(), caller=caller)
