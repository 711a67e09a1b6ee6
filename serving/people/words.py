# SPDX-License-Identifier: MIT
"""Random words: in cookies, set-up links and challenges. The registry keeps only the SHA-256 of each."""

from __future__ import annotations

import secrets

from serving.access.token_text import digest_of

_WORD_BYTES = 32
_MAX_WORD_CHARS = 256


def new_word() -> str:
    """Return a word of 256 random bits, in characters that cookies and URLs take."""
    return secrets.token_urlsafe(_WORD_BYTES)


def digest_text(word: str) -> str:
    """Return the SHA-256 of a word in hexadecimal digits. A word that is too long is none of ours, so it is cut."""
    return digest_of(word[:_MAX_WORD_CHARS].encode("utf-8", "replace")).hex()
