# SPDX-License-Identifier: MIT
"""Refuses the requests of web pages in a browser on this machine, because an open registry needs no token.

- The Host header must contain a loopback name or a configured one. This stops DNS rebinding, where a page lets its own
  name resolve to 127.0.0.1. The check is off if the registry listens to others and no name is configured.
- A write with an Origin header must come from the host and port that its Host header names.
"""

from __future__ import annotations

from collections.abc import Awaitable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.problems import problem_response

__all__ = ["LOOPBACK_NAMES", "Guard"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware. `host_names` are the names that a Host header may contain; None allows any."""

    def __init__(self, app: ASGIApp, *, host_names: frozenset[str] | None) -> None:
        self._app = app
        self._host_names = host_names

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Check the request. Refuse it, or pass it on to the application."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = Headers(scope=scope)
        refusal = self._foreign(scope["method"], headers)
        if refusal is not None:
            response = problem_response(403, slug="foreign-request", title="Foreign request", detail=refusal)
            return response(scope, receive, send)
        return self._app(scope, receive, send)

    def _foreign(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self._host_names is not None and _name_of(host) not in self._host_names:
            known = ", ".join(sorted(self._host_names))
            return f"expected a request to {known}, got one to {host!r}; use one of these, or serve with --host-name"
        origin = headers.get("origin")
        if method not in _READS and origin is not None and _place_of(origin) != host:
            return f"expected a write from no other site, got one from {origin!r}"
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
