# SPDX-License-Identifier: MIT
"""Finds out who sent a request: `Authorization: Bearer TOKEN`.

    no token                      401, except for the paths in `PUBLIC_PATHS`
    a token that is not accepted  401 with other words, whether it is unknown, expired or revoked
    many of them                  429 without a look-up (attempts.py); a token in memory is accepted nevertheless
    an accepted token             the application receives the request, with the `Caller` in its state

Pages (/ui/...) take sessions of people instead, and no tokens (serving/people/gate.py).

A registry without accounts (`ccatune serve --open`) accepts every request, and calls its caller `open`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.access.attempts import Attempts
from serving.access.grants import Caller, Grant, local_caller
from serving.access.grants import Scope as GrantedScope
from serving.access.known import KnownTokens
from serving.access.token_text import public_id_of
from serving.errors import NotAuthenticatedError, ServingError, TooManyAttemptsError
from serving.http.counted_log import CountedLog
from serving.http.layers import request_id_of
from serving.http.problems import problem_of

OPEN = "open"
PAGES = "/ui"
PUBLIC_PATHS = frozenset({"/", "/healthz", "/livez", "/readyz", "/v1/docs", "/v1/openapi.json"})

OPEN_GRANT = local_caller(OPEN).grant
CALLER_KEY = "ccatune_caller"
_AUTHORIZATION = b"authorization"
_SCHEME = b"bearer"
_ANONYMOUS = (
    "expected `Authorization: Bearer TOKEN`, got no token; make one with `ccatune tokens create`, "
    "and give it by CCATUNE_TOKEN or --token-file"
)
_NOT_ACCEPTED = "expected a token that this registry accepts, got another; make a new one with `ccatune tokens create`"

_log = logging.getLogger(__name__)


# Puts the caller of a request to a page into the scope's state, or returns the answer that refuses it.
Pages = Callable[[Scope], Awaitable[Response | None]]


class AccessCheck:
    """ASGI middleware. tokens: None for a registry without accounts. pages: admits requests to /ui."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: KnownTokens | None,
        pages: Pages,
        attempts: Attempts | None = None,
    ) -> None:
        self._app = app
        self._pages = pages
        self._tokens = tokens
        self._attempts = attempts or Attempts()
        self._refusals = CountedLog(_log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with its caller."""
        if scope["type"] == "http" and scope["path"] not in PUBLIC_PATHS:
            response: Response | None
            try:
                if is_page(scope["path"]):
                    response = await self._pages(scope)
                else:
                    scope.setdefault("state", {})[CALLER_KEY], response = await self._caller(scope), None
            except Exception as error:
                response = problem_of(error)
                if response is None:
                    raise
            if response is not None:
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        address = address_of(scope)
        if self._tokens is None:
            return Caller(OPEN_GRANT, request_id_of(scope), address)
        text = _token_of(scope)
        if text is None:
            raise self._refusal(NotAuthenticatedError(_ANONYMOUS), address, None)
        grant = self._tokens.find(text)
        if grant is None:
            grant = await self._look_up(self._tokens, text, address)
        return Caller(grant, request_id_of(scope), address)

    async def _look_up(self, tokens: KnownTokens, text: bytes, address: str | None) -> Grant:
        blocked_s = self._attempts.blocked_s(address)
        # Tokens that are too old to decide are read anew even for a blocked address, whose tokens may be known ones.
        if blocked_s == 0 or not tokens.is_fresh:
            grant = await tokens.find_after_query(text)
            if grant is not None:
                return grant
        if blocked_s > 0:
            error: ServingError = TooManyAttemptsError(
                "expected fewer tokens that are not accepted from this address; wait before you try again",
                retry_after_s=math.ceil(blocked_s),
            )
        else:
            self._attempts.refused(address)
            error = NotAuthenticatedError(_NOT_ACCEPTED)
        raise self._refusal(error, address, public_id_of(text))

    def _refusal(self, error: ServingError, address: str | None, token_id: str | None) -> ServingError:
        """Return the error, and perhaps log it."""
        self._refusals.warning(
            "refused %d requests for their tokens so far; the last one: %s from %s, token %s",
            error.slug,
            address,
            token_id or "unnamed",
        )
        return error


def is_page(path: str) -> bool:
    """Whether a path belongs to the pages for people."""
    return path == PAGES or path.startswith(f"{PAGES}/")


def address_of(scope: Scope) -> str | None:
    """Return the network address from which a request came, or None."""
    client = scope.get("client")
    return client[0] if client else None


def caller_of(scope: Scope) -> Caller:
    """Return the caller of a request that `AccessCheck` accepted.

    Raises:
        NotAuthenticatedError: the request did not pass the check.
    """
    found = scope.get("state", {}).get(CALLER_KEY)
    if not isinstance(found, Caller):
        raise NotAuthenticatedError(_ANONYMOUS)
    return found


# The check itself has accepted the token already. This declares the scheme in the OpenAPI document.
_bearer = HTTPBearer(
    auto_error=False, scheme_name="token", description="A token that `ccatune tokens create` made: `ccat_...`"
)


class Needs:
    """A dependency of an endpoint: the caller, whose token must have the scope for what the path names, or any scope.

    `ApiRoute` makes the same check before it reads the body.
    """

    def __init__(self, scope: GrantedScope | None) -> None:
        self.scope: GrantedScope | None = scope

    def check(self, request: Request) -> Caller:
        """Return the caller. Raises NotAuthenticatedError, NotPermittedError."""
        caller = caller_of(request.scope)
        if self.scope is None:
            return caller
        named = request.path_params
        caller.require(self.scope, cca=named.get("cca"), channel=named.get("name"), agent_id=named.get("agent_id"))
        return caller

    async def __call__(self, request: Request, _declared: Annotated[object, Depends(_bearer)]) -> Caller:
        """Return the caller to an endpoint."""
        return self.check(request)


def needs(scope: GrantedScope | None) -> Any:
    """Return the dependency of an endpoint for callers with this scope, or with any token."""
    return Depends(Needs(scope))


Publisher = Annotated[Caller, needs("publish")]
Mover = Annotated[Caller, needs("move")]
Roller = Annotated[Caller, needs("roll-out")]
Trainer = Annotated[Caller, needs("train")]
JobRunner = Annotated[Caller, needs("run-jobs")]
Reader = Annotated[Caller, needs("read")]
Administrator = Annotated[Caller, needs("admin")]
Holder = Annotated[Caller, needs(None)]


def _token_of(scope: Scope) -> bytes | None:
    """Return the token of the only Authorization header, or None."""
    found = None
    for name, value in scope["headers"]:
        if name == _AUTHORIZATION:
            if found is not None:
                return None
            found = value
    if found is None:
        return None
    scheme, _, token = found.partition(b" ")
    return (token.strip() or None) if scheme.lower() == _SCHEME else None
