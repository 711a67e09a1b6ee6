# SPDX-License-Identifier: MIT
"""The base of everything that training refuses to do."""

from __future__ import annotations

from kmod.errors import CcatuneError


class TrainingError(CcatuneError):
    """A study, a search or a validation that cannot be carried out."""
