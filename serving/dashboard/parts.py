# SPDX-License-Identifier: MIT
"""All routers of the pages, and what the pages keep in memory."""

from __future__ import annotations

from fastapi import APIRouter

from serving.context import Context
from serving.dashboard import assets, events, fleet, overview

ROUTERS: tuple[APIRouter, ...] = (assets.router, events.router, overview.router, fleet.router)


def add_parts(context: Context) -> None:
    """Add what the pages keep in memory."""
    changes = context.add(events.Changes(context))
    context.on_stop.append(changes.close)
