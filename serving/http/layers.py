# SPDX-License-Identifier: MIT
"""Thin layers in front of the application. Each is ASGI middleware; README.md states their order.

RequestIds   gives each request an id. Every answer has it as `X-Request-Id`, and so have the log and the audit log.
             It also reports each answer with its duration, for the figures and the log
Heads        answers HEAD as GET without the body (RFC 9110, section 9.3.2)
Guard        refuses the requests of web pages in a browser on this machine, because an open registry needs no token
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.http.problems import problem_response

REQUEST_ID_HEADER = "X-Request-Id"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_ID_HEADER = REQUEST_ID_HEADER.lower().encode("ascii")
_STATE_KEY = "ccatune_request_id"
_WELL_FORMED = re.compile(rb"[A-Za-z0-9_-]{1,64}")
_ID_BYTES = 8
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


# Receives the scope of a request, the status of its answer, and the seconds until the answer was complete.
OnAnswer = Callable[[Scope, int, float], None]


class RequestIds:
    """The outermost layer. An id that the client sends is kept if it has 1 to 64 of A-Z a-z 0-9 - and _.

    on_answer: called with the end of each answer.
    """

    def __init__(self, app: ASGIApp, *, on_answer: OnAnswer = lambda *_: None) -> None:
        self._app = app
        self._on_answer = on_answer

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on with its id, and add the id to the answer."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        request_id = _sent(scope) or secrets.token_hex(_ID_BYTES).encode("ascii")
        scope.setdefault("state", {})[_STATE_KEY] = request_id.decode("ascii")
        return self._app(scope, receive, _Answer(scope, send, request_id, self._on_answer))


class _Answer:
    """The `send` of a request. A held poll keeps it in memory, where it is smaller than a function with its cells."""

    __slots__ = ("_began_s", "_on_answer", "_request_id", "_scope", "_send", "_status")

    def __init__(self, scope: Scope, send: Send, request_id: bytes, on_answer: OnAnswer) -> None:
        self._scope, self._send, self._request_id, self._on_answer = scope, send, request_id, on_answer
        self._status = 0
        self._began_s = perf_counter()

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), (_ID_HEADER, self._request_id)]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._on_answer(self._scope, self._status, perf_counter() - self._began_s)
        return self._send(message)


def request_id_of(scope: Scope) -> str | None:
    """Return the id of a request, or None if the request did not pass the middleware."""
    found = scope.get("state", {}).get(_STATE_KEY)
    return found if isinstance(found, str) else None


def _sent(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == _ID_HEADER:
            return value if _WELL_FORMED.fullmatch(value) else None
    return None


class Heads:
    """Passes a HEAD on as a GET, so that status and headers are those of a GET, including Content-Length.

    It stands in front of the layers that refuse requests, so that refusals have no body either.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on, a HEAD as a GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return self._app(scope, receive, send)

        inner = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            if "route" in inner:
                scope["route"] = inner["route"]
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return self._app(inner, receive, send_head)


class Guard:
    """Refuses requests of foreign web pages.

    - The Host header must contain a loopback name or a configured one. This stops DNS rebinding, where a page lets its
      own name resolve to 127.0.0.1. The check is off if the registry listens to others and no name is configured.
    - A write with an Origin header must come from the host and port that its Host header names.
    - A write to a page (/ui/...) must have an Origin, or Sec-Fetch-Site without one, so that only pages of this host
      send forms. It must not come from a page without TLS if it is sent with TLS itself.

    host_names: the names that a Host header may contain; None allows any.
    paths_by_any_name: paths for which any is allowed, as a supervisor or Prometheus uses the address of each process.
    """

    def __init__(
        self, app: ASGIApp, *, host_names: frozenset[str] | None, paths_by_any_name: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._host_names = host_names
        self._paths_by_any_name = paths_by_any_name

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Check the request. Refuse it, or pass it on to the application."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = Headers(scope=scope)
        refusal = self._foreign(scope, headers)
        if refusal is not None:
            response = problem_response(403, slug="foreign-request", title="Foreign request", detail=refusal)
            return response(scope, receive, send)
        return self._app(scope, receive, send)

    def _foreign(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "")
        names = None if scope["path"] in self._paths_by_any_name else self._host_names
        if names is not None and _name_of(host) not in names:
            known = ", ".join(sorted(names))
            return f"expected a request to {known}, got one to {host!r}; use one of these, or serve with --host-name"
        if scope["method"] in _READS:
            return None
        origin = headers.get("origin")
        if origin is not None and _place_of(origin) != host:
            return f"expected a write from no other site, got one from {origin!r}"
        if not scope["path"].startswith("/ui"):
            return None
        if origin is None and headers.get("sec-fetch-site") != "same-origin":
            return "expected a form of one of the registry's pages, got a write without Origin; use a current browser"
        if origin is not None and scope["scheme"] == "https" and not origin.startswith("https:"):
            return f"expected a form of a page with TLS, got one from {origin!r}; open the page by https"
        return None


def _name_of(host: str) -> str:
    """Return the name in a Host header without the port, e.g. `localhost` for `localhost:8640`, `::1` for `[::1]:8640`.

    For an invalid header it is "".
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place_of(origin: str) -> str | None:
    """Return the host and port of an Origin header, or None for `null` and for an invalid URL."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
