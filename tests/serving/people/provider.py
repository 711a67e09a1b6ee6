# SPDX-License-Identifier: MIT
"""A provider of OpenID Connect on loopback, which signs real ID tokens. A test may spoil what it says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "registry-of-tests", "a secret of the client"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "1"}) for _ in range(2))


@dataclass
class SmallProvider:
    """Issuer, users and codes. `claims` are those of the next ID token besides the ones that the protocol needs."""

    now_s: Callable[[], float]
    claims: dict[str, Any] = field(
        default_factory=lambda: {"sub": "4711", "preferred_username": "dora", "groups": ["net"]}
    )
    spoilt: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    key: Any = field(default_factory=lambda: KEY)
    signing_key: Any = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    exchanges: list[dict[str, str]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*provider.answer(self.path, {}, ""))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(*provider.answer(self.path, _fields(body), self.headers.get("Authorization", "")))

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def confirm(self, location: str) -> str:
        """Let the user log in at the provider; returns the query with which the browser is sent back."""
        query = _fields(urlsplit(location).query)
        assert (query["client_id"], query["response_type"], query["code_challenge_method"]) == (CLIENT, "code", "S256")
        assert query["scope"].split()[0] == "openid"
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        return f"?code={code}&state={query['state']}"

    def answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer to a request of the registry."""
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            found = {name: f"{self.issuer}/{place}" for name, place in names.items()}
            algorithms = {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
            return 200, {"issuer": self.issuer, **found, **algorithms, **self.metadata}
        if path == "/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        self.exchanges.append(form)
        asked = self.codes.pop(form["code"], None)
        credentials = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
        if (
            asked is None
            or authorization != f"Basic {credentials}"
            or asked["redirect_uri"] != form["redirect_uri"]
            or asked["code_challenge"] != _base64url(challenge)
        ):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self._id_token(asked)}

    def _id_token(self, asked: dict[str, str]) -> str:
        now_s = int(self.now_s())
        required = {"iss": self.issuer, "aud": CLIENT, "nonce": asked["nonce"], "iat": now_s, "exp": now_s + 300}
        claims = {**required, **self.claims, **self.spoilt}
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.algorithm != "RS256":
            return self._without_key(claims)
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.signing_key or self.key)

    def _without_key(self, claims: dict[str, Any]) -> str:
        """A token that anybody can make: without signature, or with the public key as the shared secret of HS256."""
        head = ".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": self.algorithm, "kid": "1"}, claims))
        public_key = self.key.as_pem(private=False)
        mac = hmac.digest(public_key, head.encode(), "sha256") if self.algorithm == "HS256" else b""
        return f"{head}.{_base64url(mac)}"


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _fields(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}
