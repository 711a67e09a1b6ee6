# SPDX-License-Identifier: MIT
"""The errors that a person is told of, without a traceback."""

from __future__ import annotations

__all__ = ["AbiError", "CcatuneError"]


class CcatuneError(Exception):
    """Parent of each package's one base class; its text says what was expected and what came."""


class AbiError(CcatuneError):
    """The contract between the core and its users was not kept."""
