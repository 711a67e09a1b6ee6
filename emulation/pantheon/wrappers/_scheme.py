# SPDX-License-Identifier: MIT
"""The part that the wrappers of this folder share: Pantheon's verbs, and builds that are made once.

A wrapper is run as `python WRAPPER [WORD ...] VERB ...`, so it imports this file from its own folder. The verbs are:

    deps                      prints the Debian packages of the tools that are not on the PATH
    run_first                 prints `receiver`: the receiver listens, and the sender connects to it
    setup                     builds the scheme, once
    check                     prints what is missing to run the scheme. Wrappers of Pantheon do not have this verb
    setup_after_reboot        does nothing, because nothing of these schemes ends with a reboot
    receiver PORT             receives and discards data until it is killed
    sender IP PORT            sends data until it is killed

Builds are in $CCATUNE_SCHEMES, or else in ~/.cache/ccatune/schemes. The name of a build holds a digest of its sources
and versions. A build is made beside its place and then renamed, so a build in its place is complete.

It uses the standard library and kmod.locks, which uses nothing else. Its exit status is 2 if the scheme could not be
built or started.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

# The interpreter may be another one than that of ccatune.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from kmod.locks import locked

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
USAGE = "deps, run_first, setup, check, setup_after_reboot, receiver PORT, or sender IP PORT"


@dataclass(frozen=True)
class Tool:
    """A program that a build needs: the oldest version that is known to suffice, and where to get it."""

    program: str
    version_arguments: Sequence[str]
    oldest: tuple[int, int]
    packages: Sequence[str]
    advice: str


@dataclass(frozen=True)
class Scheme:
    """A scheme as the verbs need it. `receive` and `send` do not return while they transfer data.

    packages: the Debian packages that its build needs. require: ends the wrapper unless the tools of the build suffice.
    target: the folder of the build. make: makes the build, for build_once.
    """

    name: str
    packages: Callable[[], Sequence[str]]
    require: Callable[[], None]
    target: Callable[[], Path]
    make: Callable[[Path, Path], None]
    receive: Callable[[int], None]
    send: Callable[[str, int], None]


def fail(message: str) -> NoReturn:
    """End with status 2 after the message."""
    sys.stderr.write(f"{message}\n")
    sys.exit(2)


def builds() -> Path:
    """The folder of builds. It need not exist."""
    chosen = os.environ.get("CCATUNE_SCHEMES")
    folder = Path(chosen) if chosen else Path.home() / ".cache/ccatune/schemes"
    if not folder.is_absolute():
        fail(f"expected an absolute folder in CCATUNE_SCHEMES, got {chosen}; give the whole path")
    return folder


def place(name: str, *contents: bytes) -> Path:
    """Where a build is or will be, by its name and the contents that decide it. The processor's kind is one of them."""
    digest = hashlib.sha256()
    for content in (platform.machine().encode(), *contents):
        digest.update(len(content).to_bytes(8, "big") + content)
    return builds() / f"{name}-{digest.hexdigest()[:16]}"


def sources(folder: Path) -> list[bytes]:
    """The names and contents of the files below a folder, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [part for path in files for part in (str(path.relative_to(folder)).encode(), path.read_bytes())]


def require(tool: Tool, *, purpose: str) -> None:
    """End with a message unless the tool is on the PATH and new enough."""
    wanted = f"expected {tool.program} {tool.oldest[0]}.{tool.oldest[1]} or newer to build {purpose}"
    if shutil.which(tool.program) is None:
        fail(f"{wanted}, found none on the PATH; {tool.advice}")
    done = subprocess.run([tool.program, *tool.version_arguments], check=False, capture_output=True, text=True)
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    if found is None or (int(found[1]), int(found[2])) < tool.oldest:
        fail(f"{wanted}, got {(done.stdout or done.stderr).strip()}; {tool.advice}")


def missing_packages(tools: Sequence[Tool]) -> list[str]:
    """The Debian packages of the tools that are not on the PATH."""
    return [package for tool in tools if shutil.which(tool.program) is None for package in tool.packages]


def run(command: Sequence[str], *, folder: Path, purpose: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a step of a build. Its output is the wrapper's, and its failure ends the wrapper."""
    changed = {**os.environ, **(environment or {})}
    done = subprocess.run(command, check=False, cwd=folder, env=changed, stdin=subprocess.DEVNULL)
    if done.returncode:
        fail(
            f"cannot build {purpose}: {command[0]} ended with status {done.returncode}; its messages are above. "
            "If it could not fetch a package, give it access to its package registry and run setup again"
        )


def build_once(target: Path, make: Callable[[Path, Path], None]) -> None:
    """Make a build unless it exists. `make(work, result)` gets a folder to work in and an empty folder for the result.

    A second process waits for the first one. A build that was killed leaves its folder, which the next one removes.
    """
    name = target.name.rsplit("-", 1)[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / f".{name}.lock"):
        if target.is_dir():
            return
        for left in target.parent.glob(f".{name}.building-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}.building-") as aside:
            work, result = Path(aside, "work"), Path(aside, "result")
            work.mkdir()
            result.mkdir()
            make(work, result)
            result.rename(target)


def built(target: Path, *, scheme: str) -> Path:
    """The build, or the end of the wrapper with the command that makes it."""
    if not target.is_dir():
        fail(f"expected the build of {scheme} at {target}, found none; run `ccatune pantheon setup --schemes {scheme}`")
    return target


def become(program: Path, *arguments: str) -> NoReturn:
    """Replace this process by the program, so that a signal for the wrapper reaches it."""
    os.execv(program, [str(program), *arguments])  # noqa: S606  (no shell is wanted)


def program_scheme(
    name: str,
    make: Callable[[Path, Path], None],
    *,
    purpose: str,
    tools: Sequence[Tool],
    source: Path,
    program: str,
    leading: Sequence[str] = (),
) -> Scheme:
    """A scheme whose two ends are one program, which is called with `receiver PORT` or `sender LEADING IP PORT`.

    source: the folder from which `make` builds it. program: its name in the folder of the build.
    """

    def target() -> Path:
        return place(source.name, *sources(source))

    def require_tools() -> None:
        for tool in tools:
            require(tool, purpose=purpose)

    def run_end(*arguments: str) -> NoReturn:
        become(built(target(), scheme=name) / program, *arguments)

    return Scheme(
        name=name,
        packages=lambda: missing_packages(tools),
        require=require_tools,
        target=target,
        make=make,
        receive=lambda port: run_end("receiver", str(port)),
        send=lambda address, port: run_end("sender", *leading, address, str(port)),
    )


def main(scheme: Scheme, arguments: Sequence[str]) -> None:
    """Do what one verb of the protocol requires."""
    match arguments:
        case ["deps"]:
            sys.stdout.write(" ".join(scheme.packages()) + "\n")
        case ["run_first"]:
            sys.stdout.write("receiver\n")
        case ["setup"]:
            if not scheme.target().is_dir():
                scheme.require()
                build_once(scheme.target(), scheme.make)
        case ["check"]:
            with contextlib.suppress(SystemExit):
                if not scheme.target().is_dir():
                    scheme.require()
                built(scheme.target(), scheme=scheme.name)
        case ["setup_after_reboot"]:
            pass
        case ["receiver", port] if port.isdecimal():
            scheme.receive(int(port))
        case ["sender", address, port] if port.isdecimal():
            scheme.send(address, int(port))
        case _:
            fail(f"{scheme.name}: expected {USAGE}, got {' '.join(arguments) or 'nothing'}")
