# SPDX-License-Identifier: MIT
"""The HTTP application of one registry.

    POST /v1/ensembles                        publish an ensemble (idempotent by digest)
    GET  /v1/ensembles                        list the ensembles
    GET  /v1/ensembles/{digest}               get an ensemble
    POST /v1/ensembles/{digest}/signatures    upload publishers' signatures of an ensemble; GET lists them
    POST /v1/roots                            upload the next version of the root document
    GET  /v1/roots                            get the newest version; /v1/roots/{version} gets any
    GET  /v1/channels                         list the channels, each with its current deployment
    PUT  /v1/channels/{cca}/{name}            move a channel: a deployment with the next serial
    POST /v1/channels/{cca}/{name}/rollback   point a channel back to its previous ensemble
    GET  /v1/channels/{cca}/{name}            get the current deployment and ensemble; ETag, ?wait= for a long poll
    GET  /v1/channels/{cca}/{name}/history    list a channel's deployments
    GET  /v1/channels/{cca}/{name}/drift      compare the channel's flows with the training of its ensemble
    POST /v1/channels/{cca}/{name}/rollouts   move a channel in steps; GET lists the roll-outs
    GET  /v1/channels/{cca}/{name}/rollouts/{number}[/events]   get a roll-out, or what was done and why
    POST /v1/channels/{cca}/{name}/rollouts/{number}/{action}   pause, resume, abort or promote it
    PUT  /v1/channels/{cca}/{name}/retraining    set how a channel is trained anew; GET, DELETE
    PUT  /v1/channels/{cca}/{name}/advice        give a channel an advice; GET returns it
    POST /v1/channels/{cca}/{name}/retrainings   train a channel anew; GET lists its retrainings, /{number} gets one
    POST /v1/channels/{cca}/{name}/retrainings/{number}/{action}   approve its training or roll-out, or dismiss it
    POST /v1/agents/{agent_id}/reports        report the table in force in an agent's kernel
    GET  /v1/agents                           list the latest report of each agent
    DELETE /v1/agents/{agent_id}              delete an agent's reports
    PUT  /v1/agents/{agent_id}/observations/{digest}   upload a file of observations (idempotent by digest)
    GET  /v1/observations                     list the files of observations; /v1/observations/{digest} gets one
    GET  /v1/qos                              sums of what the agents report of their flows
    POST /v1/jobs                             queue the training of a registered study; GET lists the jobs
    GET  /v1/jobs/{id}                        get a job with its progress; /logs its logs; POST /cancel cancels it
    POST /v1/jobs/leases                      lease a job to a runner, which then posts to
                                              /v1/jobs/{id}/heartbeat and /v1/jobs/{id}/end
    GET  /v1/datasets                         list the datasets that jobs may name; PUT /v1/datasets/{dataset} is what
                                              runners say of their recordings
    POST /v1/tokens                           make a token
    GET  /v1/tokens                           list the tokens
    DELETE /v1/tokens/{id}                    revoke a token
    DELETE /v1/principals/{name}              revoke all tokens of a principal, and end its sessions
    POST /v1/people                           make the account of a person; GET lists them
    PUT  /v1/people/{name}/role               change the role of a person; POST .../reset lets it set the password anew
    GET  /v1/audit                            list the changes, each with who made it
    GET  /metrics                             figures for Prometheus
    GET  /ui/...                              pages for people (serving/dashboard)
    GET  /livez  /readyz  /healthz            whether the process answers, and reads and writes succeed
    GET  /v1/docs  /v1/openapi.json
    GET  /                                    redirects to /ui/

HEAD is answered on each path that has a GET.
Every path of the API but those of the last three lines of it needs a token (access/check.py), and every page a session
of a person (people/gate.py), unless the settings say `open`.
A process with `role: controller` has the figures and what says whether it is well, and no other path.
"""

from __future__ import annotations

import functools
import hashlib
import json
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated

from fastapi import FastAPI, Header, Response
from fastapi.responses import RedirectResponse

from serving.access import endpoints as access
from serving.access.check import AccessCheck
from serving.access.known import KnownTokens
from serving.advice import endpoints as advice
from serving.agents import endpoints as agents
from serving.channels import endpoints as channels
from serving.context import Clock, Context, WorkPool
from serving.dashboard import parts as dashboard
from serving.database import Database, registry_name
from serving.datasets import endpoints as datasets
from serving.drift import endpoints as drift
from serving.ensembles import endpoints as ensembles
from serving.http.docs_page import docs_html
from serving.http.etags import matches_weakly, quoted
from serving.http.front import FrontedApplication
from serving.http.layers import LOOPBACK_NAMES, Guard, Heads, RequestIds
from serving.http.problems import add_problem_handlers, problems
from serving.http.traces import NO_TELEMETRY, Traces
from serving.jobs import endpoints as jobs
from serving.metrics import endpoints as metrics
from serving.metrics.requests import RequestFigures
from serving.observations import endpoints as observations
from serving.people import endpoints as people
from serving.people import parts as people_parts
from serving.people.gate import PageGate
from serving.qos import endpoints as qos
from serving.registry import health
from serving.registry.shortcut import Shortcut
from serving.retraining import endpoints as retraining
from serving.rollouts import endpoints as rollouts
from serving.roots import endpoints as roots
from serving.settings import ServingSettings
from serving.signatures import PrivateKey

# More requests than these wait in front of a thread pool only if the database has stopped.
_MAX_QUEUED = 1000
# A hash takes 64 MiB, and some 50 ms.
_HASH_THREADS = 2
_MAX_QUEUED_HASHES = 64

