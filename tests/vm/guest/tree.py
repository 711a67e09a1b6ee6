# SPDX-License-Identifier: MIT
"""The files of /proc/net/ccatune as the guest's programs use them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inside

PLACE = Path("/proc/net/ccatune")
# Of the caller's own network namespace, also in a thread or child that has joined another one.
OWN_PLACE = Path("/proc/thread-self/net/ccatune")
CCA = "gr"
NAME = "gr"  # that sockets choose
NOBODY = 65534
# System calls of x86-64, for which the C library has no functions.
_FINIT_MODULE, _DELETE_MODULE = 313, 176


def choose(cca: str, name: str) -> None:
    """Whose files the functions below use. name: that sockets choose."""
    global CCA, NAME
    CCA, NAME = cca, name


def here() -> Path:
    """The folder of the algorithm that was chosen."""
    return PLACE / CCA


def load_modules(job: dict[str, Any]) -> None:
    """Load ours where they are not."""
    loaded = {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}
    for path in job["modules"]:
        if Path(path).stem not in loaded:
            insmod(path)


def insmod(path: str, words: str = "") -> None:
    """Load a module with these parameters. Raises OSError."""
    with Path(path).open("rb") as file:
        if inside.LIBC.syscall(_FINIT_MODULE, file.fileno(), words.encode(), 0):
            raise OSError(ctypes.get_errno(), path)


def unload_modules(job: dict[str, Any]) -> None:
    """Unload ours, those first that stand on others; waits a moment for sockets on their way out."""
    for path in reversed(job["modules"]):
        unload(Path(path).stem)


def unload(name: str) -> None:
    """Unload a module as soon as it has no users. Raises TimeoutError."""
    words = name.encode()
    inside.wait_for(
        lambda: inside.LIBC.syscall(_DELETE_MODULE, words, os.O_NONBLOCK) == 0, timeout_s=10, what=f"rmmod {name}"
    )


def rmmod(name: str) -> str:
    """ "" or why not."""
    done = inside.subprocess.run(["rmmod", name], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def read(name: str, folder: Path | None = None) -> str:
    """A whole file."""
    return ((folder or here()) / name).read_text()


def write(name: str, *parts: str, folder: Path | None = None) -> int:
    """Write parts through one open file; return 0 or the errno of the first call that failed."""
    try:
        descriptor = os.open((folder or here()) / name, os.O_WRONLY)
    except OSError as error:
        return error.errno or -1
    result = 0
    try:
        for part in parts:
            data = part.encode("latin-1")
            while data and not result:
                data = data[os.write(descriptor, data) :]
    except OSError as error:
        result = error.errno or -1
    try:
        os.close(descriptor)
    except OSError as error:
        result = result or error.errno or -1
    return result


def must(name: str, text: str, folder: Path | None = None) -> None:
    """Write, and raise where the kernel refuses."""
    number = write(name, text, folder=folder)
    if number:
        raise OSError(number, f"{(folder or here()) / name}: {errno.errorcode.get(number)}")


def take_recording(file: str = "", folder: Path | None = None) -> bytes:
    """Stop the recording, leave it in the shared folder under this name, if any, and forget it."""
    must("recording", "stop\n", folder)
    data = ((folder or here()) / "recording").read_bytes()
    if file:
        (inside.SHARE / file).write_bytes(data)
    must("recording", "clear\n", folder)
    return data


def errno_of(work: Callable[[], object], *, user: int = 0) -> int:
    """The errno with which this fails in a child that has become the user; 0 where it does not."""
    child = os.fork()
    if not child:
        if user:
            become(user)
        try:
            work()
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def become(user: int) -> None:
    """Become an ordinary user, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def status(folder: Path | None = None) -> dict[str, str]:
    """The lines of one name and one value."""
    return totals_of(read("status", folder))


def totals_of(text: str) -> dict[str, str]:
    """Those of such a text."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in pairs if name not in {"row", "delay"}}


def rows(folder: Path | None = None, kind: str = "row") -> list[dict[str, str]]:
    """The `row` or `delay` lines of status."""
    return rows_of(read("status", folder), kind)


def rows_of(text: str, kind: str = "row") -> list[dict[str, str]]:
    """Those of such a text."""
    lines = (line.split() for line in text.splitlines())
    return [dict(word.split("=", 1) for word in words[1:]) for words in lines if words and words[0] == kind]


def flows(folder: Path | None = None) -> list[dict[str, str]]:
    """A dictionary a flow, with `local` and `remote`."""
    return flows_of(read("flows", folder))


def flows_of(text: str) -> list[dict[str, str]]:
    """Those of such a text."""
    found = []
    for line in text.splitlines():
        local, remote, *words = line.split()
        found.append({"local": local, "remote": remote, **dict(word.split("=", 1) for word in words)})
    return found
