# SPDX-License-Identifier: MIT
"""API schemas of tokens and of the audit log."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from serving.access.grants import Grant, PrincipalKind, Scope
from serving.database import TokenRow
from serving.names import AgentId, CcaName, ChannelName
from serving.schemas import RowSchema, Schema, StrictSchema

MAX_LIFETIME_S = 10 * 366 * 86_400
MAX_LIMITS = 64
# The audit log uses these names for callers without a token.
_RESERVED_NAMES = frozenset({"open", "init", "registry", "anonymous"})

_PUBLIC_ID = "0123456789abcdef"
_SCOPES = ["read", "report"]
_CCAS = "The algorithms that it is limited to; null for all."
_CHANNELS = "The channels that it is limited to; null for all."
_AGENT_ID = "The agent that reports with it are limited to; null for any."


def _not_reserved(name: str) -> str:
    if name in _RESERVED_NAMES:
        raise ValueError(f"expected a name other than {', '.join(sorted(_RESERVED_NAMES))}")
    return name


PrincipalName = Annotated[
    AgentId,
    Field(description="Name of a person, an agent or a build system: 1 to 128 of A-Z a-z 0-9 . _ : -"),
    AfterValidator(_not_reserved),
]


class TokenCreate(StrictSchema):
    """A request for a token. The principal is made if there is none with that name."""

    principal: PrincipalName
    kind: PrincipalKind | None = Field(
        default=None,
        description="What the principal is. Needed for a new one, and checked for an existing one.",
        examples=["agent"],
    )
    scopes: list[Scope] = Field(min_length=1, max_length=MAX_LIMITS, description="What it permits.", examples=[_SCOPES])
    ccas: list[CcaName] | None = Field(default=None, min_length=1, max_length=MAX_LIMITS, description=_CCAS)
    channels: list[ChannelName] | None = Field(default=None, min_length=1, max_length=MAX_LIMITS, description=_CHANNELS)
    agent_id: AgentId | None = Field(default=None, description=_AGENT_ID)
    lifetime_s: int | None = Field(
        default=None, ge=1, le=MAX_LIFETIME_S, strict=True, description="Seconds until it expires; null for never."
    )

    @model_validator(mode="after")
    def _admin_has_no_limits(self) -> TokenCreate:
        if "admin" in self.scopes and (self.ccas or self.channels or self.agent_id):
            raise ValueError("expected no limits (ccas, channels, agent_id) with the scope admin, which includes all")
        return self


def _state(row: TokenRow, *, now: datetime) -> Literal["active", "expired", "revoked"]:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now else "active"


class OwnToken(Schema):
    """What the token of a request permits. An agent takes its id from this answer."""

    id: str | None = Field(description="Names the token; null on a registry without accounts.")
    principal: str = Field(description="Whose token it is.")
    scopes: list[str] = Field(description="What it permits.")
    ccas: list[str] | None = Field(description=_CCAS)
    channels: list[str] | None = Field(description=_CHANNELS)
    agent_id: str | None = Field(description=_AGENT_ID)
    expires_at: datetime | None = Field(description="From when on it is not accepted (UTC); null for never.")

    @classmethod
    def of(cls, grant: Grant) -> OwnToken:
        """Build it from what the caller's token permits."""
        return cls(
            id=grant.token_id,
            principal=grant.principal,
            scopes=sorted(grant.scopes),
            ccas=None if grant.ccas is None else sorted(grant.ccas),
            channels=None if grant.channels is None else sorted(grant.channels),
            agent_id=grant.agent_id,
            expires_at=grant.expires_at,
        )


class TokenRead(Schema):
    """A token, without its text."""

    id: str = Field(description="Names the token; it is a part of the token's text.", examples=[_PUBLIC_ID])
    principal: str = Field(description="Whose token it is.", examples=["web-1"])
    kind: str = Field(description="What the principal is: `human`, `agent` or `ci`.", examples=["agent"])
    state: Literal["active", "expired", "revoked"] = Field(description="Only an active token is accepted.")
    scopes: list[str] = Field(description="What it permits.", examples=[_SCOPES])
    ccas: list[str] | None = Field(description=_CCAS, examples=[["gr"]])
    channels: list[str] | None = Field(description=_CHANNELS, examples=[["champion"]])
    agent_id: str | None = Field(description=_AGENT_ID, examples=["web-1"])
    created_at: datetime = Field(description="When it was made (UTC).")
    expires_at: datetime | None = Field(description="From when on it is not accepted (UTC); null for never.")
    revoked_at: datetime | None = Field(description="When it was revoked (UTC); null if it was not.", examples=[None])
    last_used_at: datetime | None = Field(description="When it was last used (UTC), to within some minutes.")

    @classmethod
    def of(cls, row: TokenRow, *, now: datetime) -> TokenRead:
        """Build it from the row. The row's principal must be loaded."""
        own = ("agent_id", "created_at", "expires_at", "revoked_at", "last_used_at")
        return cls(
            id=row.public_id,
            principal=row.principal.name,
            kind=row.principal.kind,
            state=_state(row, now=now),
            scopes=row.scopes.split(),
            ccas=None if row.ccas is None else row.ccas.split(),
            channels=None if row.channels is None else row.channels.split(),
            **{name: getattr(row, name) for name in own},
        )


class TokenCreated(TokenRead):
    """A new token. This is the only answer that contains its text."""

    token: str = Field(
        description="Its text, for `Authorization: Bearer TEXT`. The registry cannot show it again.",
        examples=[f"ccat_{_PUBLIC_ID}_{'x' * 43}"],
    )


class PrincipalRead(RowSchema):
    """Someone who has tokens."""

    name: str = Field(description="Its name.", examples=["web-1"])
    kind: str = Field(description="What it is: `human`, `agent` or `ci`.", examples=["agent"])
    created_at: datetime = Field(description="When its first token was made (UTC).")
    disabled_at: datetime | None = Field(description="When it was disabled (UTC); null if it is not.", examples=[None])


class AuditRead(RowSchema):
    """One change."""

    id: int = Field(description="Number of the entry.")
    at: datetime = Field(description="When the change was made (UTC).")
    actor: str = Field(
        description="Who made it: a principal, `open` without accounts, `init` for `serve --init`, or the `registry`.",
        examples=["alice"],
    )
    token_id: str | None = Field(description="The token that was used.", examples=[_PUBLIC_ID])
    request_id: str | None = Field(description="`X-Request-Id` of the request.", examples=["5f0c3a2b1d4e6f78"])
    address: str | None = Field(description="The network address from which the request came.", examples=["192.0.2.7"])
    action: str = Field(description="What was done, such as `move`.", examples=["move"])
    target: str = Field(
        description="What was changed, such as `channel gr/champion`.", examples=["channel gr/champion"]
    )
    details: Annotated[dict[str, Any], BeforeValidator(json.loads)] = Field(
        description="More about it; depends on the action."
    )
