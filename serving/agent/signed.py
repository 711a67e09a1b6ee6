# SPDX-License-Identifier: MIT
"""The signatures that an offer had when the agent verified it. They are stored with the table.

Nothing here verifies a signature, so a stored table is loaded without the package `cryptography`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kmod.ensemble import EnsembleError


@dataclass(frozen=True)
class Signed:
    """Verified signatures of a table.

    key_id: the registry's key that signed the deployment. expires_s: until when it holds, in seconds since 1970.
    pinned_sha256: SHA-256 of the pinned root document under whose chain the signatures were verified.
    deployment, ensemble: the envelopes, as JSON data. root_version: the version of the root document at that time.
    """

    key_id: str
    expires_s: int
    pinned_sha256: str
    deployment: dict[str, Any]
    ensemble: tuple[dict[str, Any], ...]
    root_version: int

    def to_json(self) -> dict[str, Any]:
        """Return the signatures as JSON data; the inverse of from_json."""
        return {**asdict(self), "ensemble": list(self.ensemble)}

    @staticmethod
    def from_json(data: object) -> Signed:
        """Build the signatures from JSON data. Raises EnsembleError."""
        try:
            fields = dict(data)  # type: ignore[call-overload]
            signed = Signed(**{**fields, "ensemble": tuple(fields["ensemble"])})
        except (KeyError, TypeError, ValueError) as error:
            raise EnsembleError(f"table: expected its signatures, got {error!r}") from error
        kinds = (str, int, str, dict, int)
        values = (signed.key_id, signed.expires_s, signed.pinned_sha256, signed.deployment, signed.root_version)
        if not all(isinstance(value, kind) for value, kind in zip(values, kinds, strict=True)):
            raise EnsembleError("table: expected its signatures, got fields of another type")
        return signed
