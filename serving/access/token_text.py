# SPDX-License-Identifier: MIT
"""The text of a token: `ccat_<public id>_<secret>`.

The registry keeps only the SHA-256 of the whole text. The secret has 256 random bits, so a fast hash is enough.
The public id names the token in lists, logs and the audit log.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field

_PUBLIC_ID_BYTES = 8
_SECRET_BYTES = 32
_FORM = re.compile(rb"ccat_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class NewToken:
    """A token that was just made. Its text is shown once, and to its owner alone."""

    public_id: str
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal digits."""
        return digest_of(self.text.encode("ascii")).hex()


def new_token() -> NewToken:
    """Return a token with a random id and secret."""
    public_id = secrets.token_hex(_PUBLIC_ID_BYTES)
    return NewToken(public_id, f"ccat_{public_id}_{secrets.token_urlsafe(_SECRET_BYTES)}")


def digest_of(text: bytes) -> bytes:
    """Return the SHA-256 of a token's text."""
    return hashlib.sha256(text).digest()


def public_id_of(text: bytes) -> str | None:
    """Return the public id in a text that has the form of a token, or None."""
    found = _FORM.fullmatch(text)
    return None if found is None else found[1].decode("ascii")
