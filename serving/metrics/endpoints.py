# SPDX-License-Identifier: MIT
"""GET /metrics: all figures, as Prometheus reads them.

The format is Prometheus' text, or OpenMetrics if the request accepts it. A scrape needs a token with the scope read
that has no limits, because the figures are those of all algorithms, channels and agents.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Response
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from serving.access.check import Reader
from serving.access.routes import ApiRoute
from serving.context import Context, InContext
from serving.errors import NotPermittedError
from serving.http.access_log import AccessLog
from serving.metrics.fleet import FleetFigures
from serving.metrics.process import ProcessFigures
from serving.metrics.requests import RequestFigures

router = APIRouter(tags=["metrics"], route_class=ApiRoute)


class Figures:
    """All figures of one registry's process."""

    def __init__(self, context: Context, *, version: str) -> None:
        self.requests = context.part(RequestFigures)
        self.fleet = FleetFigures(context)
        # Several registries may run in one process, so that none of them uses the library's own, global one.
        self.collected = CollectorRegistry(auto_describe=False)
        for collector in (self.requests, self.fleet, ProcessFigures(context, version=version)):
            self.collected.register(collector)
        ProcessCollector(registry=self.collected)
        GCCollector(registry=self.collected)


def add_parts(context: Context, *, version: str) -> None:
    """Add the figures. The parts that they read must be there."""
    settings = context.settings
    log = AccessLog(slow_s=settings.slow_request_s, logs_all=settings.access_log)
    context.add(RequestFigures(log))
    context.add(Figures(context, version=version))


@router.get("/metrics", include_in_schema=False)
async def metrics(context: InContext, caller: Reader, accept: Annotated[str, Header()] = "") -> Response:
    """Return the figures of this process, and those of the whole fleet from the database."""
    grant = caller.grant
    if (grant.ccas, grant.channels, grant.agent_id) != (None, None, None):
        raise NotPermittedError(
            "expected a token without limits for the figures of all algorithms, channels and agents, got one with; "
            "make another one: `ccatune tokens create prometheus --kind ci --scope read --expires 90d`"
        )
    figures = context.part(Figures)
    await figures.fleet.refresh()
    encode, media_type = choose_encoder(accept)
    # In no thread for database work: all of those may wait for a database that does not answer.
    return Response(await asyncio.to_thread(encode, figures.collected), media_type=media_type)
