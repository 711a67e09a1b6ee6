# SPDX-License-Identifier: MIT
"""Log-in by a provider of OpenID Connect: authorization code with PKCE, state and nonce (extra `oidc`, authlib).

    GET login/provider            keeps state, nonce and code verifier, and leads the browser to the provider
    GET login/provider/callback   the state is used once, by the same browser; the code is exchanged for an ID token
                                  -> its signature, issuer, audience, nonce and times are checked -> role by its claims

A person is known by issuer and subject. At the first log-in an account is made with the name in `oidc_name_claim`; a
name that a principal has already is refused, so that nobody can choose a name to become somebody else. The groups in
`oidc_role_claim` give the role at each log-in. Without one of `oidc_roles` the log-in is refused.

Limits: a person whom the provider has disabled keeps a session until it expires, or an administrator disables the
person here.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast, get_args
from urllib.parse import urlencode

import httpx
from fastapi import Request
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from serving.access.grants import Role
from serving.access.schemas import PrincipalName
from serving.agent.settings import read_secret
from serving.context import Context
from serving.database import PersonRow
from serving.errors import BusyError, LogInRefusedError, ProviderError, SettingsError
from serving.http.layers import request_id_of
from serving.people import repository, service
from serving.people.sessions import Browser, NewSession
from serving.people.words import digest_text, new_word
from serving.settings import ServingSettings, is_protected

CALLBACK = "ui/login/provider/callback"
STATE_S = 600.0

_KIND = "provider"
_MAX_STATES = 10_000
_MAX_SECRET_BYTES = 1024
_TIMEOUT_S = 10.0
_METADATA_S = 3600.0
_LEEWAY_S = 60
# Without those by a shared secret, and without `none`.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_REFUSED = "expected a log-in that this browser began here and that the provider confirms, got another; try again"

_NAME: TypeAdapter[str] = TypeAdapter(PrincipalName)


@dataclass(frozen=True)
class Started:
    """A log-in that leads to the provider. browser_word: for a cookie, which only the same browser can send back."""

    location: str
    browser_word: str


class Provider:
    """The provider of the settings. All methods belong to the event loop."""

    def __init__(
        self,
        context: Context,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the client's secret.

        Raises:
            SettingsError: the extra `oidc` is not installed.
            SecretError: the file of the secret cannot be read, or others may read it.
        """
        if find_spec("authlib") is None:
            raise SettingsError(
                "oidc_issuer: expected the packages of the extra `oidc`, they are not installed; install ccatune[oidc]"
            )
        settings: ServingSettings = context.settings
        assert settings.oidc_issuer is not None and settings.oidc_client_id is not None  # noqa: S101, PT018 - by settings
        self._context = context
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        file = settings.oidc_client_secret_file
        content = b"" if file is None else read_secret("oidc_client_secret_file", file, max_bytes=_MAX_SECRET_BYTES)
        self._secret = content.decode("utf-8").strip() or None
        # The authorities' files take longer to read than a request.
        self._tls = ssl.create_default_context()
        self._monotonic = monotonic
        self._metadata: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()

    async def start(self, request: Request, *, place: str) -> Started:
        """Begin a log-in that leads back to the page `place`. Raises ProviderError, BusyError."""
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        metadata = await self._read_metadata()
        nonce, verifier, browser_word = new_word(), new_word(), new_word()
        details = {
            "nonce": nonce,
            "verifier": verifier,
            "browser": digest_text(browser_word),
            "place": place,
            "redirect": self._redirect_url(request),
        }

        def keep(session: Session) -> str:
            now = self._context.clock()
            repository.delete_expired_one_time(session, now=now)
            if repository.number_of_one_time(session, _KIND) >= _MAX_STATES:
                raise BusyError("expected fewer log-ins at once; try again later")
            return service.new_one_time(session, _KIND, now=now, lifetime_s=STATE_S, details=details)

        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": details["redirect"],
            "scope": "openid profile email",
            "state": await self._context.write(keep),
            "nonce": nonce,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        endpoint = metadata["authorization_endpoint"]
        return Started(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", browser_word)

    async def finish(self, request: Request, browser: Browser) -> tuple[NewSession, str]:
        """Return the session of the person whom the provider confirms, and the page to show.

        Raises:
            LogInRefusedError: state, browser, ID token or groups are not those of a person's log-in.
            ProviderError: the provider does not answer.
        """
        query = request.query_params
        used = await self._context.write(
            repository.use_one_time, digest_text(query.get("state", "")), kind=_KIND, now=self._context.clock()
        )
        details = {} if used is None else json.loads(used[1])
        is_same_browser = browser.provider_word is not None and secrets.compare_digest(
            digest_text(browser.provider_word), str(details.get("browser", ""))
        )
        if not is_same_browser or query.get("iss", self._issuer) != self._issuer or "code" not in query:
            raise LogInRefusedError(_REFUSED)
        claims = await self._claims(query["code"], details)
        new = await self._context.write(self._logged_in, claims, browser, request_id=request_id_of(request.scope))
        return new, str(details["place"])

    async def _claims(self, code: str, details: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the claims of the ID token for a code. Raises LogInRefusedError, ProviderError."""
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": details["redirect"],
            "client_id": self._client_id,
            "code_verifier": details["verifier"],
        }
        metadata = await self._read_metadata()
        auth = None
        if self._secret is not None:
            if "client_secret_basic" in metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"]):
                auth = httpx.BasicAuth(self._client_id, self._secret)
            else:
                body["client_secret"] = self._secret
        answer = await self._ask("POST", metadata["token_endpoint"], data=body, auth=auth)
        token = str(answer.get("id_token", ""))
        return self._verified(token, nonce=details["nonce"], access_token=answer.get("access_token"))

    def _verified(self, token: str, *, nonce: str, access_token: str | None) -> Mapping[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jws, jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        said = self._metadata.get("id_token_signing_alg_values_supported", ["RS256"])
        allowed = [name for name in _ALGORITHMS if name in said]
        expected = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self._client_id},
            "nonce": {"essential": True, "value": nonce},
        }
        parameters = {"nonce": nonce, "client_id": self._client_id, "access_token": access_token}
        try:
            registry = jws.JWSRegistry(algorithms=allowed, strict_check_header=False)
            decoded = jwt.decode(token, KeySet.import_key_set(cast("Any", self._keys)), registry=registry)
            claims = CodeIDToken(decoded.claims, decoded.header, expected, parameters)
            claims.validate(now=int(self._context.clock().timestamp()), leeway=_LEEWAY_S)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            # The keys may have been changed since they were read.
            self._read_at_s = float("-inf")
            raise LogInRefusedError(_REFUSED) from error
        return dict(claims)

    def _logged_in(
        self, session: Session, claims: Mapping[str, Any], browser: Browser, *, request_id: str | None
    ) -> NewSession:
        now, settings = self._context.clock(), self._context.settings
        role = role_of(claims, settings)
        row = repository.person_of_subject(session, f"{self._issuer} {claims['sub']}")
        if row is None:
            row = self._new_person(session, claims, role, browser, request_id=request_id)
        elif row.role != role:
            by = service.caller_for(row, request_id=request_id, address=browser.address)
            service.set_role(session, row.principal.name, role, by=by, now=now)
        return service.log_in(
            session,
            row.principal_id,
            browser,
            method="provider",
            request_id=request_id,
            settings=settings,
            now=now,
        )

    def _new_person(
        self, session: Session, claims: Mapping[str, Any], role: Role, browser: Browser, *, request_id: str | None
    ) -> PersonRow:
        claim = self._context.settings.oidc_name_claim
        try:
            name = _NAME.validate_python(claims.get(claim))
        except ValidationError as error:
            raise LogInRefusedError(
                f"expected a name of 1 to 128 of A-Z a-z 0-9 . _ : - in the claim {claim}, got another; "
                "let an administrator of the provider correct it"
            ) from error
        by = service.caller_named(name, role, request_id=request_id, address=browser.address)
        subject = f"{self._issuer} {claims['sub']}"
        return service.add_person(session, name, role, subject=subject, by=by, now=self._context.clock())

    async def _read_metadata(self) -> dict[str, Any]:
        """Return what the provider says of itself, and read its keys. Raises ProviderError."""
        async with self._reading:
            if self._monotonic() - self._read_at_s >= _METADATA_S:
                address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
                metadata = await self._ask("GET", address)
                endpoints = ("authorization_endpoint", "token_endpoint", "jwks_uri")
                if metadata.get("issuer") != self._issuer:
                    raise ProviderError(
                        f"{address}: expected the issuer {self._issuer}, got another; correct oidc_issuer"
                    )
                for name in endpoints:
                    if not is_protected(str(metadata.get(name, ""))):
                        raise ProviderError(f"{address}: expected {name} with https, got none")
                self._keys = await self._ask("GET", metadata["jwks_uri"])
                self._metadata, self._read_at_s = metadata, self._monotonic()
        return self._metadata

    async def _ask(self, method: str, address: str, **request: Any) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(verify=self._tls, timeout=_TIMEOUT_S) as client:
                answer = await client.request(method, address, **request)
            document = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ProviderError(f"{address}: expected an answer with JSON, got {type(error).__name__}") from error
        if not answer.is_success or not isinstance(document, dict):
            raise ProviderError(f"{address}: expected a success, got {answer.status_code}; the log-in begins anew")
        return document

    def _redirect_url(self, request: Request) -> str:
        own = f"{request.url.scheme}://{request.headers['host']}/{CALLBACK}"
        return self._context.settings.oidc_redirect_url or own


def role_of(claims: Mapping[str, Any], settings: ServingSettings) -> Role:
    """Return the highest role of the person's groups. Raises LogInRefusedError where no group has a role."""
    found = claims.get(settings.oidc_role_claim)
    groups = found if isinstance(found, list) else [found]
    roles = {settings.oidc_roles.get(str(group)) for group in groups}
    for role in reversed(get_args(Role)):
        if role in roles:
            found_role: Role = role
            return found_role
    raise LogInRefusedError(
        f"expected one of the groups that may use this registry in the claim {settings.oidc_role_claim}, got none of "
        "them; ask an administrator"
    )
