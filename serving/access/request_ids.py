# SPDX-License-Identifier: MIT
"""Gives each request an id. Every answer has it as `X-Request-Id`, and so have the log and the audit log.

An id that the client sends is kept if it has 1 to 64 characters of A-Z a-z 0-9 - and _. Otherwise one is made.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["REQUEST_ID_HEADER", "RequestIds", "request_id_of"]

REQUEST_ID_HEADER = "X-Request-Id"

_HEADER = REQUEST_ID_HEADER.lower().encode("ascii")
_STATE_KEY = "ccatune_request_id"
_WELL_FORMED = re.compile(rb"[A-Za-z0-9_-]{1,64}")
_ID_BYTES = 8


class RequestIds:
    """ASGI middleware, in front of all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on with its id, and add the id to the answer."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        request_id = _sent(scope) or secrets.token_hex(_ID_BYTES).encode("ascii")
        scope.setdefault("state", {})[_STATE_KEY] = request_id.decode("ascii")

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
            await send(message)

        return self._app(scope, receive, send_with_id)


def request_id_of(scope: Scope) -> str | None:
    """Return the id of a request, or None if the request did not pass the middleware."""
    found = scope.get("state", {}).get(_STATE_KEY)
    return found if isinstance(found, str) else None


def _sent(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == _HEADER:
            return value if _WELL_FORMED.fullmatch(value) else None
    return None
