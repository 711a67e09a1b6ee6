# SPDX-License-Identifier: MIT
"""Sessions and their cookies.

    ccatune_session   random word of the session; ends with the browser, the log-out, or the expiry on the server
    ccatune_device    random word that stays for 90 days: this browser has logged in before (login.py)
    ccatune_provider  random word of a log-in that has led this browser to the provider (oidc.py)

Over https both names begin with `__Host-`, so that no other host and no unencrypted answer can set them. Scripts cannot
read them (HttpOnly). They are sent with the first request of a link from another site (SameSite=Lax): with Strict,
whoever follows a link in a message would see the log-in page in spite of a live session. No GET changes anything but
sessions' own times, and each write needs the session's token and an Origin of this host, so Lax adds no risk.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from serving.access.check import address_of
from serving.database import ADDRESS_CHARS, USER_AGENT_CHARS, PersonRow, SessionRow
from serving.people import repository
from serving.people.words import digest_text, new_word
from serving.settings import ServingSettings

DEVICE_DAYS = 90
_SESSION = "ccatune_session"
_DEVICE = "ccatune_device"
_PROVIDER = "ccatune_provider"


@dataclass(frozen=True)
class Browser:
    """What a request tells of the browser that sent it."""

    address: str | None
    user_agent: str
    is_https: bool
    session_word: str | None = field(default=None, repr=False)
    device_word: str | None = field(default=None, repr=False)
    provider_word: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class NewSession:
    """A session that has just begun."""

    session_id: int
    word: str = field(repr=False)
    device_word: str = field(repr=False)


def browser_of(scope: Scope) -> Browser:
    """Return what a request tells of its browser."""
    headers = Headers(scope=scope)
    cookies = cookie_parser(headers.get("cookie", ""))
    is_https = scope["scheme"] == "https"
    return Browser(
        address=address_of(scope),
        user_agent=headers.get("user-agent", "")[:USER_AGENT_CHARS],
        is_https=is_https,
        session_word=cookies.get(_name(_SESSION, is_https=is_https)),
        device_word=cookies.get(_name(_DEVICE, is_https=is_https)),
        provider_word=cookies.get(_name(_PROVIDER, is_https=is_https)),
    )


def set_cookies(response: Response, new: NewSession, browser: Browser) -> None:
    """Give the browser the words of its session."""
    _set(response, _SESSION, new.word, browser, max_age_s=None)
    _set(response, _DEVICE, new.device_word, browser, max_age_s=DEVICE_DAYS * 86_400)


def set_provider_cookie(response: Response, word: str, browser: Browser, *, max_age_s: int) -> None:
    """Give the browser the word of a log-in by the provider, which only this browser can then complete."""
    _set(response, _PROVIDER, word, browser, max_age_s=max_age_s)


def remove_cookie(response: Response, browser: Browser) -> None:
    """Let the browser forget the word of its session."""
    _set(response, _SESSION, "", browser, max_age_s=0)


def begin(
    session: Session, person: PersonRow, browser: Browser, *, settings: ServingSettings, now: datetime
) -> NewSession:
    """Begin a session with new words. The session that the browser had ends, so nobody can prepare one for it."""
    if browser.session_word is not None:
        repository.end_session_of_digest(session, digest_text(browser.session_word), now=now)
    known = browser.device_word
    if known is None or not repository.is_device_of(session, person.principal_id, digest_text(known)):
        known = new_word()
    word = new_word()
    row = SessionRow(
        digest=digest_text(word),
        device_digest=digest_text(known),
        principal_id=person.principal_id,
        csrf_token=secrets.token_urlsafe(32),
        created_at=now,
        seen_at=now,
        expires_at=now + timedelta(seconds=settings.session_lifetime_s),
        address=None if browser.address is None else browser.address[:ADDRESS_CHARS],
        user_agent=browser.user_agent,
    )
    session.add(row)
    session.flush()
    repository.delete_expired(session, now=now, sessions_before=now - timedelta(days=DEVICE_DAYS))
    return NewSession(row.id, word, known)


def seen_after(settings: ServingSettings, now: datetime) -> datetime:
    """Return the time after which a session must have been used to be live."""
    return now - timedelta(seconds=settings.session_idle_s)


def _name(cookie: str, *, is_https: bool) -> str:
    return f"__Host-{cookie}" if is_https else cookie


def _set(response: Response, cookie: str, value: str, browser: Browser, *, max_age_s: int | None) -> None:
    response.set_cookie(
        _name(cookie, is_https=browser.is_https),
        value,
        max_age=max_age_s,
        path="/",
        secure=browser.is_https,
        httponly=True,
        samesite="lax",
    )
