# SPDX-License-Identifier: MIT
"""What is checked of a request before the application sees it.

- A body over the limit is refused with 413, whether it says its length or not.
- There are no accounts yet, so a browser on this machine must not become a way
  in: where the registry listens on loopback, a request must name loopback as its
  host (a page that re-binds its name to 127.0.0.1 does not), and a write that
  carries an Origin must come from the registry's own.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.problems import problem_response

__all__ = ["LOOPBACK_NAMES", "Guard"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware; `host_names` are those that a request may name, None for any."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, host_names: frozenset[str] | None) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._host_names = host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._foreign(scope["method"], headers)
        if refusal is not None:
            response = problem_response(403, slug="foreign-request", title="Foreign request", detail=refusal)
            await response(scope, receive, send)
            return
        body: bytes | None = b""
        if scope["method"] not in _READS or "content-length" in headers or "transfer-encoding" in headers:
            body = await self._body(headers, receive)
        if body is None:
            response = problem_response(
                413,
                slug="content-too-large",
                title="Content too large",
                detail=f"expected a body of at most {self._max_body_bytes} bytes, got a larger one",
                headers={"Connection": "close"},
            )
            await response(scope, receive, send)
            return
        await self._app(scope, _replaying(body, receive), send)

    def _foreign(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self._host_names is not None and _name_of(host) not in self._host_names:
            known = ", ".join(sorted(self._host_names))
            return f"expected a request to {known}, got one to {host!r}; use one of these, or serve with --host-name"
        origin = headers.get("origin")
        if method not in _READS and origin is not None and _place_of(origin) != host:
            return f"expected a write from no other site, got one from {origin!r}"
        return None

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body, or None where it is too large."""
        said = headers.get("content-length", "0")
        if not said.isdecimal() or int(said) > self._max_body_bytes:
            return None
        parts: list[bytes] = []
        size_bytes = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"".join(parts)
            parts.append(message.get("body", b""))
            size_bytes += len(parts[-1])
            if size_bytes > self._max_body_bytes:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


def _name_of(host: str) -> str:
    """The name in a Host header, without the port: `localhost` of `localhost:8640`, `::1` of `[::1]:8640`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place_of(origin: str) -> str | None:
    """The host and port of an Origin header, None where it has none (`null`) or is no URL."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read already, then what comes (a disconnect)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
