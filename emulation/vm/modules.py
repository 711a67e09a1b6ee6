# SPDX-License-Identifier: MIT
"""Builds kernel modules out of tree, for one kernel line at a time, into build/modules/<release>/.

A module's folder and kmod/core are copied there and built in the copy, because the kernel's build writes beside the
sources. So the builds of two lines do not meet, and a lock keeps two builds of one line apart. Files that did not
change keep their times, so that a second build is short.

A build shows the warnings of the files that it compiles. Only a build that finished without a warning is therefore
continued by the next one. After any other build the next one begins from nothing, and shows every warning again.

The modules for a kernel of another Debian release than the machine's are built in a file system of that release, which
`make setup` made. That build has namespaces of its own (unshare), in which the cache is /guest and the folder to build
in is /work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from emulation.vm.kernels import GuestError, KernelLine, cache_root, kernel_line
from kmod.locks import locked

REPOSITORY = Path(__file__).resolve().parents[2]
# The modules have a tenth of the size then, and are compiled and loaded faster. BTF is made of debugging data.
_WITHOUT_DEBUGGING_DATA = ("KCFLAGS=-g0", "CONFIG_DEBUG_INFO_BTF_MODULES=")


@dataclass(frozen=True)
class BuiltModules:
    """The `.ko` files by module name, and the output of the build."""

    kernel: KernelLine
    paths: dict[str, Path]
    log: str

    @property
    def warnings(self) -> list[str]:
        """The warnings and errors in the output of the build."""
        return [line for line in self.log.splitlines() if "warning:" in line.lower() or "error:" in line.lower()]


def load_order(names: Iterable[str]) -> list[str]:
    """Sort the names so that the module that the others depend on comes first."""
    return sorted(names, key=lambda name: (name != "ccatune", name))


def _mirror(source: Path, to: Path, suffixes: frozenset[str]) -> None:
    """Make `to` hold the files of `source`.

    Delete from `to` each source file that `source` no longer has, but keep what was built. suffixes: those of source
    files. The build makes `.mod.c` files, too, which are kept.
    """
    to.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in source.iterdir()}
    for path in to.iterdir():
        if path.suffix in suffixes and path.name not in there and not path.name.endswith(".mod.c"):
            path.unlink()
    for path in source.iterdir():
        copy = to / path.name
        if path.is_dir():
            _mirror(path, copy, suffixes)
        elif not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


# These mounts end with the namespace.
_IN_ROOT = """
set -e
root=$1 guest=$2 work=$3
shift 3
mount --bind "$guest" "$root/guest"
mount --bind "$work" "$root/work"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" /usr/bin/env PATH=/usr/bin:/usr/sbin:/bin:/sbin "$@"
"""


def _command(kernel: KernelLine, root: Path, folder: Path) -> list[str]:
    """The command that builds `folder` with the kernel's headers. root: the folder above it that becomes /work."""
    headers, jobs = kernel.headers, f"-j{os.cpu_count() or 1}"
    if kernel.build_root is None:
        return ["make", "-C", str(headers), f"M={folder}", jobs]
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "--pid", "--fork"]
    shown = Path("/guest") / headers.relative_to(cache_root())
    make = ["make", "-C", str(shown), f"M={Path('/work') / folder.relative_to(root)}", jobs]
    return [*unshare, "sh", "-c", _IN_ROOT, "sh", str(kernel.build_root), str(cache_root()), str(root), *make]


def _make(kernel: KernelLine, root: Path, folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [*_command(kernel, root, folder), *arguments],
            capture_output=True,
            text=True,
            check=False,
            # An outer `make` passes these to its children, but they are not meant for this build.
            env={name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}},
        )
    except OSError as error:
        raise GuestError(f"make, unshare: {error.strerror}; run `make setup`") from error
    if done.returncode:
        raise GuestError(f"modules for {kernel.release}: the build failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def _check_of(kernel: KernelLine, clean: Path, *, sparse: bool) -> str:
    """C=1 for a build that sparse checks, or that continues one which it checked; C=0 for others."""
    checked = clean.exists() and clean.read_text(encoding="ascii") == "C=1"
    return "C=1" if (sparse and kernel.build_root is None) or checked else "C=0"


def build_modules(line: str, *, source: Path | None = None, sparse: bool = False, anew: bool = False) -> BuiltModules:
    """Build every module of `source` (kmod/linux by default) for a kernel line, with W=1 and without debugging data.

    sparse: check with sparse too (C=1). Headers of another Debian release, such as those of 7.3, do not support sparse,
    so it does not check modules for them.
    anew: build from nothing.

    Raises GuestError if there are no headers, or the build failed; with its output.
    """
    kernel = kernel_line(line)
    folder = source or REPOSITORY / "kmod" / "linux"
    root = REPOSITORY / "build" / "modules" / kernel.release / folder.name
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock"):
        place, clean = root / "kmod" / folder.name, root / "clean"
        check = _check_of(kernel, clean, sparse=sparse)
        if anew or not clean.exists() or clean.read_text(encoding="ascii") != check:
            shutil.rmtree(place, ignore_errors=True)
        clean.unlink(missing_ok=True)
        suffixes = frozenset({".c", ".h", ".def"})
        _mirror(folder, place, suffixes)
        _mirror(REPOSITORY / "kmod" / "core", root / "kmod" / "core", suffixes)
        log = _make(kernel, root, place, "W=1", check, *_WITHOUT_DEBUGGING_DATA, "modules")
        built = BuiltModules(kernel=kernel, paths={path.stem: path for path in sorted(place.glob("*.ko"))}, log=log)
        if not built.warnings:
            clean.write_text(check, encoding="ascii")
    if not built.paths:
        raise GuestError(f"modules for {kernel.release}: expected at least one .ko in {place}, found none")
    return built
