# SPDX-License-Identifier: MIT
"""Access to the kernel's files of a CCA: `parameters`, `ensemble` and `status`.

`Tree` is the interface that the agent needs. Its implementations are:

    ProcTree   the module's files below /proc/net/ccatune
    BpfTree    the files of a CCA that runs in BPF, through the program `ccatune-bpf`
    AutoTree   for each CCA the first of these two that has it

A stand-in for machines without either has the same two methods. The caller passes it in, so the agent does not
import it.

The module collects the text that is written through one file descriptor. It applies the text at the line `end`,
completely or not at all. The text is therefore written through one descriptor, with one write() call unless the
kernel accepts only a part of it. An error of write() or close() reaches the caller with the kernel's errno.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

Via = Literal["auto", "proc", "bpf"]
VIAS: tuple[Via, ...] = ("auto", "proc", "bpf")

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


class NotLoadedError(FileNotFoundError):
    """No file of this CCA exists. `strerror` says what is missing and what to do."""


class Host(Protocol):
    """The two methods of kmod.bpf_host.BpfHost that BpfTree needs."""

    def read_bytes(self, cca: str, file: str) -> bytes:
        """Return the content of the file."""

    def write(self, cca: str, file: str, text: str) -> None:
        """Write the whole text to the file."""


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
        return _decode(b"".join(chunks), str(self.root / cca / file))


def _installed_host() -> Host:
    # The import takes longer than the first write to /proc, and a CCA of the module does not need it.
    from kmod.bpf_host import BpfHost

    return BpfHost()


class BpfTree:
    """The files of the CCAs that run in BPF. Every access starts `ccatune-bpf`, which takes a few milliseconds.

    host: gives the host for one access. By default it is looked for each time, because an operator may install the
    program while the agent runs.
    """

    def __init__(self, host: Callable[[], Host] = _installed_host) -> None:
        self._host = host

    def write(self, cca: str, file: str, text: str) -> None:
        """Write `text`. Raises OSError with the program's errno, and NotLoadedError where the CCA is not loaded."""
        text.encode("ascii")
        try:
            self._host().write(cca, file, text)
        except FileNotFoundError as error:
            raise _not_loaded(error) from error

    def read(self, cca: str, file: str) -> str:
        """Return the text.

        Raises OSError: with the program's errno, with EFBIG above 1 MiB, or with EILSEQ where the text is not ASCII.
        Raises NotLoadedError where the CCA is not loaded.
        """
        try:
            data = self._host().read_bytes(cca, file)
        except FileNotFoundError as error:
            raise _not_loaded(error) from error
        if len(data) > MAX_READ_BYTES:
            raise OSError(errno.EFBIG, f"more than {MAX_READ_BYTES} bytes", f"{cca}/{file}")
        return _decode(data, f"{cca}/{file}")


class AutoTree:
    """The module's files where /proc has a folder of the CCA, else those in BPF where the CCA is loaded there.

    The choice is made at every access, because an operator may load either one while the agent runs.
    """

    def __init__(self, proc: ProcTree, bpf: BpfTree) -> None:
        self._proc = proc
        self._bpf = bpf

    def write(self, cca: str, file: str, text: str) -> None:
        """Write `text`. Raises OSError as the chosen tree does, and NotLoadedError where neither has the CCA."""
        if self._is_in_proc(cca):
            self._proc.write(cca, file, text)
            return
        try:
            self._bpf.write(cca, file, text)
        except NotLoadedError as error:
            raise self._nowhere(cca, file, error) from error

    def read(self, cca: str, file: str) -> str:
        """Return the text. Raises OSError as the chosen tree does, and NotLoadedError where neither has the CCA."""
        if self._is_in_proc(cca):
            return self._proc.read(cca, file)
        try:
            return self._bpf.read(cca, file)
        except NotLoadedError as error:
            raise self._nowhere(cca, file, error) from error

    def _is_in_proc(self, cca: str) -> bool:
        return (self._proc.root / cca).is_dir()

    def _nowhere(self, cca: str, file: str, error: NotLoadedError) -> NotLoadedError:
        path = self._proc.root / cca
        return NotLoadedError(
            errno.ENOENT,
            f"the module is not loaded, or does not know this CCA: {path} is missing; in BPF: {error.strerror}; "
            f"`ccatune-agent enable {cca}` loads one of them",
            str(path / file),
        )


def make_tree(via: Via, *, proc_root: Path = DEFAULT_PROC_ROOT) -> Tree:
    """Return the tree of the setting `via`."""
    if via == "proc":
        return ProcTree(proc_root)
    return BpfTree() if via == "bpf" else AutoTree(ProcTree(proc_root), BpfTree())


def _not_loaded(error: FileNotFoundError) -> NotLoadedError:
    return NotLoadedError(errno.ENOENT, error.strerror or str(error), error.filename)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"not ASCII at byte {error.start}", name) from error


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`. One write() may accept only a part of it. Raises OSError where it accepts nothing."""
    view = memoryview(data)
    while view:
        written_bytes = os.write(descriptor, view)
        if written_bytes <= 0:
            raise OSError(errno.EIO, f"the kernel took 0 of {len(view)} bytes")
        view = view[written_bytes:]
