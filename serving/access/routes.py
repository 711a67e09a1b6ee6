# SPDX-License-Identifier: MIT
"""The routes of the API, and what they check before they read the body of a request.

    the scope of the token, and its limits on what the path names    401, 403
    the parameters of the query                                      422, with those that the operation has
    the size of the body                                             413

Any token would otherwise make the registry parse bodies that it has no use for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from serving.access.check import Needs
from serving.errors import ContentTooLargeError

# Only ensembles are larger. The largest other body is an envelope, with a payload of up to 128 KiB.
SMALL_BODY_BYTES = 160 * 1024
# The `openapi_extra` of an operation whose body may have the size of the setting `max_body_bytes`.
LARGE_BODY: Final = {"x-body-limit": "max_body_bytes"}


class ApiRoute(APIRoute):
    """A route whose endpoint says by a dependency, usually its parameter `caller`, which scope a request needs."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        description: str | None = None,
        dependencies: Sequence[Depends] | None = None,
        **options: Any,
    ) -> None:
        self._needs = _needs_of(endpoint, dependencies or ())
        described = description or inspect.cleandoc(endpoint.__doc__ or "")
        for need in self._needs:
            sentence = f" The token needs the scope `{need.scope}`."
            # A router that is included may make its routes anew, with the descriptions that they have.
            if need.scope is not None and not described.endswith(sentence):
                described += sentence
        super().__init__(path, endpoint, description=described, dependencies=dependencies, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()
        needs = self._needs
        parameters = sorted(field.alias for field in self.dependant.query_params)
        has_large_body = self.openapi_extra == LARGE_BODY

        async def answer(request: Request) -> Response:
            for need in needs:
                need.check(request)
            _require_known(request, parameters)
            if self.body_field is not None:
                limit_bytes = request.app.state.context.settings.max_body_bytes
                max_bytes = limit_bytes if has_large_body else min(limit_bytes, SMALL_BODY_BYTES)
                try:
                    body = await read_body(request.scope, request.receive, max_bytes=max_bytes)
                except ClientDisconnect:
                    # Nobody receives this answer.
                    return Response(status_code=400)
                request = Request(request.scope, replaying(body, request.receive))
            return await handle(request)

        return answer


def _needs_of(endpoint: Callable[..., Any], dependencies: Sequence[Depends]) -> list[Needs]:
    hints = get_type_hints(endpoint, include_extras=True).values()
    declared = [*dependencies, *(part for hint in hints for part in getattr(hint, "__metadata__", ()))]
    return [one.dependency for one in declared if isinstance(one, Depends) and isinstance(one.dependency, Needs)]


def _require_known(request: Request, parameters: list[str]) -> None:
    known = f"one of the parameters {', '.join(parameters)}" if parameters else "no parameter"
    unknown = [
        {"type": "extra_forbidden", "loc": ("query", name), "msg": f"expected {known}, got an unknown one"}
        for name in request.query_params
        if name not in parameters
    ]
    if unknown:
        raise RequestValidationError(unknown)


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Return the whole body.

    Raises:
        ContentTooLargeError: the body is larger than `max_bytes`.
        ClientDisconnect: before the end of the body. Half of a body must not reach the application.
    """
    declared = Headers(scope=scope).get("content-length", "0")
    size_bytes = int(declared) if declared.isdecimal() else max_bytes + 1
    parts: list[bytes] = []
    received_bytes = 0
    is_ended = False
    while size_bytes <= max_bytes and not is_ended:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        received_bytes += len(parts[-1])
        size_bytes = received_bytes
        is_ended = not message.get("more_body", False)
    if size_bytes > max_bytes:
        raise ContentTooLargeError(f"expected a body of at most {max_bytes} bytes, got a larger one")
    return b"".join(parts)


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body, already read, and then further messages (a disconnect)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
