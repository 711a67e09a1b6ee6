# SPDX-License-Identifier: MIT
"""The errors of the package emulation."""

from __future__ import annotations

from kmod.errors import CcatuneError


class EmulationError(CcatuneError):
    """The base class of this package's errors: a scenario or trace is invalid, or a run failed."""


class TraceError(EmulationError):
    """A trace cannot be read, cut or made. The message names the file, and the line if there is one."""
