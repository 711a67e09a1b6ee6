# SPDX-License-Identifier: MIT
"""The kernel lines that the virtual machine boots, as packaging/guest_files.py left them in the cache."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from emulation.errors import EmulationError

__all__ = [
    "FULL_LINE",
    "LINES",
    "PROVED_LINES",
    "GuestError",
    "KernelLine",
    "cache_root",
    "kernel_line",
    "lacking",
    "mahimahi_root",
]

_TABLE = json.loads(Path(__file__).with_name("kernel-lines.json").read_text(encoding="utf-8"))
# All lines that are tested; those on which `make prove` runs every test; the one on which `make test` does.
LINES = tuple(_TABLE)
PROVED_LINES = tuple(line for line, row in _TABLE.items() if row["tests"] in ("prove", "all"))
(FULL_LINE,) = (line for line, row in _TABLE.items() if row["tests"] == "all")
_PROGRAMS = ("qemu-system-x86_64", "busybox", "setpriv")


class GuestError(EmulationError):
    """The virtual machine cannot be started, or did not do what was asked."""


def cache_root() -> Path:
    """The folder of packaging/guest_files.py: below $CCATUNE_CACHE, else below ~/.cache/ccatune."""
    named = os.environ.get("CCATUNE_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "ccatune") / "guest"


@dataclass(frozen=True)
class KernelLine:
    """One kernel: its line (`6.1`), its release (`uname -r`) and the folder that it was unpacked in."""

    line: str
    release: str
    root: Path

    @property
    def image(self) -> Path:
        """What is booted."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The folder of the kernel's own modules."""
        return self.root / "lib" / "modules" / self.release

    @property
    def headers(self) -> Path:
        """The folder that modules are built against."""
        return self.root / "usr" / "src" / f"linux-headers-{self.release}"


def kernel_line(line: str) -> KernelLine:
    """Return a kernel line of the cache. Raises GuestError where it is not there."""
    root = cache_root() / line
    try:
        release = (root / "release").read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise GuestError(
            f"kernel {line}: expected it unpacked in {root}, found none; run `make setup` "
            f"(the lines are {', '.join(LINES)})"
        ) from error
    return KernelLine(line=line, release=release, root=root)


def mahimahi_root() -> Path:
    """The folder that Mahimahi was unpacked in. Raises GuestError where it is not there."""
    root = cache_root() / "mahimahi"
    if not (root / "release").exists():
        raise GuestError(f"Mahimahi: expected it unpacked in {root}, found none; run `make setup`")
    return root


def lacking() -> str:
    """What this machine lacks for the virtual machine, as a reason; "" if nothing."""
    programs = [name for name in _PROGRAMS if shutil.which(name) is None]
    if programs:
        return f"not installed: {', '.join(programs)}"
    absent = [name for name in (*LINES, "mahimahi") if not (cache_root() / name / "release").exists()]
    return f"not in {cache_root()}: {', '.join(absent)} (make setup)" if absent else ""
