# SPDX-License-Identifier: MIT
"""Passwords: the rule for new ones, and their hashes by argon2id.

A hash takes some 50 ms and 64 MiB. It is therefore computed in few threads with a bounded queue (`Context.hashes`), so
that attempts neither stop the event loop nor use up the memory. An attempt for a name that has no password computes a
hash, too, so that the time of the answer does not tell whether there is such a person.
"""

from __future__ import annotations

import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from serving.context import Context
from serving.errors import PasswordRefusedError
from serving.people.words import new_word

MIN_CHARS = 12
# A longer text would only cost time.
MAX_CHARS = 1024
# A shorter name stands in many passwords by chance.
_MIN_NAME_CHARS = 4


def normal(password: str) -> str:
    """Return the password in the form that is hashed: the same for every keyboard (NFKC), without spaces around it."""
    return unicodedata.normalize("NFKC", password.encode("utf-8", "replace").decode("utf-8").strip())


def require_good(password: str, *, name: str) -> None:
    """Check a new password of the person with that name. Raises PasswordRefusedError, which does not repeat it."""
    text = normal(password)
    if not MIN_CHARS <= len(text) <= MAX_CHARS:
        raise PasswordRefusedError(
            f"password: expected {MIN_CHARS} to {MAX_CHARS} characters, got {len(text)}; several words make a good one"
        )
    if len(set(text)) < MIN_CHARS // 3:
        raise PasswordRefusedError(
            "password: expected more than three different characters; several words make it good"
        )
    lowered, lowered_name = text.casefold(), name.casefold()
    if len(name) >= _MIN_NAME_CHARS and lowered_name in lowered:
        raise PasswordRefusedError("password: expected one without the person's name in it; choose another")


def hash_now(password: str) -> str:
    """Return the hash of a password, for a command that has no event loop."""
    return PasswordHasher().hash(normal(password))


class Passwords:
    """Hashes and verifies passwords in the threads of the context. All methods belong to the event loop."""

    def __init__(self, context: Context, *, hasher: PasswordHasher | None = None) -> None:
        self._context = context
        self._hasher = hasher or PasswordHasher()
        self._unknown: str | None = None

    async def hash(self, password: str) -> str:
        """Return the hash of a password. Raises BusyError."""
        return await self._context.hashes.run(lambda: self._hasher.hash(normal(password)))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password is that of the hash. Without a hash it takes the same time. Raises BusyError."""
        if self._unknown is None:
            # It has the parameters of new hashes, and is made once: with the first attempt, whoever it is for.
            self._unknown = await self.hash(new_word())
        compared = stored or self._unknown
        is_right = await self._context.hashes.run(lambda: self._matches(compared, password))
        return is_right and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Whether a hash was made with other parameters than new ones have."""
        return self._hasher.check_needs_rehash(stored)

    def _matches(self, stored: str, password: str) -> bool:
        if len(password) > MAX_CHARS:
            return False
        try:
            return self._hasher.verify(stored, normal(password))
        except (VerificationError, InvalidHashError):
            return False
