# SPDX-License-Identifier: MIT
"""At the end of a boot: memory that nobody points to, and whether locks were proved to the end."""

from __future__ import annotations

from typing import Any

import debugging
import tree


def main(job: dict[str, Any]) -> dict[str, Any]:
    """With the modules loaded, and unloaded: what was theirs is all gone then."""
    loaded = debugging.leaked_by_modules()
    tree.unload_modules(job)
    unloaded = debugging.leaked_by_modules()
    return {"loaded": loaded, "unloaded": unloaded, "lockdep": debugging.lockdep()}
