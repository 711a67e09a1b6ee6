# SPDX-License-Identifier: MIT
"""Builds the Debian packages: python packaging/build_packages.py --wheel WHEEL --out dist.

    ccatune-agent    the content of the agent's wheel, its unit, and the command ccatune-agent
    ccatune-dkms     the sources of the kernel modules, for DKMS
    ccatune-bpf      the program ccatune-bpf with the BPF objects, and the rights that the agent's unit needs for it

The folder packaging/debian describes them. debhelper builds them in a copy of the sources, so that the working copy
stays clean. Their version is that of the wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from email.utils import formatdate
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DEBIAN = REPOSITORY / "packaging" / "debian"
SOURCES = ("kmod", "docs", "CHANGELOG.md")


class BuildError(Exception):
    """A package could not be built; the message says why."""


def version_of(wheel: Path) -> str:
    """Return the version in a wheel's name. Raises BuildError for another file."""
    match = re.fullmatch(r"ccatune_agent-([0-9.]+)-py3-none-any\.whl", wheel.name)
    if not match or not wheel.is_file():
        raise BuildError(f"--wheel: expected the wheel of ccatune-agent, got {wheel}; `make packages` builds it")
    return match[1]


def prepare(folder: Path, wheel: Path) -> None:
    """Copy the sources into `folder`, with their times, and complete the folder `debian`."""
    built = shutil.ignore_patterns("__pycache__", "*.ko", "*.o", "*.mod", "*.mod.c", ".*.cmd", "*.order", "*.symvers")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=built)
        else:
            shutil.copy2(source, folder / name)
    shutil.copytree(DEBIAN, folder / "debian")
    shutil.copy2(wheel, folder)
    licence = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    complete(folder / "debian" / "copyright.in", added=licence)
    complete(folder / "debian" / "changelog.in", VERSION=version_of(wheel), DATE=formatdate(time.time()))
    unit = REPOSITORY / "serving" / "agent" / "ccatune-agent.service"
    shutil.copy2(unit, folder / "debian" / unit.name)


def complete(template: Path, *, added: str = "", **values: str) -> None:
    """Replace a template NAME.in by the file NAME, with `@KEY@` replaced by its value and `added` at the end."""
    text = template.read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    template.with_suffix("").write_text(text + added, encoding="utf-8")
    template.unlink()


def build(wheel: Path, out: Path) -> list[Path]:
    """Build the packages and put them into `out`. Return their paths. Raises BuildError with the end of the output."""
    if shutil.which("dpkg-buildpackage") is None:
        raise BuildError("expected dpkg-buildpackage, found none; install dpkg-dev and debhelper")
    with tempfile.TemporaryDirectory(prefix="ccatune-packages-") as name:
        folder = Path(name) / "ccatune"
        folder.mkdir()
        prepare(folder, wheel.resolve())
        done = subprocess.run(
            ["dpkg-buildpackage", "--build=binary", "--no-sign"],
            cwd=folder,
            env={**os.environ, "BPF_OUT": str(REPOSITORY / "build" / "bpf")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"dpkg-buildpackage: status {done.returncode}\n{done.stdout[-5000:]}")
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy2(path, out)) for path in sorted(Path(name).glob("*.deb"))]


def main() -> None:
    """Build, and print the paths of the packages."""
    parser = argparse.ArgumentParser(description="Builds the Debian packages.")
    parser.add_argument("--wheel", type=Path, required=True, help="the agent's wheel")
    parser.add_argument("--out", type=Path, required=True, help="the folder that receives the packages")
    options = parser.parse_args()
    try:
        for path in build(options.wheel, options.out):
            sys.stdout.write(f"{path}\n")
    except BuildError as error:
        sys.stderr.write(f"packages: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
