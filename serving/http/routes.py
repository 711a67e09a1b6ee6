# SPDX-License-Identifier: MIT
"""The routes of the API, and what they check before they read the body of a request.

    the scope of the token, and its limits on what the path names    401, 403
    the parameters of the query                                      422, with those that the operation has
    the size of the body                                             413

Any token would otherwise make the registry parse bodies that it has no use for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from serving.access.check import Needs
from serving.http.bodies import SMALL_BODY_BYTES, read_body, replaying

__all__ = ["LARGE_BODY", "ApiRoute"]

# The `openapi_extra` of an operation whose body may have the size of the setting `max_body_bytes`.
LARGE_BODY: Final = {"x-body-limit": "max_body_bytes"}


class ApiRoute(APIRoute):
    """A route whose endpoint says by its parameter `caller` which scope a request needs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.description += "".join(f" The token needs the scope `{need.scope}`." for need in self._needs if need.scope)

    @property
    def _needs(self) -> list[Needs]:
        return [part.call for part in self.dependant.dependencies if isinstance(part.call, Needs)]

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


def _require_known(request: Request, parameters: list[str]) -> None:
    known = f"one of the parameters {', '.join(parameters)}" if parameters else "no parameter"
    unknown = [
        {"type": "extra_forbidden", "loc": ("query", name), "msg": f"expected {known}, got an unknown one"}
        for name in request.query_params
        if name not in parameters
    ]
    if unknown:
        raise RequestValidationError(unknown)
