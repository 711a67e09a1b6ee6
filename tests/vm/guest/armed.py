# SPDX-License-Identifier: MIT
"""Whether the kernel finds what it was built to find: its configuration, and what it says of faults on purpose."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import debugging
import inside

# Those come last after which locks are not proved any more.
FAULTS = ("rcu", "processor", "sleep", "shift", "leak", "order", "freed", "beyond")


def commit(job: dict[str, Any], fault: str) -> str:
    """Load the faulty module; "" or why it was not loaded."""
    done = inside.subprocess.run(
        ["insmod", job["faulty"], f"fault={fault}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return str(done.stderr.strip())
    inside.run("rmmod", "faulty")
    return ""


def main(job: dict[str, Any]) -> dict[str, Any]:
    """The configuration; answers to a request for memory with and without refusals; the faults; leaks."""
    seen: dict[str, Any] = {"configuration": gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()}
    seen["asked"] = commit(job, "ask")
    with debugging.refusing(100):
        seen["asked and refused"] = commit(job, "ask")
    seen["before"] = debugging.lockdep()["debug_locks"]
    seen["faults"] = {fault: commit(job, fault) for fault in FAULTS}
    seen["after"] = debugging.lockdep()["debug_locks"]
    seen["unreferenced"] = debugging.unreferenced()
    return seen
