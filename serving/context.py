# SPDX-License-Identifier: MIT
"""The context of all endpoints. The application makes it once, and FastAPI passes it to each endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from serving.channels.watch import ChannelWatch
from serving.database import Database
from serving.settings import ServingSettings

__all__ = ["Clock", "Context", "InContext"]

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Context:
    """One registry: its database, name, settings, clock (UTC), and the watch for its long polls."""

    database: Database
    registry: str
    settings: ServingSettings
    clock: Clock
    watch: ChannelWatch


def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)  # noqa: S101 - set by create_app, once
    return context


InContext = Annotated[Context, Depends(_context)]
