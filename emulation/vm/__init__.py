# SPDX-License-Identifier: MIT
"""A virtual machine that boots the kernel lines for which the modules are made, on this machine's own files."""

from __future__ import annotations

from emulation.vm.guest import GuestResult, run_in_guest
from emulation.vm.kernels import (
    FULL_LINE,
    LINES,
    PROVED_LINES,
    GuestError,
    kernel_line,
    lacking,
    mahimahi_root,
)
from emulation.vm.modules import BuiltModules, build_modules

__all__ = [
    "FULL_LINE",
    "LINES",
    "PROVED_LINES",
    "BuiltModules",
    "GuestError",
    "GuestResult",
    "build_modules",
    "kernel_line",
    "lacking",
    "mahimahi_root",
    "run_in_guest",
]
