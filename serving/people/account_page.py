# SPDX-License-Identifier: MIT
"""/ui/account: a person's own password, passkeys and sessions.

A change of the password, and a new passkey, need the password again, so that whoever finds an open browser cannot keep
the account.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from serving.access.check import Holder
from serving.access.grants import Caller
from serving.context import Context, InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import HEADERS, PageRoute, form_of, page, see_other
from serving.database import PersonRow
from serving.errors import LogInRefusedError, PasswordRefusedError, TooManyAttemptsError
from serving.people import passkeys, repository, service, sessions
from serving.people.log_in_pages import require_repeated
from serving.people.login import LogIns
from serving.people.passwords import MIN_CHARS, Passwords
from serving.people.schemas import PasskeyForm
from serving.people.sessions import browser_of, seen_after

router = APIRouter(prefix="/ui/account", route_class=PageRoute, include_in_schema=False)


@router.get("")
async def account(request: Request, context: InContext, caller: Holder) -> Response:
    """Show the own account."""
    return await _account_page(request, context, caller)


@router.post("/password")
async def change_password(request: Request, context: InContext, caller: Holder) -> Response:
    """Change the own password. All other sessions end, and this browser gets a new one."""
    form, passwords = form_of(request), context.part(Passwords)
    person = await context.read(service.own, caller)
    try:
        await _confirm(context, caller, person, form.get("current", ""))
        require_repeated(form.get("new", ""), form.get("again", ""), name=caller.name)
    except (LogInRefusedError, PasswordRefusedError, TooManyAttemptsError) as error:
        return await _account_page(request, context, caller, error=error)
    browser = browser_of(request.scope)
    new = await context.write(
        service.change_password,
        caller,
        await passwords.hash(form["new"]),
        browser,
        verified_hash=person.password_hash,
        settings=context.settings,
        now=context.clock(),
    )
    response = see_other(request, "account")
    sessions.set_cookies(response, new, browser)
    return response


@router.post("/passkeys/options")
async def passkey_options(request: Request, context: InContext, caller: Holder) -> Response:
    """Return a challenge for a new passkey."""
    person = await context.read(service.own, caller)
    if person.password_hash is not None:
        await _confirm(context, caller, person, form_of(request).get("password", ""))
    options = await passkeys.registration_options(context, request, caller)
    return Response(options, media_type="application/json", headers=HEADERS)


@router.post("/passkeys")
async def add_passkey(request: Request, context: InContext, caller: Holder) -> Response:
    """Keep a passkey that an authenticator has made."""
    form = form_of(request)
    named = model_of(PasskeyForm, {"name": form.get("name", "Passkey")})
    await passkeys.register(context, request, caller, credential=form.get("credential", ""), name=named.name)
    return see_other(request, "account")


@router.post("/passkeys/{key_id}/rename")
async def rename_passkey(request: Request, context: InContext, caller: Holder, key_id: int) -> Response:
    """Give a passkey another name."""
    named = model_of(PasskeyForm, form_of(request))
    await context.write(service.rename_passkey, caller, key_id, named.name, now=context.clock())
    return see_other(request, "account")


@router.post("/passkeys/{key_id}/remove")
async def remove_passkey(request: Request, context: InContext, caller: Holder, key_id: int) -> Response:
    """Remove a passkey."""
    await context.write(service.remove_passkey, caller, key_id, now=context.clock())
    return see_other(request, "account")


@router.post("/sessions/end")
async def end_all_sessions(request: Request, context: InContext, caller: Holder) -> Response:
    """Log out everywhere."""
    await context.write(service.end_sessions, caller, now=context.clock())
    response = see_other(request, "login")
    sessions.remove_cookie(response, browser_of(request.scope))
    return response


@router.post("/sessions/{session_id}/end")
async def end_session(request: Request, context: InContext, caller: Holder, session_id: int) -> Response:
    """End one of the own sessions."""
    await context.write(service.end_sessions, caller, only_id=session_id, now=context.clock())
    return see_other(request, "account")


async def _confirm(context: Context, caller: Caller, person: PersonRow, password: str) -> None:
    """Check the caller's own password again. Raises LogInRefusedError, TooManyAttemptsError."""
    await context.part(LogIns).confirm(caller, person.password_hash, password)


async def _account_page(
    request: Request,
    context: Context,
    caller: Caller,
    *,
    error: LogInRefusedError | PasswordRefusedError | TooManyAttemptsError | None = None,
) -> Response:
    now = context.clock()

    def read(session: Session) -> dict[str, Any]:
        person = service.own(session, caller)
        last = seen_after(context.settings, now)
        return {
            "person": person,
            "passkeys": repository.passkeys_of(session, person.principal_id),
            "sessions": repository.sessions_of(session, person.principal_id, now=now, seen_after=last),
        }

    return page(
        request,
        "account.html",
        title="Your account",
        status=HTTPStatus.OK if error is None else error.status,
        error=None if error is None else str(error),
        min_chars=MIN_CHARS,
        **await context.read(read),
    )
