# SPDX-License-Identifier: MIT
"""The kernel lines that tests of the modules run on, those of the tier or the debug kernel alone, and at what length.

CCATUNE_VM_LONG=1 (the campaign `vm`) asks for the sizes that the claims name.
CCATUNE_VM_DEBUG=1 (the campaign `kernel`) asks for the line that packaging/debug_kernel.py builds. Every module has all
of its programs there, at the tier's sizes: what the kernel looks for costs several times the time.
Which tests run on which line stands in emulation/vm/kernel-lines.json.
"""

from __future__ import annotations

import os

from emulation import vm

DEBUG = os.environ.get("CCATUNE_VM_DEBUG") == "1"
DEBUG_LINE = "6.12-debug"
LONG = os.environ.get("CCATUNE_VM_LONG") == "1"
LINES = (DEBUG_LINE,) if DEBUG else vm.LINES
# The lines on which all programs run; the others have the essential ones.
FULL_LINES = (DEBUG_LINE,) if DEBUG else vm.PROVED_LINES if LONG else (vm.FULL_LINE,)
