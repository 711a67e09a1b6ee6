# SPDX-License-Identifier: MIT
"""The HTTP application of one registry.

    POST /v1/ensembles                        publish an ensemble (idempotent by digest)
    GET  /v1/ensembles                        list the ensembles
    GET  /v1/ensembles/{digest}               get an ensemble
    GET  /v1/channels                         list the channels, each with its current deployment
    PUT  /v1/channels/{cca}/{name}            move a channel: a deployment with the next serial
    POST /v1/channels/{cca}/{name}/rollback   point a channel back to its previous ensemble
    GET  /v1/channels/{cca}/{name}            get the current deployment and ensemble; ETag, ?wait= for a long poll
    GET  /v1/channels/{cca}/{name}/history    list a channel's deployments
    POST /v1/agents/{agent_id}/reports        report the table in force in an agent's kernel
    GET  /v1/agents                           list the latest report of each agent
    GET  /healthz  /v1/docs  /v1/openapi.json

Limits: the API has no accounts yet. Anyone who can reach it may write, so it listens on loopback by default.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import metadata

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from serving.agents.endpoints import router as agents_router
from serving.channels import repository as channels
from serving.channels.endpoints import router as channels_router
from serving.channels.watch import ChannelKey, ChannelWatch
from serving.context import Clock, Context, InContext
from serving.database import Database, registry_name
from serving.docs_page import docs_html
from serving.ensembles.endpoints import router as ensembles_router
from serving.guard import LOOPBACK_NAMES, Guard
from serving.problems import add_problem_handlers, problems
from serving.settings import ServingSettings

__all__ = ["create_app", "utc_now"]

_DESCRIPTION = (
    "Ensembles are immutable and known by the digest of their content. Channels point to one; each move is a "
    "deployment with a serial that only grows. Errors are application/problem+json. There are no accounts yet."
)


class Health(BaseModel):
    """The answer of /healthz when the database answers."""

    status: str = Field(description="`ok`.")
    registry: str = Field(description="The registry's name.")


def utc_now() -> datetime:
    """Return the current time in UTC: the registry's default clock."""
    return datetime.now(tz=UTC)


def create_app(database: Database, settings: ServingSettings, *, clock: Clock = utc_now) -> FastAPI:
    """Make the application for an open database.

    Raises:
        SettingsError: the registry name in the settings differs from the one in the database.
        DatabaseError: the database does not answer.
    """
    app = FastAPI(
        title="ccatune registry",
        version=_version(),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.context = Context(
        database=database,
        registry=registry_name(database, wanted=settings.registry, now=clock()),
        settings=settings,
        clock=clock,
        watch=ChannelWatch(lambda: _heads(database), recheck_ms=settings.recheck_ms),
    )
    add_problem_handlers(app)
    app.add_middleware(
        Guard,
        max_body_bytes=settings.max_body_bytes,
        host_names=_host_names(settings),
    )
    for router in (ensembles_router, channels_router, agents_router):
        app.include_router(router)
    _add_own_pages(app)
    return app


def _host_names(settings: ServingSettings) -> frozenset[str] | None:
    """Return the host names that requests may use, or None for any.

    Any name is allowed if `insecure_bind` is set and no name is configured.
    """
    if settings.insecure_bind and not settings.host_names:
        return None
    return LOOPBACK_NAMES | set(settings.host_names)


def _add_own_pages(app: FastAPI) -> None:
    @app.get("/healthz", tags=["health"], responses=problems(503))
    def healthz(context: InContext) -> Health:
        """Check that the database answers."""
        context.database.ping()
        return Health(status="ok", registry=context.registry)

    @app.get("/v1/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        """Show the documentation of this API."""
        return HTMLResponse(docs_html(app.openapi()))


def _heads(database: Database) -> dict[ChannelKey, int]:
    with database.read() as session:
        return channels.heads(session)


def _version() -> str:
    try:
        return metadata.version("ccatune")
    except metadata.PackageNotFoundError:
        return "0"
