# SPDX-License-Identifier: MIT
"""Answers HEAD as GET without the body (RFC 9110, section 9.3.2).

The application has no HEAD of its own. It receives a GET, so that status and headers are those of a GET, including
Content-Length. With `?wait=` the answer is held as that of a GET.
"""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Heads"]


class Heads:
    """ASGI middleware in front of all others, so that their refusals have no body either."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on, a HEAD as a GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return self._app(scope, receive, send)

        async def send_head(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return self._app({**scope, "method": "GET"}, receive, send_head)
