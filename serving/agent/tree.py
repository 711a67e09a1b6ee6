# SPDX-License-Identifier: MIT
"""The kernel's side of the agent: one folder a CCA with the files `parameters`, `ensemble` and `status`.

`Tree` is what the agent needs of it. `ProcTree` is the real one, below
/proc/net/ccatune. A stand-in for machines without the module has the same two
methods and is handed in from outside, so that the agent imports none of it.

Writing: the kernel gathers the text of one open file and takes it at its
`end` line, all or nothing. So the text goes out in one open file, in one
write() where the kernel takes it whole, and an error of write() or of close()
reaches the caller with the kernel's errno.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Protocol

DEFAULT_PROC_ROOT = Path("/proc/net/ccatune")

# `ensemble` is at most 256 KiB and the others are smaller: four times that is a bound, not a limit.
MAX_READ_BYTES = 1024 * 1024
_READ_CHUNK_BYTES = 64 * 1024


class Tree(Protocol):
    """Reads and writes the files of one CCA. Both raise OSError with the kernel's errno."""

    def write(self, cca: str, file: str, text: str) -> None:
        """Write the whole text to the file of that CCA in one open file."""

    def read(self, cca: str, file: str) -> str:
        """Return the whole text of the file of that CCA."""


class ProcTree:
    """The tree below /proc/net/ccatune of the network namespace that the agent runs in."""

    def __init__(self, root: Path = DEFAULT_PROC_ROOT) -> None:
        self.root = root

    def write(self, cca: str, file: str, text: str) -> None:
        """Write `text` in one open file; raises OSError with the errno of open(), write() or close()."""
        # Neither O_CREAT nor O_TRUNC: a file that is missing is a module that is missing.
        descriptor = os.open(self.root / cca / file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_all(descriptor, text.encode("ascii"))
        except BaseException:
            # The first error is the one that says why; the kernel discards the text at close.
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise
        os.close(descriptor)

    def read(self, cca: str, file: str) -> str:
        """Return the text; raises OSError with the kernel's errno, EFBIG over 1 MiB, EILSEQ where not ASCII."""
        descriptor = os.open(self.root / cca / file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks: list[bytes] = []
            total_bytes = 0
            while chunk := os.read(descriptor, _READ_CHUNK_BYTES):
                chunks.append(chunk)
                total_bytes += len(chunk)
                if total_bytes > MAX_READ_BYTES:
                    raise OSError(errno.EFBIG, f"more than {MAX_READ_BYTES} bytes", str(self.root / cca / file))
        finally:
            os.close(descriptor)
        try:
            return b"".join(chunks).decode("ascii")
        except UnicodeDecodeError as error:
            raise OSError(errno.EILSEQ, f"not ASCII at byte {error.start}", str(self.root / cca / file)) from error


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; the kernel may take less than was offered, but never nothing."""
    view = memoryview(data)
    while view:
        written_bytes = os.write(descriptor, view)
        if written_bytes <= 0:
            raise OSError(errno.EIO, f"the kernel took 0 of {len(view)} bytes")
        view = view[written_bytes:]
