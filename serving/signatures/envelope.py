# SPDX-License-Identifier: MIT
"""DSSE envelopes: a payload of a named type with signatures (Dead Simple Signing Envelope, protocol version 1).

    {"payload": BASE64, "payloadType": TYPE, "signatures": [{"keyid": ID, "sig": BASE64}, ...]}
    signed bytes = PAE(type, payload) = "DSSEv1" SP len(type) SP type SP len(payload) SP payload

The type is signed too, so that a signature of one kind of document never counts for another kind.
Signatures of unknown keys and wrong signatures are ignored. What counts is the number of distinct keys that hold.

The key id is not signed, so it only selects the key with which a signature is verified.
DEVIATION: a key id is required, and has the form of keys.py. Base64 has one form: the standard alphabet, with padding.
DSSE allows other ids, none, and URL-safe base64. Every envelope here is written by this package.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from serving.signatures._fields import parse_object, require_object, text
from serving.signatures.errors import SignatureError
from serving.signatures.keys import SIGNATURE_BYTES, PrivateKey, PublicKey, from_base64

MAX_ENVELOPE_BYTES = 128 * 1024
_MAX_SIGNATURES = 64
_KEY_ID = re.compile(r"[0-9a-f]{64}")
_TYPE = re.compile(r"[!-~]{1,128}")
_FIELDS = ("payload", "payloadType", "signatures")


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed (Pre-Authentication Encoding)."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class Envelope:
    """A payload, and its signatures by key id."""

    payload_type: str
    payload: bytes
    signatures: Mapping[str, bytes]

    @staticmethod
    def sign(payload_type: str, payload: bytes, keys: Iterable[PrivateKey]) -> Envelope:
        """Sign a payload with each of the keys."""
        return Envelope(payload_type, payload, {}).with_signatures(keys)

    def with_signatures(self, keys: Iterable[PrivateKey]) -> Envelope:
        """Return the envelope with further signatures."""
        message = pae(self.payload_type, self.payload)
        added = {key.public.key_id: key.sign(message) for key in keys}
        return Envelope(self.payload_type, self.payload, {**self.signatures, **added})

    def signers(self, keys: Mapping[str, PublicKey]) -> frozenset[str]:
        """Return the ids of those of the keys whose signature holds."""
        message = pae(self.payload_type, self.payload)
        return frozenset(
            key_id
            for key_id, signature in self.signatures.items()
            if key_id in keys and keys[key_id].verifies(message, signature)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the envelope as JSON data; the inverse of from_json."""
        return {
            "payload": base64.b64encode(self.payload).decode("ascii"),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": key_id, "sig": base64.b64encode(signature).decode("ascii")}
                for key_id, signature in sorted(self.signatures.items())
            ],
        }

    @staticmethod
    def from_json(data: object) -> Envelope:
        """Build an envelope from JSON data, without verifying it. Raises SignatureError."""
        top = require_object(data, "envelope", _FIELDS)
        payload_type, payload = text(top, "payloadType", "envelope"), text(top, "payload", "envelope")
        if not _TYPE.fullmatch(payload_type):
            raise SignatureError(f"envelope: expected payloadType as a media type, got {payload_type!r:.100}")
        if len(payload) > MAX_ENVELOPE_BYTES:
            raise SignatureError(
                f"envelope: expected at most {MAX_ENVELOPE_BYTES} bytes, got {len(payload)} of payload"
            )
        return Envelope(payload_type, from_base64(payload, "envelope: payload"), _signatures(top["signatures"]))

    @staticmethod
    def parse(content: bytes) -> Envelope:
        """Build an envelope from a file's or a request's bytes, without verifying it. Raises SignatureError."""
        if len(content) > MAX_ENVELOPE_BYTES:
            raise SignatureError(f"envelope: expected at most {MAX_ENVELOPE_BYTES} bytes, got {len(content)}")
        return Envelope.from_json(parse_object(content, "envelope", _FIELDS))


def _signatures(rows: object) -> dict[str, bytes]:
    if not isinstance(rows, list) or len(rows) > _MAX_SIGNATURES:
        raise SignatureError(f"envelope: expected a list of at most {_MAX_SIGNATURES} signatures")
    signatures: dict[str, bytes] = {}
    for row in rows:
        one = require_object(row, "a signature", ("keyid", "sig"))
        key_id, signature = text(one, "keyid", "a signature"), from_base64(one["sig"], "a signature")
        if not _KEY_ID.fullmatch(key_id):
            raise SignatureError(f"a signature: expected a key id of 64 hexadecimal digits, got {key_id!r:.100}")
        if len(signature) != SIGNATURE_BYTES:
            raise SignatureError(f"a signature: expected {SIGNATURE_BYTES} bytes, got {len(signature)}")
        if key_id in signatures:
            raise SignatureError(f"envelope: expected each key id once, got {key_id[:16]} twice")
        signatures[key_id] = signature
    return signatures
