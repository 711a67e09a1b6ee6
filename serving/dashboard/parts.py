# SPDX-License-Identifier: MIT
"""All routers of the pages, and what the pages keep in memory."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from serving.access.check import Reader
from serving.context import Context
from serving.dashboard import (
    assets,
    audit,
    channel_forms,
    channels,
    ensembles,
    events,
    fleet,
    jobs,
    keys,
    links,
    overview,
    rollout_start,
    rollouts,
    tokens,
)
from serving.dashboard.pages import PageRoute, error_page

_others = APIRouter(route_class=PageRoute, include_in_schema=False)

# Of two that fit an address the first one answers: `rollouts/start` before `rollouts/{number}`. The last one answers
# any other address below /ui/.
ROUTERS: tuple[APIRouter, ...] = (
    assets.router,
    events.router,
    overview.router,
    fleet.router,
    channels.router,
    channel_forms.router,
    rollout_start.router,
    rollouts.router,
    ensembles.router,
    jobs.router,
    links.router,
    keys.router,
    tokens.router,
    audit.router,
    _others,
)


def add_parts(context: Context) -> None:
    """Add what the pages keep in memory."""
    changes = context.add(events.Changes(context))
    context.on_stop.append(changes.close)


@_others.get("/ui")
async def without_slash() -> Response:
    """Lead to the first page."""
    return RedirectResponse("ui/")


@_others.get("/ui/{name:path}")
async def unknown(*, request: Request, caller: Reader, name: str) -> Response:
    """Say that there is no such page."""
    del caller
    return error_page(request, 404, "No such page", f"expected the address of a page, got /ui/{name}")
