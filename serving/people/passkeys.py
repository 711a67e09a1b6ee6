# SPDX-License-Identifier: MIT
"""Passkeys by WebAuthn (level 2), with the library `webauthn`.

    registration     challenge for a person who is logged in -> the authenticator makes a key -> its public half is kept
    authentication   challenge for anybody -> the authenticator of a person signs it -> that person is logged in

The authenticator must verify its user (PIN or biometrics), because a passkey replaces the password. It finds the key by
itself (discoverable credentials), so no name is entered, and no answer tells which names there are.

A challenge is a word of `one_time`: kept on the server as its SHA-256, valid for five minutes, and deleted when it is
used. One for a registration belongs to its person. The relying party is the host name of the request, which the `Guard`
has accepted, and the origin is that of the request. A key of one host name is therefore not valid for another.

Limits: an IP address is no relying party (WebAuthn, section 5.1.2): passkeys need a host name, such as localhost.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from sqlalchemy.orm import Session
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from serving.access.grants import Caller
from serving.context import Context
from serving.database import PasskeyRow
from serving.errors import BusyError, LogInRefusedError, PasskeyRefusedError
from serving.http.layers import request_id_of
from serving.people import repository, service
from serving.people.sessions import Browser, NewSession
from serving.people.words import digest_text

_REGISTRATION, _AUTHENTICATION = "passkey-new", "passkey-log-in"
_CHALLENGE_S = 300.0
# Anybody may have challenges made, so their number is bounded.
_MAX_CHALLENGES = 10_000
_MAX_PASSKEYS = 20
_TIMEOUT_MS = int(_CHALLENGE_S * 1000)
# What the library raises for an answer that is not valid. Some malformed ones reach the parsers below it.
_INVALID = (WebAuthnException, ValueError, KeyError, TypeError)
_REFUSED = "expected a passkey of a person for this page, got another; try again, or use the password"


async def registration_options(context: Context, request: Request, caller: Caller) -> str:
    """Return the options for `navigator.credentials.create()` as JSON."""
    now = context.clock()

    def prepare(session: Session) -> tuple[str, str, list[str]]:
        row = service.own(session, caller)
        repository.delete_one_time(session, row.principal_id, kind=_REGISTRATION)
        challenge = service.new_one_time(
            session, _REGISTRATION, now=now, lifetime_s=_CHALLENGE_S, principal_id=row.principal_id
        )
        known = [key.credential_id for key in repository.passkeys_of(session, row.principal_id)]
        return challenge, row.handle, known

    challenge, handle, known = await context.write(prepare)
    if len(known) >= _MAX_PASSKEYS:
        raise PasskeyRefusedError(f"expected at most {_MAX_PASSKEYS} passkeys of a person; remove one first")
    options = generate_registration_options(
        rp_id=_relying_party(request),
        rp_name=f"ccatune {context.registry}",
        user_name=caller.name,
        user_id=bytes.fromhex(handle),
        challenge=challenge.encode(),
        timeout=_TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=bytes.fromhex(one)) for one in known],
    )
    return options_to_json(options)


async def register(context: Context, request: Request, caller: Caller, *, credential: str, name: str) -> None:
    """Keep the passkey that an authenticator has made. Raises PasskeyRefusedError."""
    now = context.clock()
    document, challenge = _document(credential)
    # The challenge is used up even if the rest is refused.
    used = await context.write(repository.use_one_time, digest_text(challenge), kind=_REGISTRATION, now=now)

    def keep(session: Session) -> None:
        if used is None or used[0] != service.own(session, caller).principal_id:
            raise PasskeyRefusedError("expected the answer to a challenge that is open, got another; try again")
        made = verify_registration_response(
            credential=document,
            expected_challenge=challenge.encode(),
            expected_rp_id=_relying_party(request),
            expected_origin=_origin(request),
            require_user_verification=True,
        )
        credential_id = made.credential_id.hex()
        if repository.passkey_of_credential(session, credential_id) is not None:
            raise PasskeyRefusedError("expected a new passkey, got one that is known; use another authenticator")
        key = PasskeyRow(
            credential_id=credential_id,
            public_key=made.credential_public_key.hex(),
            sign_count=made.sign_count,
            name=name,
            created_at=now,
        )
        service.add_passkey(session, caller, key, now=now)

    try:
        await context.write(keep)
    except _INVALID as error:
        raise PasskeyRefusedError(f"expected a passkey for this page, got another: {error}") from error


async def log_in_options(context: Context, request: Request) -> str:
    """Return the options for `navigator.credentials.get()` as JSON."""
    now = context.clock()

    def prepare(session: Session) -> str:
        repository.delete_expired_one_time(session, now=now)
        if repository.number_of_one_time(session, _AUTHENTICATION) >= _MAX_CHALLENGES:
            raise BusyError("expected fewer log-ins at once; try again later")
        return service.new_one_time(session, _AUTHENTICATION, now=now, lifetime_s=_CHALLENGE_S)

    challenge = await context.write(prepare)
    options = generate_authentication_options(
        rp_id=_relying_party(request),
        challenge=challenge.encode(),
        timeout=_TIMEOUT_MS,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return options_to_json(options)


async def log_in(context: Context, request: Request, browser: Browser, *, credential: str) -> NewSession:
    """Begin a session of the person whose passkey has signed the challenge. Raises LogInRefusedError."""
    now = context.clock()
    document, challenge = _document(credential)
    # The challenge is used up even if the rest is refused.
    if await context.write(repository.use_one_time, digest_text(challenge), kind=_AUTHENTICATION, now=now) is None:
        raise LogInRefusedError(_REFUSED)

    def begin(session: Session) -> NewSession:
        key = repository.passkey_of_credential(session, _credential_id(document))
        if key is None:
            raise LogInRefusedError(_REFUSED)
        proved = verify_authentication_response(
            credential=document,
            expected_challenge=challenge.encode(),
            expected_rp_id=_relying_party(request),
            expected_origin=_origin(request),
            credential_public_key=bytes.fromhex(key.public_key),
            credential_current_sign_count=key.sign_count,
            require_user_verification=True,
        )
        key.sign_count, key.used_at = proved.new_sign_count, now
        return service.log_in(
            session,
            key.principal_id,
            browser,
            method="passkey",
            request_id=request_id_of(request.scope),
            settings=context.settings,
            now=now,
        )

    try:
        return await context.write(begin)
    except _INVALID as error:
        raise LogInRefusedError(_REFUSED) from error


def _relying_party(request: Request) -> str:
    return urlsplit(f"//{request.headers['host']}").hostname or ""


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers['host']}"


def _document(credential: str) -> tuple[dict[str, Any], str]:
    """Return the answer of the authenticator, and the challenge that it names. Raises PasskeyRefusedError."""
    try:
        document = json.loads(credential)
        client_data = json.loads(base64url_to_bytes(document["response"]["clientDataJSON"]))
        challenge = base64url_to_bytes(client_data["challenge"]).decode("ascii")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PasskeyRefusedError("expected the answer of an authenticator as JSON, got something else") from error
    return document, challenge


def _credential_id(document: dict[str, Any]) -> str:
    try:
        return base64url_to_bytes(document["rawId"]).hex()
    except (ValueError, KeyError, TypeError) as error:
        raise LogInRefusedError(_REFUSED) from error
