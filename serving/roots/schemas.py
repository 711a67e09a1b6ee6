# SPDX-License-Identifier: MIT
"""API schemas of root documents and of the signed envelopes that all signatures travel in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from serving.database import RootRow
from serving.errors import SignatureInvalidError
from serving.schemas import Schema, StrictSchema
from serving.signatures import ROLES, Envelope, PrivateKey, Role, Root, SignatureError
from serving.signatures.root import ROOT_TYPE

_MAX_PAYLOAD_CHARS = 128 * 1024
_MAX_SIGNATURES = 64
_EXAMPLE_EXPIRES_S = int(datetime(2036, 3, 1, tzinfo=UTC).timestamp())

KeyId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the public key's 32 bytes, in hexadecimal.",
        examples=["0123456789abcdef" * 4],
    ),
]


class EnvelopeSignature(StrictSchema):
    """One signature of an envelope's payload."""

    keyid: KeyId
    sig: str = Field(
        min_length=88,
        max_length=88,
        description="The Ed25519 signature: 64 bytes in base64.",
        examples=["A" * 86 + "=="],
    )


class SignedEnvelope(StrictSchema):
    """A DSSE envelope. The signed bytes are the Pre-Authentication Encoding of its type and payload."""

    payload: str = Field(
        max_length=_MAX_PAYLOAD_CHARS, description="The signed document, in base64.", examples=["e30="]
    )
    payloadType: str = Field(  # noqa: N815 - DSSE's own name
        max_length=128,
        description="The kind of document that is signed.",
        examples=["application/vnd.ccatune.ensemble+json"],
    )
    signatures: list[EnvelopeSignature] = Field(max_length=_MAX_SIGNATURES, description="One of each key.")

    def to_envelope(self) -> Envelope:
        """Decode the envelope, without verifying it. Raises SignatureInvalidError."""
        try:
            return Envelope.from_json(self.model_dump())
        except SignatureError as error:
            raise SignatureInvalidError(str(error)) from error


def _add_example(schema: dict[str, Any]) -> None:
    """Add a valid first root document. Anyone knows its private keys, so it is of a registry that nobody has."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    keys = {name: PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes([i] * 32))) for i, name in enumerate(ROLES)}
    root = Root(
        registry="example",
        version=1,
        expires_s=_EXAMPLE_EXPIRES_S,
        keys={key.public.key_id: key.public for key in keys.values()},
        roles={name: Role(frozenset({key.public.key_id})) for name, key in keys.items()},
    )
    schema["examples"] = [Envelope.sign(ROOT_TYPE, root.to_payload(), [keys["root"]]).to_json()]


class RootEnvelope(SignedEnvelope):
    """A root document in its DSSE envelope, signed by root keys."""

    model_config = ConfigDict(json_schema_extra=_add_example)


class RootAdded(Schema):
    """The answer to an upload of a root document."""

    registry: str = Field(description="Name of the registry that the document is for.", examples=["local"])
    version: int = Field(description="Version of the document.")
    expires: datetime = Field(description="When the document expires (UTC). Moves are refused from then on.")
    added_at: datetime = Field(description="When this version was uploaded first (UTC).")
    created: bool = Field(description="False if the registry had this document already.")

    @classmethod
    def of(cls, row: RootRow, *, created: bool) -> RootAdded:
        """Build the answer from the document's row."""
        root = Root.from_payload(Envelope.from_json(json.loads(row.envelope)).payload)
        return cls(
            registry=root.registry,
            version=root.version,
            expires=datetime.fromtimestamp(root.expires_s, tz=UTC),
            added_at=row.added_at,
            created=created,
        )
