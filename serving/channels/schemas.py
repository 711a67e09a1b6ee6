# SPDX-License-Identifier: MIT
"""API schemas of channels and their deployments, and idempotency keys of moves."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Header
from pydantic import Field

from serving.database import IDEMPOTENCY_KEY_CHARS, DeploymentRow
from serving.errors import IdempotencyKeyReusedError
from serving.names import EXAMPLE_DOCUMENT, CcaName, ChannelName, DigestText, Note
from serving.roots.schemas import SignedEnvelope
from serving.schemas import Schema, StrictSchema

_URGENT = (
    "Whether each running flow takes the table at its next ACK or transmission, "
    "instead of at the end of its epoch, which may last an hour."
)


IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=rf"^[!-~]{{1,{IDEMPOTENCY_KEY_CHARS}}}$",
        description="A random word of the client. A repeated request with the same word makes no second move.",
    ),
]


class ChannelMove(StrictSchema):
    """A request to point a channel to an ensemble."""

    digest: DigestText
    hold_back_permille: int = Field(
        default=0, ge=0, le=1000, strict=True, description="Share of flows that do not use the ensemble, in permille."
    )
    urgent: bool = Field(default=False, strict=True, description=_URGENT)
    note: Note = ""


class RollBack(StrictSchema):
    """A request to point a channel back to its previous ensemble."""

    urgent: bool = Field(default=True, strict=True, description=_URGENT)
    note: Note = ""


class DeploymentRead(Schema):
    """One move of a channel."""

    registry: str = Field(description="Name of the registry that gave the serial out.", examples=["local"])
    cca: CcaName
    channel: ChannelName
    serial: int = Field(description="Grows with each move of this channel; never used twice, even after a deletion.")
    digest: DigestText
    hold_back_permille: int = Field(
        description="Share of flows that do not use the ensemble, in permille.", examples=[0]
    )
    urgent: bool = Field(description=_URGENT, examples=[False])
    note: str = Field(description="What the mover said.", examples=["trained on the traces of May"])
    restores_serial: int | None = Field(
        description="For a roll-back, the deployment that it went back to.", examples=[None]
    )
    deployed_at: datetime = Field(description="When the channel was moved (UTC).")

    @classmethod
    def of(cls, row: DeploymentRow, *, registry: str) -> DeploymentRead:
        """Build it from the row. The row's channel must be loaded."""
        own = ("serial", "digest", "hold_back_permille", "urgent", "note", "restores_serial", "deployed_at")
        return cls(
            registry=registry,
            cca=row.channel.cca,
            channel=row.channel.name,
            **{name: getattr(row, name) for name in own},
        )


class OfferSignatures(Schema):
    """What an agent with a pinned root document verifies before it applies an offer."""

    deployment: SignedEnvelope | None = Field(
        description="The registry's signature of the deployment; null if it has no signing key."
    )
    ensemble: list[SignedEnvelope] = Field(
        description="Signatures of the ensemble by publishers whom the newest root document names."
    )
    root_version: int | None = Field(description="Version of the newest root document; null if there is none.")


class OfferRead(DeploymentRead):
    """A channel's current deployment with its ensemble. Agents request this."""

    signatures: OfferSignatures = Field(description="Signatures of the deployment and of its ensemble.")
    ensemble: dict[str, Any] = Field(description="The ensemble's document, as published.", examples=[EXAMPLE_DOCUMENT])


@dataclass(frozen=True)
class Idempotency:
    """The key of a request, and the digest of everything else in it that decides about the move.

    A client that receives no answer cannot know whether its move was made. If it sends the request again with the same
    key, the registry answers with the deployment of the first request and makes no second one. A key belongs to one
    channel and is kept as long as its deployment, which is until the channel is deleted.
    """

    key: str
    request_digest: str

    def require_same_request(self, request_digest: str | None, *, of: str) -> None:
        """Raise IdempotencyKeyReusedError if a request with another content has the key. of: what that one made."""
        if request_digest != self.request_digest:
            raise IdempotencyKeyReusedError(
                f"Idempotency-Key: expected a key of no other request, got that of {of}; use a new one"
            )


def idempotency_of(key: str | None, **request: object) -> Idempotency | None:
    """Return the idempotency of a request with this content, or None without a key."""
    if key is None:
        return None
    content = json.dumps(request, sort_keys=True).encode("utf-8")
    return Idempotency(key, f"sha256:{hashlib.sha256(content).hexdigest()}")
