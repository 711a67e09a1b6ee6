# SPDX-License-Identifier: MIT
"""An authenticator in software: ES256 keys, attestation `none` (WebAuthn level 2, sections 6.1 and 6.5)."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import bytes_to_base64url

_PRESENT, _VERIFIED, _HAS_CREDENTIAL = 0x01, 0x04, 0x40
_COORDINATE_BYTES = 32


@dataclass
class Authenticator:
    """One key for one relying party. The fields are what a test may spoil."""

    origin: str
    rp_id: str
    is_verified: bool = True
    sign_count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: dict[str, Any]) -> str:
        """The answer to `navigator.credentials.create()` as JSON."""
        assert {"type": "public-key", "alg": -7} in options["pubKeyCredParams"]
        assert options["authenticatorSelection"]["userVerification"] == "required"
        numbers = self.key.public_key().public_numbers()
        x, y = (number.to_bytes(_COORDINATE_BYTES, "big") for number in (numbers.x, numbers.y))
        cose = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cose
        data = self._authenticator_data(_HAS_CREDENTIAL) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client_data = self._client_data("webauthn.create", options["challenge"])
        return self._credential(clientDataJSON=client_data, attestationObject=attestation)

    def get(self, options: dict[str, Any]) -> str:
        """The answer to `navigator.credentials.get()` as JSON."""
        assert options["userVerification"] == "required"
        assert not options.get("allowCredentials")
        self.sign_count += 1
        data, client_data = self._authenticator_data(0), self._client_data("webauthn.get", options["challenge"])
        signature = self.key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        return self._credential(clientDataJSON=client_data, authenticatorData=data, signature=signature)

    def _authenticator_data(self, flags: int) -> bytes:
        flags |= _PRESENT | (_VERIFIED if self.is_verified else 0)
        return hashlib.sha256(self.rp_id.encode()).digest() + bytes([flags]) + self.sign_count.to_bytes(4, "big")

    def _client_data(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}).encode()

    def _credential(self, **response: bytes) -> str:
        name = bytes_to_base64url(self.credential_id)
        encoded = {key: bytes_to_base64url(value) for key, value in response.items()}
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": encoded})
