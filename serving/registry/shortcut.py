# SPDX-License-Identifier: MIT
"""Answers the two requests that agents repeat, without the cost of the framework's routing.

    GET  /v1/channels/{cca}/{name}[?wait=SECONDS]
    POST /v1/agents/{agent_id}/reports

With thousands of agents these are almost all requests. A held poll must also occupy little memory. The endpoints of
the same paths call the same functions. A request with anything unusual goes on to them, and they also describe it.
"""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.access.check import caller_of
from serving.access.known import KnownTokens
from serving.access.routes import SMALL_BODY_BYTES, read_body, replaying
from serving.agents.endpoints import received
from serving.agents.intake import ReportIntake
from serving.agents.schemas import AgentReport
from serving.channels.endpoints import AGENT_HEADER, offer_headers
from serving.channels.offers import Offers
from serving.channels.watch import ChannelKey
from serving.context import Context
from serving.http.problems import fault_response, problem_of
from serving.http.protocol import connection_of
from serving.metrics.requests import FIGURE_KEY, RequestFigures
from serving.names import AgentId, CcaName, ChannelName

_CHANNEL = re.compile(r"/v1/channels/([^/]+)/([^/]+)")
_REPORT = re.compile(r"/v1/agents/([^/]+)/reports")
_WAIT = re.compile(rb"(?:wait=([0-9]{1,4}(?:\.[0-9]{1,6})?))?")
_MAX_WAIT_S = 3600.0
_JSON = b"application/json"
_AGENT_HEADER = AGENT_HEADER.lower().encode()

Value = TypeVar("Value")

_KEY: TypeAdapter[ChannelKey] = TypeAdapter(tuple[CcaName, ChannelName])
_AGENT_ID: TypeAdapter[str] = TypeAdapter(AgentId)


class Shortcut:
    """ASGI middleware in front of the application."""

    def __init__(self, app: ASGIApp, *, context: Context) -> None:
        self._app = app
        self._context = context
        self._offers = context.part(Offers)
        self._tokens = context.part(KnownTokens)
        self._reports = context.part(ReportIntake)
        self._figures = context.part(RequestFigures)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on to the application."""
        if scope["type"] == "http":
            if scope["method"] == "GET" and (key := _key_of(scope)) is not None:
                if (wait_s := _wait_of(scope)) is not None and _count(scope, b"if-none-match") <= 1:
                    await self._follow(scope, receive, send, key=key, wait_s=wait_s)
                    return
            elif scope["method"] == "POST" and (agent_id := _agent_of(scope)) is not None:
                await self._receive_report(scope, receive, send, agent_id=agent_id)
                return
        await self._app(scope, receive, send)

    async def _follow(self, scope: Scope, receive: Receive, send: Send, *, key: ChannelKey, wait_s: float) -> None:
        header = _header(scope, b"if-none-match")
        scope["state"][FIGURE_KEY] = self._figures.poll if wait_s > 0 else self._figures.offer
        try:
            caller = caller_of(scope)
            caller.require("read", cca=key[0], channel=key[1])
            offer, is_held = await self._offers.follow(
                key,
                agent_id=caller.grant.agent_id or _named_agent(scope),
                if_none_match=None if header is None else header.decode("latin-1"),
                wait_s=min(wait_s, self._context.settings.max_wait_s),
                connection=connection_of(scope),
            )
            if wait_s > 0 and not is_held:
                await self._tokens.require_live(caller.grant)
        except Exception as error:
            await _send_problem(error, scope, receive, send)
            return
        headers = [(name.lower().encode(), value.encode()) for name, value in offer_headers(offer).items()]
        if is_held:
            await _send(send, 304, headers, b"")
            return
        headers += [(b"content-type", _JSON), (b"content-length", b"%d" % len(offer.body))]
        await _send(send, 200, headers, offer.body)

    async def _receive_report(self, scope: Scope, receive: Receive, send: Send, *, agent_id: str) -> None:
        scope["state"][FIGURE_KEY] = self._figures.report
        try:
            caller_of(scope).require("report", agent_id=agent_id)
            limit_bytes = self._context.settings.max_body_bytes
            body = await read_body(scope, receive, max_bytes=min(limit_bytes, SMALL_BODY_BYTES))
            report = _report_of(scope, body)
            if report is not None:
                await self._reports.submit(received(report, agent_id=agent_id, now=self._context.clock()))
        except ClientDisconnect:
            return
        except Exception as error:
            await _send_problem(error, scope, receive, send)
            return
        if report is None:
            await self._app(scope, replaying(body, receive), send)
        else:
            await _send(send, 204, [], b"")


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_problem(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_of(error)
    if response is not None:
        await response(scope, receive, send)
        return
    await fault_response()(scope, receive, send)
    raise error


def _key_of(scope: Scope) -> ChannelKey | None:
    found = _CHANNEL.fullmatch(scope["path"])
    return None if found is None else _valid(_KEY, found.groups())


def _agent_of(scope: Scope) -> str | None:
    found = _REPORT.fullmatch(scope["path"])
    return None if found is None else _valid(_AGENT_ID, found[1])


def _named_agent(scope: Scope) -> str | None:
    header = _header(scope, _AGENT_HEADER)
    return None if header is None else _valid(_AGENT_ID, header.decode("latin-1"))


def _valid(kind: TypeAdapter[Value], value: object) -> Value | None:
    try:
        return kind.validate_python(value)
    except ValidationError:
        return None


def _wait_of(scope: Scope) -> float | None:
    found = _WAIT.fullmatch(scope["query_string"])
    if found is None:
        return None
    wait_s = float(found[1] or 0)
    return wait_s if wait_s <= _MAX_WAIT_S else None


def _report_of(scope: Scope, body: bytes) -> AgentReport | None:
    """Return the report, or None for an invalid one. The endpoint's answer then names what is wrong."""
    content_type = _header(scope, b"content-type") or b""
    if scope["query_string"] or content_type.partition(b";")[0].strip().lower() != _JSON:
        return None
    try:
        return AgentReport.model_validate_json(body)
    except ValidationError:
        return None


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for known, value in scope["headers"] if known == name), None)


def _count(scope: Scope, name: bytes) -> int:
    return sum(known == name for known, _ in scope["headers"])
