# SPDX-License-Identifier: MIT
"""Pages without a session: log-in by password, passkey and provider, and the set-up link. And the log-out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from serving.access.check import Holder
from serving.context import Context, InContext
from serving.dashboard.pages import HEADERS, PageRoute, form_of, page, see_other
from serving.errors import LogInRefusedError, PasskeyRefusedError, PasswordRefusedError, TooManyAttemptsError
from serving.http.layers import request_id_of
from serving.people import passkeys, service, sessions
from serving.people.gate import safe_place
from serving.people.login import LogIns
from serving.people.oidc import STATE_S, Provider
from serving.people.passwords import MIN_CHARS, Passwords, require_good
from serving.people.sessions import NewSession, browser_of

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_Next = Annotated[str, Query(alias="next")]


@router.get("/login")
async def log_in_page(request: Request, context: InContext, place: _Next = "") -> Response:
    """Show the log-in."""
    if context.settings.open:
        return see_other(request, "")
    return _log_in_page(request, context, place=place)


@router.post("/login")
async def log_in(request: Request, context: InContext) -> Response:
    """Log in by name and password."""
    form = form_of(request)
    place, browser = form.get("next", ""), browser_of(request.scope)
    try:
        new = await context.part(LogIns).by_password(
            form.get("name", ""), form.get("password", ""), browser, request_id=request_id_of(request.scope)
        )
    except (LogInRefusedError, TooManyAttemptsError) as error:
        return _log_in_page(request, context, place=place, name=form.get("name", ""), error=error)
    if isinstance(new, str):
        return see_other(request, f"set-up?word={new}")
    return _begun(request, new, place)


@router.post("/login/passkey/options")
async def passkey_options(request: Request, context: InContext) -> Response:
    """Return a challenge for a passkey."""
    context.part(LogIns).require_unblocked(browser_of(request.scope))
    return Response(await passkeys.log_in_options(context, request), media_type="application/json", headers=HEADERS)


@router.post("/login/passkey")
async def log_in_by_passkey(request: Request, context: InContext) -> Response:
    """Log in by the answer of an authenticator."""
    form, browser, log_ins = form_of(request), browser_of(request.scope), context.part(LogIns)
    place = form.get("next", "")
    try:
        log_ins.require_unblocked(browser)
        new = await passkeys.log_in(context, request, browser, credential=form.get("credential", ""))
    except TooManyAttemptsError as error:
        return _log_in_page(request, context, place=place, error=error)
    except (LogInRefusedError, PasskeyRefusedError) as error:
        log_ins.note_refused_proof(browser, request_id=request_id_of(request.scope))
        return _log_in_page(request, context, place=place, error=error)
    return _begun(request, new, place)


@router.get("/login/provider")
async def to_provider(request: Request, context: InContext, place: _Next = "") -> Response:
    """Lead to the provider of OpenID Connect."""
    browser = browser_of(request.scope)
    context.part(LogIns).require_unblocked(browser)
    started = await _provider(context).start(request, place=safe_place(place))
    headers = {**HEADERS, "Location": started.location}
    response = Response(status_code=HTTPStatus.SEE_OTHER, headers=headers)
    sessions.set_provider_cookie(response, started.browser_word, browser, max_age_s=int(STATE_S))
    return response


@router.get("/login/provider/callback")
async def from_provider(request: Request, context: InContext) -> Response:
    """Log in by the answer of the provider."""
    browser, log_ins = browser_of(request.scope), context.part(LogIns)
    log_ins.require_unblocked(browser)
    try:
        new, place = await _provider(context).finish(request, browser)
    except LogInRefusedError as error:
        log_ins.note_refused_proof(browser, request_id=request_id_of(request.scope))
        return _log_in_page(request, context, error=error)
    return _begun(request, new, place)


@router.get("/set-up")
async def set_up_page(request: Request, context: InContext, word: str = "") -> Response:
    """Show the form of a set-up link. The link is not used up."""
    person = await context.read(service.set_up_person, word, now=context.clock())
    return _set_up_page(request, word=word, name=person.principal.name)


@router.post("/set-up")
async def set_up(request: Request, context: InContext) -> Response:
    """Set the password by a set-up link, and log in."""
    form = form_of(request)
    word, password = form.get("word", ""), form.get("new", "")
    person = await context.read(service.set_up_person, word, now=context.clock())
    passwords = context.part(Passwords)
    try:
        require_repeated(password, form.get("again", ""), name=person.principal.name)
        if person.password_hash is not None and await passwords.verify(person.password_hash, password):
            raise PasswordRefusedError("password: expected another one than the administrator's; choose your own")
    except PasswordRefusedError as error:
        return _set_up_page(request, word=word, name=person.principal.name, error=error)
    new = await context.write(
        service.set_up,
        word,
        await passwords.hash(password),
        browser_of(request.scope),
        request_id=request_id_of(request.scope),
        settings=context.settings,
        now=context.clock(),
    )
    return _begun(request, new, "")


@router.post("/logout")
async def log_out(request: Request, context: InContext, caller: Holder) -> Response:
    """End the session."""
    if caller.grant.session_id is not None:
        await context.write(service.log_out, caller, now=context.clock())
    response = see_other(request, "login")
    sessions.remove_cookie(response, browser_of(request.scope))
    return response


def require_repeated(password: str, again: str, *, name: str) -> None:
    """Check a new password that was entered twice. Raises PasswordRefusedError."""
    if password != again:
        raise PasswordRefusedError("password: expected the same one twice, got two; enter it again")
    require_good(password, name=name)


def _begun(request: Request, new: NewSession, place: str) -> Response:
    safe = safe_place(place)
    response = see_other(request, safe)
    sessions.set_cookies(response, new, browser_of(request.scope))
    return response


def _log_in_page(
    request: Request,
    context: Context,
    *,
    place: str = "",
    name: str = "",
    error: LogInRefusedError | PasskeyRefusedError | TooManyAttemptsError | None = None,
) -> Response:
    response = page(
        request,
        "log_in.html",
        title="Log in",
        status=HTTPStatus.OK if error is None else error.status,
        place=safe_place(place),
        name=name,
        error=None if error is None else str(error),
        has_provider=context.settings.oidc_issuer is not None,
    )
    if isinstance(error, TooManyAttemptsError):
        response.headers.update(error.headers)
    return response


def _set_up_page(request: Request, *, word: str, name: str, error: PasswordRefusedError | None = None) -> Response:
    return page(
        request,
        "set_up.html",
        title="Set the password",
        status=HTTPStatus.OK if error is None else error.status,
        word=word,
        name=name,
        error=None if error is None else str(error),
        min_chars=MIN_CHARS,
    )


def _provider(context: Context) -> Provider:
    if context.settings.oidc_issuer is None:
        raise LogInRefusedError(
            "expected a registry with a provider of OpenID Connect, got one without; use a password"
        )
    return context.part(Provider)
