# SPDX-License-Identifier: MIT
"""The context of all endpoints. The application makes it once, and FastAPI passes it to each endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from serving.access.known import KnownTokens
from serving.agents.intake import ReportIntake
from serving.agents.retention import AgentRetention
from serving.channels.offers import Offers
from serving.channels.watch import ChannelWatch
from serving.database import Database
from serving.http.health import Health
from serving.http.work import WorkPool
from serving.settings import ServingSettings

__all__ = ["Clock", "Context", "InContext"]

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Context:
    """One registry: its database, name, settings and clock (UTC), and its parts that answer agents.

    reads, writes: thread pools for database work; neither waits for the other.
    watch, offers: the long polls and their answers.
    reports: the queue of the agents' reports.
    retention: deletes agents that have long been silent; the server starts it.
    tokens: the tokens that the API accepts.
    """

    database: Database
    registry: str
    settings: ServingSettings
    clock: Clock
    reads: WorkPool
    writes: WorkPool
    watch: ChannelWatch
    offers: Offers
    reports: ReportIntake
    retention: AgentRetention
    health: Health
    tokens: KnownTokens


async def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)  # noqa: S101 - set by create_app, once
    return context


InContext = Annotated[Context, Depends(_context)]
