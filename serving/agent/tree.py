# SPDX-License-Identifier: MIT
"""Access to the module's /proc tree. It has one folder per CCA, with the files `parameters`, `ensemble`, `status`.

`Tree` is the interface that the agent needs, and `ProcTree` implements it for /proc/net/ccatune. A stand-in for
machines without the module has the same two methods. The caller passes it in, so the agent does not import it.

The kernel collects the text that is written through one file descriptor. It applies the text at the line `end`,
completely or not at all. The text is therefore written through one descriptor, with one write() call unless the
kernel accepts only a part of it. An error of write() or close() reaches the caller with the kernel's errno.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Protocol

DEFAULT_PROC_ROOT = Path("/proc/net/ccatune")

# `ensemble` is at most 256 KiB and the other files are smaller, so no valid file reaches this bound.
MAX_READ_BYTES = 1024 * 1024
_READ_CHUNK_BYTES = 64 * 1024


class Tree(Protocol):
    """Reads and writes the files of one CCA. Both methods raise OSError with the kernel's errno."""

    def write(self, cca: str, file: str, text: str) -> None:
        """Write the whole text to the file of that CCA, through one file descriptor."""

    def read(self, cca: str, file: str) -> str:
        """Return the whole text of the file of that CCA."""


class ProcTree:
    """The tree below /proc/net/ccatune of the network namespace that the agent runs in."""

    def __init__(self, root: Path = DEFAULT_PROC_ROOT) -> None:
        self.root = root

    def write(self, cca: str, file: str, text: str) -> None:
        """Write `text` through one file descriptor. Raises OSError with the errno of open(), write() or close()."""
        # O_CREAT and O_TRUNC are not set: if the file is missing, the module is missing.
        descriptor = os.open(self.root / cca / file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_all(descriptor, text.encode("ascii"))
        except BaseException:
            # The first error gives the cause, so an error of close() is ignored. The kernel discards the text at close.
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise
        os.close(descriptor)

    def read(self, cca: str, file: str) -> str:
        """Return the text.

        Raises OSError: with the kernel's errno, with EFBIG above 1 MiB, or with EILSEQ where the text is not ASCII.
        """
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
    """Write all of `data`. One write() may accept only a part of it. Raises OSError where it accepts nothing."""
    view = memoryview(data)
    while view:
        written_bytes = os.write(descriptor, view)
        if written_bytes <= 0:
            raise OSError(errno.EIO, f"the kernel took 0 of {len(view)} bytes")
        view = view[written_bytes:]
