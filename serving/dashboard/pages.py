# SPDX-License-Identifier: MIT
"""The templates, the headers of each page, and the route class of all pages.

`PageRoute` reads and checks the form of a POST before the endpoint runs, and answers errors with a page instead of a
problem document. An endpoint of a page takes the caller by one of `serving.access.check` (Reader, Mover ...), and
returns `page(...)`, or `see_other(...)` after a change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import ClientDisconnect

from serving.access.grants import Caller, Scope
from serving.dashboard import words
from serving.dashboard.assets import versioned
from serving.dashboard.forms import csrf_token, read_form
from serving.errors import NotAuthenticatedError, NotPermittedError
from serving.http.problems import problem_of
from serving.names import in_words

PREFIX = "/ui/"
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("duration", "when", "short", "percent", "count", "plural"):
        made.filters[name] = getattr(words, name)
    made.globals["versioned"] = versioned
    return made


_TEMPLATES = _environment()


def page(
    request: Request, template: str, *, title: str, topics: str = "", status: int = HTTPStatus.OK, **values: Any
) -> HTMLResponse:
    """Return the page of a template.

    topics: the topics of `events.py` after whose change the page loads its part `live` anew.
    """
    context = request.app.state.context
    caller = request.scope.get("state", {}).get("ccatune_caller")
    known = {
        "base": base_of(request),
        "caller": caller,
        "csrf": csrf_token(request),
        "may": _permits(caller),
        "now": context.clock(),
        "path": request.scope["path"].removeprefix(PREFIX),
        "query": request.query_params,
        "registry": context.registry,
        "is_open": context.settings.open,
    }
    text = _TEMPLATES.get_template(template).render(**known, title=title, topics=topics, **values)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def base_of(request: Request) -> str:
    """Return the relative link from a page to PREFIX, such as `../` or `./`."""
    return "../" * request.scope["path"].removeprefix(PREFIX).count("/") or "./"


def see_other(request: Request, place: str) -> Response:
    """Return the redirection to a page after a change. place: relative to PREFIX."""
    return RedirectResponse(base_of(request) + place, status_code=HTTPStatus.SEE_OTHER, headers=HEADERS)


class PageRoute(APIRoute):
    """A route whose POST is a form, and whose errors are pages. The fields are in `request.state.form`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                if request.method == "POST":
                    request.state.form = await read_form(request)
                return await handle(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except RequestValidationError as error:
                first = error.errors()[0]
                detail = f"{'.'.join(map(str, first['loc']))}: {in_words(first)}"
                return error_page(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid address", detail)
            except Exception as error:
                return _page_of_error(request, error)

        return answer


def form_of(request: Request) -> dict[str, str]:
    """Return the first value of each field of the form, without fields left empty."""
    return {name: values[0] for name, values in request.state.form.items() if values[0]}


def error_page(request: Request, status: int, title: str, detail: str) -> Response:
    """Return a page that says what is wrong, with a link to the page on which the form was."""
    return page(request, "error.html", title=title, status=status, detail=detail, back=_sender(request))


def _page_of_error(request: Request, error: Exception) -> Response:
    response = problem_of(error)
    if response is None:
        raise error
    problem = json.loads(bytes(response.body))
    found = error_page(request, response.status_code, problem["title"], problem["detail"])
    found.headers.update({name: value for name, value in response.headers.items() if name == "retry-after"})
    return found


def _sender(request: Request) -> str | None:
    """Return the link to the page that sent the request, if it is one of ours."""
    path = urlsplit(request.headers.get("referer", "")).path
    _, found, place = path.partition(PREFIX)
    return base_of(request) + place if found else None


def _permits(caller: Caller | None) -> Callable[..., bool]:
    def may(scope: Scope, cca: str | None = None, channel: str | None = None) -> bool:
        try:
            if caller is None:
                return False
            caller.require(scope, cca=cca, channel=channel)
        except (NotAuthenticatedError, NotPermittedError):
            return False
        return True

    return may
