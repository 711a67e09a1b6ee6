# SPDX-License-Identifier: MIT
"""The kernel lines that the virtual machine boots, as packaging/guest_files.py stores them in the cache."""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from emulation.errors import EmulationError

_TABLE = json.loads(Path(__file__).with_name("kernel-lines.json").read_text(encoding="utf-8"))
# LINES are all lines that are tested. `make prove` runs every test on PROVED_LINES, `make test` on FULL_LINE.
LINES = tuple(_TABLE)
PROVED_LINES = tuple(line for line, row in _TABLE.items() if row["tests"] in ("prove", "all"))
(FULL_LINE,) = (line for line, row in _TABLE.items() if row["tests"] == "all")
_PROGRAMS = ("qemu-system-x86_64", "busybox", "setpriv")


class GuestError(EmulationError):
    """The virtual machine cannot be started, or did not do what it should."""


def cache_root() -> Path:
    """The folder of packaging/guest_files.py: in $CCATUNE_CACHE, or else in ~/.cache/ccatune."""
    named = os.environ.get("CCATUNE_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "ccatune") / "guest"


@dataclass(frozen=True)
class KernelLine:
    """One kernel: its line (`6.1`), its release (`uname -r`) and the folder into which it was unpacked.

    build_root: the file system of another Debian release in which its modules are built; None: the machine's own.
    """

    line: str
    release: str
    root: Path
    build_root: Path | None = None

    @property
    def image(self) -> Path:
        """The image that is booted."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The folder of the kernel's own modules."""
        return self.root / "lib" / "modules" / self.release

    @property
    def headers(self) -> Path:
        """The folder with the headers for building modules."""
        return self.root / "usr" / "src" / f"linux-headers-{self.release}"


def kernel_line(line: str) -> KernelLine:
    """Return a kernel line of the cache. Raises GuestError if it is not there."""
    root = cache_root() / line
    try:
        release = (root / "release").read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise GuestError(
            f"kernel {line}: expected it unpacked in {root}, found none; run `make setup` "
            f"(the lines are {', '.join(LINES)})"
        ) from error
    debian = _debian_of(line)
    build_root = cache_root() / f"{debian}-root"
    if debian in ("", _own_debian()):
        return KernelLine(line=line, release=release, root=root)
    if not (build_root / "release").exists():
        raise GuestError(f"kernel {line}: expected Debian's {debian} in {build_root}, found none; run `make setup`")
    return KernelLine(line=line, release=release, root=root, build_root=build_root / "files")


def _debian_of(line: str) -> str:
    """The Debian release that a line comes from; "" for the debug kernel, which is built here."""
    return str(_TABLE[line]["suite"]).partition("-")[0] if line in _TABLE else ""


def _own_debian() -> str:
    """The code name of the machine's Debian release; "" if it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def mahimahi_root() -> Path:
    """The folder into which Mahimahi was unpacked. Raises GuestError if it is not there."""
    root = cache_root() / "mahimahi"
    if not (root / "release").exists():
        raise GuestError(f"Mahimahi: expected it unpacked in {root}, found none; run `make setup`")
    return root


def lacking() -> str:
    """Why this machine cannot run the virtual machine: what is missing; "" if nothing is."""
    programs = [name for name in _PROGRAMS if shutil.which(name) is None]
    if programs:
        return f"not installed: {', '.join(programs)}"
    roots = {f"{debian}-root" for debian in map(_debian_of, LINES) if debian != _own_debian()}
    absent = [name for name in (*LINES, "mahimahi", *sorted(roots)) if not (cache_root() / name / "release").exists()]
    return f"not in {cache_root()}: {', '.join(absent)} (make setup)" if absent else ""
