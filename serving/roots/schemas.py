# SPDX-License-Identifier: MIT
"""API schemas of root documents and of the signed envelopes that all signatures travel in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from serving.database import RootRow
from serving.errors import SignatureInvalidError
from serving.schemas import Schema, StrictSchema
from serving.signatures import Envelope, Root, SignatureError

_MAX_PAYLOAD_CHARS = 128 * 1024
_MAX_SIGNATURES = 64

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
