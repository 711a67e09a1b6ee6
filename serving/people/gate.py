# SPDX-License-Identifier: MIT
"""Admits requests to pages (/ui/...) by the session of their cookie.

    a live session       the page receives the request, with its caller and the session's CSRF token in the state
    none, and a GET      303 to the log-in page, which leads back to the page (`next`)
    none, and a write    401
    log-in page, set-up link, static files    need no session

Each request costs one query by a unique index, so a session that any process has ended is refused with the next
request. Requests that are still held notice it, too. The time of the last use is written at most once a minute.

The forms of the pages without a session have no CSRF token: the `Guard` (serving/http/layers.py) accepts them from
pages of this host alone. A registry without accounts (`ccatune serve --open`) admits every request.
"""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from http import HTTPStatus
from urllib.parse import quote, unquote, urlencode
from weakref import WeakValueDictionary

from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from serving.access.check import CALLER_KEY, OPEN_GRANT, PAGES, address_of
from serving.access.grants import ROLES, Caller, Grant, Role
from serving.context import Context
from serving.errors import BusyError, NotAuthenticatedError
from serving.http.layers import request_id_of
from serving.people import repository
from serving.people.repository import LiveSession
from serving.people.sessions import browser_of, seen_after
from serving.people.words import digest_text

CSRF_KEY = "ccatune_csrf"
LOG_IN = f"{PAGES}/login"

_PUBLIC = frozenset({LOG_IN, f"{PAGES}/set-up"})
_PUBLIC_BELOW = (f"{LOG_IN}/", f"{PAGES}/static/")
_SEEN_STEP = timedelta(seconds=60)
_MAX_PLACE_CHARS = 1000
# Characters of a relative link, of which neither `\` nor a control character is one.
_PLACE = re.compile(r"[A-Za-z0-9_.~:%/=&?,;+@!*()'-]*")

_log = logging.getLogger(__name__)


class PageGate:
    """The sessions of one registry. All methods belong to the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # The grants of requests that are held, so that they notice the end of their session.
        self._grants: WeakValueDictionary[str, Grant] = WeakValueDictionary()

    async def __call__(self, scope: Scope) -> Response | None:
        """Put the caller into the scope's state. Return the answer if the request is refused.

        Raises:
            NotAuthenticatedError: a write has no session.
            SQLAlchemyError, BusyError: the database does not answer.
        """
        state = scope.setdefault("state", {})
        if self._context.settings.open:
            state[CALLER_KEY] = Caller(OPEN_GRANT, request_id_of(scope), address_of(scope))
            return None
        path = scope["path"]
        if path in _PUBLIC or path.startswith(_PUBLIC_BELOW):
            state[CSRF_KEY] = ""
            return None
        word = browser_of(scope).session_word
        found = None if word is None else await self._find(digest_text(word))
        if found is None:
            return _without_session(scope)
        grant, csrf_token = found
        state[CALLER_KEY] = Caller(grant, request_id_of(scope), address_of(scope))
        state[CSRF_KEY] = csrf_token
        return None

    async def _find(self, digest: str) -> tuple[Grant, str] | None:
        now = self._context.clock()
        settings = self._context.settings
        live = await self._context.read(repository.live_session, digest, now=now, seen_after=seen_after(settings, now))
        known = self._grants.get(digest)
        if live is None:
            if known is not None:
                known.is_revoked = True
            return None
        if now - live.seen_at >= _SEEN_STEP:
            await self._write_seen(live.session_id)
        if known is None:
            known = self._grants[digest] = _grant_of(live)
        return known, live.csrf_token

    async def _write_seen(self, session_id: int) -> None:
        try:
            await self._context.write(repository.write_seen, session_id, now=self._context.clock())
        except (BusyError, SQLAlchemyError) as error:
            # The page can be shown nevertheless, and the next request tries again.
            _log.warning("the time of a session's last use was not written: %s", error)


def safe_place(text: str) -> str:
    """Return the text if it is a link from /ui/ to a page below it, else the link to the first page, which is empty.

    The link is used as `./TEXT`, so it can name neither a scheme nor a host. It has no segment `..`, whether or not it
    is encoded, with which it would leave /ui/.
    """
    path = text.partition("?")[0]
    segments = unquote(path).split("/")
    is_safe = (
        len(text) <= _MAX_PLACE_CHARS
        and _PLACE.fullmatch(text) is not None
        and not text.startswith("/")
        and not any(segment in {".", ".."} or "\\" in segment for segment in segments)
        and all(segments[:-1])
    )
    return text if is_safe else ""


def _grant_of(live: LiveSession) -> Grant:
    role: Role = live.role  # type: ignore[assignment]  # only roles are stored
    return Grant(
        live.name,
        frozenset(ROLES[role]),
        kind="human",
        expires_at=live.expires_at,
        session_id=live.session_id,
        role=role,
    )


def _without_session(scope: Scope) -> Response:
    path = scope["path"]
    is_htmx = any(name == b"hx-request" for name, _ in scope["headers"])
    if scope["method"] != "GET":
        raise NotAuthenticatedError("expected a person who is logged in, got no session; log in at ui/login")
    place = quote(path.removeprefix(PAGES).removeprefix("/"), safe="/:@!*()',;+=~")
    if scope["query_string"]:
        place += "?" + scope["query_string"].decode("latin-1")
    base = "ui/" if path == PAGES else "../" * (path.count("/") - 2) or "./"
    query = "?" + urlencode({"next": place}) if safe_place(place) else ""
    location = f"{base}login{query}"
    if is_htmx:
        # The script would put the log-in page into the place of a part.
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": location})
    return RedirectResponse(location, status_code=HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})
