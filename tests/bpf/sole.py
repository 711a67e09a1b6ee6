# SPDX-License-Identifier: MIT
"""Names of congestion controls belong to the whole kernel: one test at a time has those of BPF."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / "build" / "bpf" / ".sole-user"


@contextmanager
def sole_user() -> Iterator[None]:
    """Wait until no other process of the tests uses BPF's names."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
