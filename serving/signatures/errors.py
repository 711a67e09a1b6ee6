# SPDX-License-Identifier: MIT
"""The errors of signatures. A message says what was expected, what was found, and, where possible, what to do."""

from __future__ import annotations

from kmod.errors import CcatuneError


class SignatureError(CcatuneError):
    """A key, an envelope, a root document or a statement is invalid, or too few valid signatures are on it."""


class PassphraseRequiredError(SignatureError):
    """A key file is encrypted, and no passphrase was given."""


class ExpiredError(SignatureError):
    """The signatures hold, but the signed document has expired."""
