# SPDX-License-Identifier: MIT
"""Idempotency keys of moves.

A client that receives no answer cannot know whether its move was made. If it sends the request again with the same
`Idempotency-Key`, the registry answers with the deployment of the first request and makes no second one.
A key belongs to one channel and is kept as long as its deployment, which is until the channel is deleted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header

from serving.database import IDEMPOTENCY_KEY_CHARS, DeploymentRow
from serving.errors import IdempotencyKeyReusedError

__all__ = ["Idempotency", "IdempotencyKey", "idempotency_of"]

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=rf"^[!-~]{{1,{IDEMPOTENCY_KEY_CHARS}}}$",
        description="A random word of the client. A repeated request with the same word makes no second move.",
    ),
]


@dataclass(frozen=True)
class Idempotency:
    """The key of a request, and the digest of everything else in it that decides about the move."""

    key: str
    request_digest: str

    def require_same_request(self, row: DeploymentRow) -> None:
        """Raise IdempotencyKeyReusedError if the deployment was made by a request with another content."""
        if row.request_digest != self.request_digest:
            raise IdempotencyKeyReusedError(
                f"Idempotency-Key: expected a key of no other request, got that of serial {row.serial}; use a new one"
            )


def idempotency_of(key: str | None, **request: object) -> Idempotency | None:
    """Return the idempotency of a request with this content, or None without a key."""
    if key is None:
        return None
    content = json.dumps(request, sort_keys=True).encode("utf-8")
    return Idempotency(key, f"sha256:{hashlib.sha256(content).hexdigest()}")
