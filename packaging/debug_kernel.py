# SPDX-License-Identifier: MIT
"""Builds the debug kernel of `make prove-kernel` from Debian's kernel source package, as a separate kernel line.

    <cache>/guest/6.12-debug/   boot/, lib/modules/ and usr/src/, with the layout of packaging/guest_files.py;
                                `release`, written last, has the release, and `built-from` the digest of the inputs

<cache> is $CCATUNE_CACHE, or else ~/.cache/ccatune. The source package is that of the kernel line 6.12, from its
suite. It is fetched and unpacked as in guest_files.py: nothing is installed, and root is not needed. The configuration
is packaging/debug-kernel.config on top of `allnoconfig`. It enables what the guest and its tests need and what finds
faults, which is a small part of a distribution's configuration. When the configuration or this file changes, the next
run rebuilds the affected parts. An interrupted build continues where it stopped.

Example: python packaging/debug_kernel.py --jobs 2
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from guest_files import LINES, Apt, FetchError, cache_root, locked, run

LINE = "6.12"
NAME = f"{LINE}-debug"
FRAGMENT = Path(__file__).with_name("debug-kernel.config")
PACKAGES = Path(__file__).with_name("debian-packages")
# Sources of drivers and machines that the guest does not have. Their Kconfig files are kept, because make reads them.
LEFT_OUT = (
    *("Documentation/*/*", "arch/[!xK]*.[chS]", "arch/[!xK]*.dts*", "tools/testing/*", "tools/perf/*"),
    *(f"{folder}/*.[ch]" for folder in ("drivers/gpu", "drivers/media", "drivers/staging", "drivers/infiniband")),
    *(f"{folder}/*.[ch]" for folder in ("drivers/scsi", "drivers/net/ethernet", "drivers/net/wireless", "sound")),
)


def digest() -> str:
    """Return the digest of all inputs of the build except the kernel's source, which is fetched once."""
    return hashlib.sha256(FRAGMENT.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def fetch_source(root: Path) -> Path:
    """Return the folder of the kernel's source. Fetch and unpack the source first if the folder does not exist."""
    source = root / "source"
    if source.exists():
        return source
    part, package = root / "source.part", root / "package"
    for folder in (part, package):
        shutil.rmtree(folder, ignore_errors=True)
    apt = Apt(cache_root() / "apt")
    apt.prepare()
    apt.unpack([f"linux-source-{LINE}/{LINES[LINE].suite}"], package)
    archive = package / "usr" / "src" / f"linux-source-{LINE}.tar.xz"
    part.mkdir()
    left_out = [f"--exclude=linux-source-{LINE}/{pattern}" for pattern in LEFT_OUT]
    run("tar", "-C", part, "--strip-components=1", *left_out, "-xf", archive)
    shutil.rmtree(package)
    part.rename(source)
    return source


def make(source: Path, objects: Path, log: Path, *words: str) -> None:
    """Run the kernel's make and append its output to the log. Raises FetchError with the last lines of the log."""
    # If `make` runs this script, these variables are for the children of that make and not for the kernel's make.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    command = ["make", "-C", str(source), f"O={objects}", *words]
    with log.open("a", encoding="utf-8") as output:
        status = subprocess.call(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, "KCONFIG_ALLCONFIG": str(FRAGMENT)},
        )
    if status:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        raise FetchError("\n".join([f"make {words[-1]}: status {status}; the whole of it is in {log}:", *last]))


def lacking_lines(wanted: str, found: str) -> list[str]:
    """Return the lines of a fragment that a configuration lacks. An option that it does not name is not set."""
    has = {line for line in found.splitlines() if line.startswith("CONFIG_")}
    named = {line.split("=")[0] for line in has}
    lacking = []
    for line in wanted.splitlines():
        off = re.fullmatch(r"# (CONFIG_\w+) is not set", line)
        if (off and off.group(1) in named) or (line.startswith("CONFIG_") and line not in has):
            lacking.append(line)
    return lacking


def configure(source: Path, objects: Path, log: Path) -> None:
    """Write the configuration. Raises FetchError if the kernel's Kconfig rules overrule the fragment."""
    make(source, objects, log, "allnoconfig")
    lacking = lacking_lines(FRAGMENT.read_text("utf-8"), (objects / ".config").read_text("utf-8"))
    if lacking:
        raise FetchError(f"{FRAGMENT.name}: the kernel's configuration does not take {', '.join(lacking)}")


def install(source: Path, objects: Path, root: Path, log: Path) -> str:
    """Install the kernel in the layout that emulation/vm expects of a line. Return its release."""
    release = (objects / "include" / "config" / "kernel.release").read_text(encoding="ascii").strip()
    for folder in ("boot", "lib", "usr"):
        shutil.rmtree(root / folder, ignore_errors=True)
    make(source, objects, log, f"INSTALL_MOD_PATH={root}", "modules_install")
    (root / "boot").mkdir()
    shutil.copyfile(objects / "arch" / "x86" / "boot" / "bzImage", root / "boot" / f"vmlinuz-{release}")
    (root / "usr" / "src").mkdir(parents=True)
    (root / "usr" / "src" / f"linux-headers-{release}").symlink_to(objects)
    run("depmod", "-b", root, release)
    return release


def build(root: Path, *, jobs: int) -> str:
    """Fetch the source, then configure, build and install the kernel. Return its release."""
    log, objects = root / "build.log", root / "objects"
    log.unlink(missing_ok=True)
    source = fetch_source(root)
    objects.mkdir(exist_ok=True)
    configure(source, objects, log)
    make(source, objects, log, f"-j{jobs}", "bzImage", "modules")
    return install(source, objects, root, log)


def main() -> None:
    """Build the kernel unless an up-to-date build exists, and print its release."""
    parser = argparse.ArgumentParser(description="Builds the debug kernel. Example: debug_kernel.py --jobs 2")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at once")
    jobs = parser.parse_args().jobs
    root = cache_root() / NAME
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock"):
        done, seen = root / "release", root / "built-from"
        if not (done.exists() and seen.exists() and seen.read_text(encoding="ascii") == digest()):
            done.unlink(missing_ok=True)
            if subprocess.call([str(PACKAGES), "prove-kernel"]):
                sys.exit(1)
            try:
                release = build(root, jobs=jobs)
            except (FetchError, OSError) as error:
                sys.exit(f"debug kernel: {error}")
            seen.write_text(digest(), encoding="ascii")
            done.write_text(release + "\n", encoding="utf-8")
        print(done.read_text(encoding="utf-8").strip())  # noqa: T201 - its result


if __name__ == "__main__":
    main()