_DESCRIPTION = (
    "Ensembles are immutable and known by the digest of their content. Channels point to one; each move is a "
    "deployment with a serial that only grows. Errors are application/problem+json. Requests need a token: "
    "`Authorization: Bearer TOKEN`."
)


def utc_now() -> datetime:
    """Return the current time in UTC: the registry's default clock."""
    return datetime.now(tz=UTC)


def create_app(database: Database, settings: ServingSettings, *, clock: Clock = utc_now) -> FastAPI:
    """Make the application for an open database.

    Raises:
        SettingsError: the registry name in the settings differs from the one in the database, or the newest root
            document does not name the signing key, or traces are wanted and the extra `telemetry` is not installed.
        SignatureError: the signing key cannot be read, or others may read it.
        SecretError: the secret of the provider of OpenID Connect cannot be read, or others may read it.
        DatabaseError: the database does not answer.
    """
    traces = Traces(version=_version()) if settings.telemetry else None
    app = FrontedApplication(
        title="ccatune registry",
        version=_version(),
        telemetry=NO_TELEMETRY if traces is None else traces.config,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # Generated clients name their functions by this.
        generate_unique_id_function=lambda route: route.name,
    )
    # The key is read first, so that a start with a wrong one changes nothing in the database.
    key = None if settings.signing_key_file is None else PrivateKey.load(settings.signing_key_file)
    context = app.state.context = _context(database, settings, clock=clock)
    context.add(health.Health(context))
    tokens = context.add(KnownTokens(context))
    channels.add_parts(context, key=key)
    agents.add_parts(context)
    rollouts.add_parts(context)
    qos.add_parts(context)
    observations.add_parts(context)
    drift.add_parts(context)
    jobs.add_parts(context)
    retraining.add_parts(context)
    people_parts.add_parts(context)
    dashboard.add_parts(context)
    metrics.add_parts(context, version=app.version)
    if traces is not None:
        context.on_close.append(traces.close)
    add_problem_handlers(app)
    # The last one that is added receives a request first.
    app.add_middleware(Shortcut, context=context)
    # An open registry has no token that would keep a web page from its figures.
    by_any_name: frozenset[str] = frozenset() if settings.open else health.PATHS | {"/metrics"}
    app.add_middleware(Guard, host_names=_host_names(settings), paths_by_any_name=by_any_name)
    app.add_middleware(AccessCheck, tokens=None if settings.open else tokens, pages=context.part(PageGate))
    app.add_middleware(Heads)
    app.add_middleware(RequestIds, on_answer=context.part(RequestFigures).answered)
    app.include_router(health.router)
    app.include_router(metrics.router)
    if settings.role != "controller":
        _add_resources(app)
    return app


def _add_resources(app: FastAPI) -> None:
    """Add the API and the pages, which a controller does without."""
    tables = (ensembles, channels, rollouts, drift, advice, retraining, roots)
    for resource in (*tables, agents, observations, qos, jobs, datasets, access, people):
        app.include_router(resource.router, responses=problems(401, 403, 422, 429, 503))
    # The last router of the dashboard answers every address below /ui/ that no other one does.
    for pages in (*people_parts.PAGES, *dashboard.ROUTERS):
        app.include_router(pages)
    _add_own_pages(app)


def _context(database: Database, settings: ServingSettings, *, clock: Clock) -> Context:
    # SQLite has one writer at a time. With one thread the writes of this process wait in order instead of polling.
    n_writers = 1 if database.is_sqlite else max(1, settings.database_connections // 4)
    # One connection is left for the watch.
    n_readers = settings.database_connections - n_writers - 1
    patience_s = max(1.0, settings.busy_timeout_ms / 1000)
    return Context(
        database=database,
        registry=registry_name(database, wanted=settings.registry, now=clock()),
        settings=settings,
        clock=clock,
        reads=WorkPool("reads", threads=n_readers, max_queued=_MAX_QUEUED, max_queue_s=patience_s),
        writes=WorkPool("writes", threads=n_writers, max_queued=_MAX_QUEUED, max_queue_s=patience_s),
        hashes=WorkPool("passwords", threads=_HASH_THREADS, max_queued=_MAX_QUEUED_HASHES, max_queue_s=patience_s),
    )


def _host_names(settings: ServingSettings) -> frozenset[str] | None:
    """Return the host names that requests may use, or None for any.

    Any name is allowed if others can reach the registry, by TLS or `insecure_bind`, and no name is configured.
    """
    is_for_others = settings.insecure_bind or (settings.has_tls and not settings.open)
    if is_for_others and not settings.host_names:
        return None
    return LOOPBACK_NAMES | set(settings.host_names)


def _add_own_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        """Lead to the pages, also below the prefix of a proxy."""
        return RedirectResponse("ui/")

    @app.get("/v1/docs", include_in_schema=False)
    async def docs(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Show the documentation of this API."""
        return _page_of(docs_html_once(), "text/html; charset=utf-8", if_none_match)

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Return the OpenAPI document of this API."""
        return _page_of(openapi_once(), "application/json", if_none_match)

    # Anyone may request these pages, and each takes milliseconds to make.
    @functools.cache
    def docs_html_once() -> bytes:
        return docs_html(app.openapi()).encode()

    @functools.cache
    def openapi_once() -> bytes:
        return json.dumps(app.openapi()).encode()


def _page_of(content: bytes, media_type: str, if_none_match: str | None) -> Response:
    etag = quoted(hashlib.sha256(content).hexdigest()[:32])
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if matches_weakly(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def _version() -> str:
    try:
        return metadata.version("ccatune")
    except metadata.PackageNotFoundError:
        return "0"
