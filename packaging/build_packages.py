# SPDX-License-Identifier: MIT
"""Builds the Debian packages: python packaging/build_packages.py --wheel WHEEL [--server FOLDER] --out dist.

    ccatune-agent    the content of the agent's wheel, its units, and the command ccatune-agent
    ccatune-dkms     the sources of the kernel modules, for DKMS
    ccatune-bpf      the program ccatune-bpf with the BPF objects, and the rights that the agent's unit needs for it
    ccatune-server   the whole of ccatune and all that it needs, in an environment of its own, with the service's units

The folder packaging/debian describes them. debhelper builds them in a copy of the sources, so that the working copy
stays clean. Their version is that of the wheel. The last one is built of the wheels in FOLDER, and not without them.
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
# Where ccatune-server is installed. Debian's Python runs it, so compiled wheels must be those of its version.
SERVER = Path("/opt/ccatune-server")
DEBIAN_PYTHON = "/usr/bin/python3"
# Tests of NumPy, SciPy and others are a third of their files.
UNUSED = ("tests", "__pycache__")


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
    units = REPOSITORY / "serving" / "agent"
    shutil.copy2(units / "ccatune-agent.service", folder / "debian")
    shutil.copy2(units / "ccatune-observe.service", folder / "debian" / "ccatune-agent.ccatune-observe.service")


def make_environment(folder: Path, wheels: Path) -> None:
    """Make the environment of ccatune-server from all wheels in a folder, for its place SERVER. Raises BuildError."""
    run(DEBIAN_PYTHON, "-m", "venv", "--without-pip", folder)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
    install = ["install", "--no-index", "--no-deps", "--no-compile", "--root-user-action=ignore"]
    run(*pip, *install, *sorted(wheels.glob("*.whl")))
    # Programs of other packages, and scripts whose first line names the folder of the build.
    for path in (folder / "bin").iterdir():
        if not path.name.startswith("python"):
            path.unlink()
    (packages,) = folder.glob("lib/python3*/site-packages")
    for path in [path for name in UNUSED for path in packages.rglob(name)]:
        shutil.rmtree(path, ignore_errors=True)
    # Nobody can write the bytecode later. It does not depend on times, which dpkg changes.
    compiled = ["-m", "compileall", "-q", "-s", folder, "-p", SERVER, "--invalidation-mode", "unchecked-hash"]
    run(folder / "bin" / "python", *compiled, packages)
    settings = folder / "pyvenv.cfg"
    settings.write_text(settings.read_text(encoding="utf-8").replace(str(folder), str(SERVER)), encoding="utf-8")


def run(*arguments: str | Path) -> None:
    """Run a program. Raises BuildError with the end of its output."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{arguments[0]}: status {done.returncode}\n{done.stdout[-5000:]}")


def complete(template: Path, *, added: str = "", **values: str) -> None:
    """Replace a template NAME.in by the file NAME, with `@KEY@` replaced by its value and `added` at the end."""
    text = template.read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    template.with_suffix("").write_text(text + added, encoding="utf-8")
    template.unlink()


def build(wheel: Path, out: Path, *, server: Path | None) -> list[Path]:
    """Build the packages and put them into `out`. Return their paths. Raises BuildError with the end of the output.

    server: the folder with the wheels of ccatune-server, or None to leave this package out.
    """
    if shutil.which("dpkg-buildpackage") is None:
        raise BuildError("expected dpkg-buildpackage, found none; install dpkg-dev and debhelper")
    with tempfile.TemporaryDirectory(prefix="ccatune-packages-") as name:
        folder = Path(name) / "ccatune"
        folder.mkdir()
        prepare(folder, wheel.resolve())
        profile = "pkg.ccatune.noserver"
        if server is not None:
            profile = ""
            make_environment(folder / "server", server)
        done = subprocess.run(
            ["dpkg-buildpackage", "--build=binary", "--no-sign", f"--build-profiles={profile}"],
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
    parser.add_argument("--server", type=Path, help="the folder with the wheels of ccatune-server")
    parser.add_argument("--out", type=Path, required=True, help="the folder that receives the packages")
    options = parser.parse_args()
    try:
        for path in build(options.wheel, options.out, server=options.server):
            sys.stdout.write(f"{path}\n")
    except BuildError as error:
        sys.stderr.write(f"packages: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
