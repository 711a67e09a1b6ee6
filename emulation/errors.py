# SPDX-License-Identifier: MIT
"""The base of everything that emulation refuses to do."""

from __future__ import annotations

from kmod.errors import CcatuneError

__all__ = ["EmulationError", "TraceError"]


class EmulationError(CcatuneError):
    """A scenario, trace or run that cannot be done as it was asked for."""


class TraceError(EmulationError):
    """A trace that cannot be read, cut or made; the text names the file, and the line where there is one."""
