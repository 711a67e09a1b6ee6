# SPDX-License-Identifier: MIT
"""Answers every error with a problem document: application/problem+json (RFC 9457).

    {"type": "urn:ccatune:problem:channel-not-found", "title": ..., "status": 404, "detail": ...}

A 422 for a request that violates the schema also has `errors`, a list of places and messages. It does not repeat
values of the request, and has at most `_MAX_PARTS` places. The document of an internal error contains no details of
the error.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from serving.errors import DatabaseError, ServingError
from serving.http.openapi import RETRY_AFTER, WWW_AUTHENTICATE, answered
from serving.names import in_words
from serving.schemas import Schema

MEDIA_TYPE = "application/problem+json"
_URN = "urn:ccatune:problem:"
_RETRY_AFTER_S = "1"
_HEADERS: Mapping[int, dict[str, Any]] = {401: WWW_AUTHENTICATE, 429: RETRY_AFTER, 503: RETRY_AFTER}
# A request must not decide how large its answer is.
_MAX_PARTS = 20
_MAX_WHERE_CHARS = 200
_MAX_MESSAGE_CHARS = 400
_MAX_DETAIL_CHARS = 2000
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

_DATABASE_ERRORS = (OperationalError, InterfaceError, PoolTimeoutError)

_log = logging.getLogger(__name__)


class InvalidPart(BaseModel):
    """One place where a request violates the schema."""

    where: str = Field(description="Where it stands, such as `body.digest` or `query.limit`.", examples=["body.digest"])
    message: str = Field(description="What was expected.", examples=["expected it, got nothing"])


class Problem(Schema):
    """A problem document."""

    type: str = Field(description="What kind of problem: a stable URN.", examples=[_URN + "invalid-request"])
    title: str = Field(description="The kind in words.", examples=["Invalid request"])
    status: int = Field(description="The HTTP status again.", examples=[422])
    detail: str = Field(
        description="What was expected, what came, and what to do; of a 422, where and what.",
        examples=["body.digest: expected it, got nothing; see /v1/docs"],
    )
    errors: list[InvalidPart] | None = Field(
        default=None, description=f"The first {_MAX_PARTS} places of an invalid request."
    )


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of the problems that an endpoint can answer with.

    An endpoint with 413 takes a body. It answers 400 if that is no JSON at all.
    """
    if HTTPStatus.REQUEST_ENTITY_TOO_LARGE in codes:
        codes = (HTTPStatus.BAD_REQUEST, *codes)
    content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}
    return {
        int(code): answered(HTTPStatus(code).phrase, _HEADERS.get(code, {}), content=copy.deepcopy(content))
        for code in codes
    }


def problem_response(
    status: int,
    *,
    slug: str,
    title: str,
    detail: str,
    errors: Sequence[Mapping[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Make a response with a problem document."""
    body: dict[str, Any] = {"type": _URN + slug, "title": title, "status": status}
    body["detail"] = _cut(detail, _MAX_DETAIL_CHARS)
    if errors is not None:
        body["errors"] = list(errors)
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]} ..."


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of the application with a problem document."""
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    for kind in (ServingError, *_DATABASE_ERRORS):
        app.add_exception_handler(kind, _known_error)
    app.add_exception_handler(Exception, _fault)


def problem_of(error: Exception) -> JSONResponse | None:
    """Return the response to an error of the registry or its database, or None for a fault."""
    if isinstance(error, ServingError):
        return _of_serving_error(error)
    return _of_database_error(error) if isinstance(error, _DATABASE_ERRORS) else None


def fault_response() -> JSONResponse:
    """Return the response to a fault of the registry. Whoever sends it raises the error again, for the log."""
    return problem_response(
        500, slug=ServingError.slug, title=ServingError.title, detail="a fault of the registry; its log says more"
    )


def _known_error(_request: Request, error: Exception) -> JSONResponse:
    response = problem_of(error)
    assert response is not None  # registered for these classes  # noqa: S101
    return response


def _of_serving_error(error: ServingError) -> JSONResponse:
    headers = {"Retry-After": _RETRY_AFTER_S} if error.status == HTTPStatus.SERVICE_UNAVAILABLE else error.headers
    return problem_response(error.status, slug=error.slug, title=error.title, detail=str(error), headers=headers)


def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
    errors = error.errors()
    parts = [
        {
            "where": _cut(".".join(map(str, e["loc"])), _MAX_WHERE_CHARS),
            "message": _cut(in_words(e), _MAX_MESSAGE_CHARS),
        }
        for e in errors[:_MAX_PARTS]
    ]
    detail = "; ".join(f"{part['where']}: {part['message']}" for part in parts[:3])
    if len(errors) > len(parts):
        detail += f"; and more, {len(errors)} in all"
    if parts[0]["where"] == "body" and "json" not in request.headers.get("content-type", ""):
        detail += "; send the body with Content-Type: application/json"
    return problem_response(
        422, slug="invalid-request", title="Invalid request", detail=f"{detail}; see /v1/docs", errors=parts
    )


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    phrase = HTTPStatus(error.status_code).phrase
    detail = f"{request.method} {request.url.path}: {error.detail}; see /v1/docs"
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request)
    return problem_response(
        error.status_code,
        slug=phrase.lower().replace(" ", "-"),
        title=phrase,
        detail=detail,
        headers=headers,
    )


def _allowed(request: Request) -> str:
    """Return the methods that any route supports for this path. The router itself lists only the first route's."""
    routes = request.app.routes
    # A HEAD reaches the application as a GET.
    matched = {"HEAD": "GET"}
    return ", ".join(
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": matched.get(method, method)})[0] == Match.FULL for route in routes
        )
    )


def _of_database_error(error: Exception) -> JSONResponse:
    _log.warning("the database did not answer: %s", error)
    return problem_response(
        DatabaseError.status,
        slug=DatabaseError.slug,
        title=DatabaseError.title,
        detail="expected the database to answer, it did not; try again",
        headers={"Retry-After": _RETRY_AFTER_S},
    )


def _fault(_request: Request, _error: Exception) -> JSONResponse:
    # Starlette raises the error again after this answer, so that the server's log contains the traceback.
    return fault_response()
