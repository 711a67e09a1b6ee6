# SPDX-License-Identifier: MIT
"""All routers of the pages, and what the pages keep in memory."""

from __future__ import annotations

from fastapi import APIRouter

from serving.context import Context
from serving.dashboard import (
    assets,
    channel_forms,
    channels,
    ensembles,
    events,
    fleet,
    overview,
    rollout_start,
    rollouts,
)

# Of two paths that fit, the first one answers: `rollouts/start` before `rollouts/{number}`.
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
)


def add_parts(context: Context) -> None:
    """Add what the pages keep in memory."""
    changes = context.add(events.Changes(context))
    context.on_stop.append(changes.close)
