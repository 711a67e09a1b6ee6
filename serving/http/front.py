# SPDX-License-Identifier: MIT
"""The application's base class: its OpenAPI document is complete, and its middleware stands in front of FastAPI's own.

    ours -> FastAPI: telemetry, server errors, body limit -> exception handlers -> routes

FastAPI places the middleware of an application behind its own. Its own layers then cost more than the answer to a
long poll (`Shortcut`), and each held poll keeps a frame of each layer in memory.

Limits: an error that our middleware itself raises does not become a problem document. uvicorn answers it with 500.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.openapi import complete
from serving.http.problems import Problem


class FrontedApplication(FastAPI):
    """A FastAPI application whose `add_middleware` adds layers in front of all others."""

    _front: ASGIApp | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Answer a request. This is no coroutine of its own, so that a held poll keeps no frame of it."""
        if self._front is None:
            self._front = self._build_front()
        scope["app"] = self
        return self._front(scope, receive, send)  # type: ignore[return-value]

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the API."""
        if self.openapi_schema is None:
            complete(super().openapi(), problem=Problem)
        assert self.openapi_schema is not None  # noqa: S101 - set by FastAPI
        return self.openapi_schema

    def build_middleware_stack(self) -> ASGIApp:
        """Return FastAPI's own layers."""
        ours, self.user_middleware = self.user_middleware, []
        try:
            return super().build_middleware_stack()
        finally:
            self.user_middleware = ours

    def _build_front(self) -> ASGIApp:
        """Return our layers, the outermost first, and FastAPI with its telemetry behind them."""
        stack: ASGIApp = super().__call__
        for layer, arguments, options in reversed(self.user_middleware):
            stack = layer(stack, *arguments, **options)
        return stack
