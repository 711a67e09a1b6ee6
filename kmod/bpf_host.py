# SPDX-License-Identifier: MIT
"""The algorithms that run in BPF, through the program `ccatune-bpf` (kmod/bpf): load, unload, read and write.

The program is found by the variable CCATUNE_BPF, else on the PATH, else where `make bpf` puts it in this repository.
Its exit status is an errno, so that failures arrive here as an OSError, as those of /proc do.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kmod.abi import ALGORITHMS

PROGRAM = "ccatune-bpf"
# The name that sockets choose, by algorithm.
BPF_CCAS: Mapping[str, str] = {
    name: algorithm.kernel_name for name, algorithm in ALGORITHMS.items() if algorithm.host != "simulator"
}
_BUILT = Path(__file__).resolve().parent.parent / "build" / "bpf" / PROGRAM
_MOST_ERRNO = 133
# Far above the time that an access takes. A load waits for the kernel's verifier.
LIMIT_S = 120.0
LOAD_LIMIT_S = 600.0


def find_program() -> Path | None:
    """Where ccatune-bpf is; None where it is not."""
    named = os.environ.get("CCATUNE_BPF") or shutil.which(PROGRAM)
    path = Path(named) if named else _BUILT
    return path if path.is_file() else None


def lacking() -> str:
    """Why this process cannot load algorithms in BPF here; "" if it can, once the program is built."""
    if os.geteuid() != 0:
        return "not root: BPF needs CAP_BPF, CAP_NET_ADMIN and a BPF file system"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
    return ""


class BpfHost:
    """One folder of pins. Every method raises OSError, with the errno that /proc would give.

    pins: the folder below a BPF file system; None: the program's default.
    limit_s: a call that takes longer is ended, and raises TimeoutError; a load may take LOAD_LIMIT_S.
    """

    def __init__(self, program: Path | None = None, *, pins: Path | None = None, limit_s: float = LIMIT_S) -> None:
        self._program = program or find_program()
        self._pins = pins
        self._limit_s = limit_s

    def load(self, cca: str) -> None:
        """Register the algorithm as a congestion control of TCP."""
        self._run("load", cca)

    def unload(self, cca: str) -> None:
        """Take it back. Sockets that use it keep it until they end."""
        self._run("unload", cca)

    def loaded(self) -> list[str]:
        """The loaded algorithms, in order."""
        return sorted(self._run("list").decode().split())

    def read(self, cca: str, file: str) -> str:
        """The text of a file."""
        return self.read_bytes(cca, file).decode("ascii")

    def read_bytes(self, cca: str, file: str) -> bytes:
        """The content of a file; `recording` is no text."""
        return self._run("read", cca, file)

    def write(self, cca: str, file: str, text: str) -> None:
        """Write a file; all of the text takes effect, or none."""
        self._run("write", cca, file, content=text.encode())

    def _run(self, *arguments: str, content: bytes = b"") -> bytes:
        if self._program is None:
            raise FileNotFoundError(2, f"{PROGRAM} is not installed; `make bpf` builds it", PROGRAM)
        pins = ["--pins", str(self._pins)] if self._pins else []
        command = [str(self._program), *pins, *arguments]
        limit_s = LOAD_LIMIT_S if arguments[0] == "load" else self._limit_s
        try:
            # Not in our group: a Ctrl-C at the terminal must not end it halfway.
            done = subprocess.run(
                command, input=content, capture_output=True, check=False, start_new_session=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"expected `{PROGRAM} {' '.join(arguments)}` to end within {limit_s:g} s; it was killed",
            ) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            code = done.returncode if 0 < done.returncode <= _MOST_ERRNO else 5
            raise OSError(code, said.splitlines()[-1].removeprefix(f"{PROGRAM}: ") if said else os.strerror(code))
        return done.stdout
