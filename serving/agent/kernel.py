# SPDX-License-Identifier: MIT
"""Access to the kernel's files of a CCA (`parameters`, `ensemble`, `status`), and the view of them at one moment.

`Tree` is the interface that the agent needs. Its implementations are:

    ProcTree   the module's files below /proc/net/ccatune
    BpfTree    the files of a CCA that runs in BPF, through the program `ccatune-bpf`
    AutoTree   for each CCA the first of these two that has it

A stand-in for machines without either has the same methods. The caller passes it in, so the agent does not
import it.

The module collects the text that is written through one file descriptor. It applies the text at the line `end`,
completely or not at all. The text is therefore written through one descriptor, with one write() call unless the
kernel accepts only a part of it. An error of write() or close() reaches the caller with the kernel's errno.

The ranges of parameters are read from the running module, not from the definitions in this package, because the two
may be of different versions.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from serving.agent.table import text_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kmod.bpf_host import BpfHost
    from kmod.ensemble import Ensemble
    from serving.agent.table import Table

Via = Literal["auto", "proc", "bpf"]
VIAS: tuple[Via, ...] = ("auto", "proc", "bpf")

DEFAULT_PROC_ROOT = Path("/proc/net/ccatune")
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")

# `ensemble` is at most 256 KiB and the other files are smaller, so no valid file reaches this bound.
MAX_READ_BYTES = 1024 * 1024
_READ_CHUNK_BYTES = 64 * 1024
# Of a file that is read line by line from `ccatune-bpf`, whose output is in memory as a whole.
_MAX_LINES_BYTES = 16 * 1024 * 1024

# All files are read again if the status changes meanwhile. After this many attempts the last reading is used.
_CONSISTENT_READ_ATTEMPTS = 3

_ERRNO_WORDS = {
    errno.EPERM: "not permitted: CAP_NET_ADMIN is needed to write, and CAP_BPF too for a CCA in BPF",
    errno.EACCES: "no access: the agent must run as root or own the file, with CAP_NET_ADMIN",
    errno.EINVAL: "a line of the table is malformed for the running module",
    errno.ERANGE: "a value is outside the range of the running module",
    errno.EFBIG: "the table is larger than 256 KiB",
    errno.EEXIST: "the kernel holds this serial of this channel with another digest",
    errno.ESTALE: "the kernel holds a newer serial of this channel",
    errno.ENOMEM: "the kernel has no memory for the table",
    errno.ENOENT: "the file is not there: the module is not loaded, or does not know this CCA",
    errno.EIO: "the write was cut short",
    errno.ETIMEDOUT: "ccatune-bpf took too long: another program holds its lock, or the machine is overloaded",
}


class Tree(Protocol):
    """Reads and writes the files of one CCA. All methods raise OSError with the kernel's errno.

    Where the CCA is not loaded in BPF, or neither there nor as a module, they raise NotLoadedError.
    """

    def write(self, cca: str, file: str, text: str) -> None:
        """Write the whole text to the file of that CCA, through one file descriptor."""

    def read(self, cca: str, file: str) -> str:
        """Return the whole text of the file. The errno is EFBIG above 1 MiB, and EILSEQ for text that is not ASCII."""

    def lines(self, cca: str, file: str) -> Iterator[str]:
        """Yield the lines of `clients` or `flows`, which may be larger than 1 MiB. Errors are raised at the first."""


class NotLoadedError(FileNotFoundError):
    """No file of this CCA exists. `strerror` says what is missing and what to do."""


class ProcTree:
    """The tree below /proc/net/ccatune of the network namespace that the agent runs in."""

    def __init__(self, root: Path = DEFAULT_PROC_ROOT) -> None:
        self.root = root

    def write(self, cca: str, file: str, text: str) -> None:
        """As Tree.write: an error of open(), write() or close() is raised."""
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
        """As Tree.read."""
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

    def lines(self, cca: str, file: str) -> Iterator[str]:
        """As Tree.lines, of any size."""
        with (self.root / cca / file).open(encoding="ascii", errors="replace") as lines:
            yield from lines


def _installed_host() -> BpfHost:
    # The import takes longer than the first write to /proc, and a CCA of the module does not need it.
    from kmod.bpf_host import BpfHost

    return BpfHost()


@contextlib.contextmanager
def _with_name(name: str) -> Iterator[None]:
    """Name the file in errors. A missing file, or a missing program, becomes a NotLoadedError."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotLoadedError(errno.ENOENT, error.strerror or str(error), error.filename) from error
    except OSError as error:
        error.filename = error.filename or name
        raise


class BpfTree:
    """The files of the CCAs that run in BPF. Every access starts `ccatune-bpf`, which takes a few milliseconds.

    host: gives the host for one access. By default it is looked for each time, because an operator may install the
    program while the agent runs.
    """

    def __init__(self, host: Callable[[], BpfHost] = _installed_host) -> None:
        self._host = host

    def write(self, cca: str, file: str, text: str) -> None:
        """As Tree.write, with the program's errno."""
        text.encode("ascii")
        with _with_name(f"{cca}/{file}"):
            self._host().write(cca, file, text)

    def read(self, cca: str, file: str) -> str:
        """As Tree.read, with the program's errno."""
        return _decode(self._bytes(cca, file, most=MAX_READ_BYTES), f"{cca}/{file}")

    def lines(self, cca: str, file: str) -> Iterator[str]:
        """As Tree.lines. The errno is EFBIG above 16 MiB, and ENOENT for `clients`, which BPF does not have."""
        if file == "clients":
            raise FileNotFoundError(errno.ENOENT, "BPF has no such file", f"{cca}/{file}")
        for line in io.BytesIO(self._bytes(cca, file, most=_MAX_LINES_BYTES)):
            yield _decode(line, f"{cca}/{file}")

    def _bytes(self, cca: str, file: str, *, most: int) -> bytes:
        with _with_name(f"{cca}/{file}"):
            data = self._host().read_bytes(cca, file)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"more than {most} bytes", f"{cca}/{file}")
        return data


class AutoTree:
    """The module's files where /proc has a folder of the CCA, else those in BPF where the CCA is loaded there.

    The choice is made at every access, because an operator may load either one while the agent runs.
    """

    def __init__(self, proc: ProcTree, bpf: BpfTree) -> None:
        self._proc = proc
        self._bpf = bpf

    def write(self, cca: str, file: str, text: str) -> None:
        """As Tree.write."""
        with self._chosen(cca, file) as tree:
            tree.write(cca, file, text)

    def read(self, cca: str, file: str) -> str:
        """As Tree.read."""
        with self._chosen(cca, file) as tree:
            return tree.read(cca, file)

    def lines(self, cca: str, file: str) -> Iterator[str]:
        """As Tree.lines."""
        with self._chosen(cca, file) as tree:
            yield from tree.lines(cca, file)

    @contextlib.contextmanager
    def _chosen(self, cca: str, file: str) -> Iterator[ProcTree | BpfTree]:
        path = self._proc.root / cca
        try:
            yield self._proc if path.is_dir() else self._bpf
        except NotLoadedError as error:
            raise NotLoadedError(
                errno.ENOENT,
                f"the module is not loaded, or does not know this CCA: {path} is missing; in BPF: {error.strerror}; "
                f"`ccatune-agent enable {cca}` loads one of them",
                str(path / file),
            ) from error


def make_tree(via: Via, *, proc_root: Path = DEFAULT_PROC_ROOT) -> Tree:
    """Return the tree of the setting `via`."""
    if via == "proc":
        return ProcTree(proc_root)
    return BpfTree() if via == "bpf" else AutoTree(ProcTree(proc_root), BpfTree())


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


def errno_in_words(error: OSError) -> str:
    """Return e.g. `ESTALE (the kernel holds a newer serial of this channel)`."""
    if error.errno is None:
        return str(error)
    name = errno.errorcode.get(error.errno, f"errno {error.errno}")
    if isinstance(error, NotLoadedError):
        return f"{name} ({error.strerror})"
    return f"{name} ({_ERRNO_WORDS.get(error.errno, os.strerror(error.errno))})"


@dataclass(frozen=True)
class ParameterRange:
    """The values that the running module accepts for one parameter, both ends included, in the parameter's unit."""

    minimum: int
    maximum: int


@dataclass(frozen=True)
class KernelStatus:
    """The first lines of `status`. If no table is in force, registry, channel and digest are `-` and the serial is 0.

    instance: changes with every load of the module. urgent: whether the table in force has the mark `urgent`.
    """

    module: str
    instance: str
    generation: int
    registry: str
    channel: str
    serial: int
    urgent: bool
    digest: str


@dataclass(frozen=True)
class KernelView:
    """The contents of a CCA's files at one moment.

    `problem` says why the files cannot be read; the other fields are then None or empty.
    `text` is empty when no table is in force.
    """

    status: KernelStatus | None
    text: str
    parameters: Mapping[str, ParameterRange]
    problem: str | None = None

    @cached_property
    def text_sha256(self) -> str:
        """SHA-256 of the table's text without the mark `urgent`, in hexadecimal."""
        return text_sha256(self.text)

    def holds(self, table: Table) -> bool:
        """Whether `table` is in force, with the mark `urgent` or without it."""
        return self.text_sha256 == table.text_sha256


def read_boot_id(path: Path = BOOT_ID_PATH) -> str:
    """Return the id of this boot, or `unknown` if the system does not report one."""
    try:
        return path.read_text(encoding="ascii").strip() or "unknown"
    except OSError:
        return "unknown"


def look(tree: Tree, cca: str) -> KernelView:
    """Read `status`, `ensemble` and `parameters` of one CCA.

    An error of the kernel or a malformed file does not raise; it is returned as `problem`.
    """
    try:
        for _ in range(_CONSISTENT_READ_ATTEMPTS):
            before = parse_status(tree.read(cca, "status"))
            text = tree.read(cca, "ensemble")
            parameters = parse_parameters(tree.read(cca, "parameters"))
            after = parse_status(tree.read(cca, "status"))
            if after == before:
                break
    except OSError as error:
        return KernelView(None, "", {}, problem=f"reading {cca}: {errno_in_words(error)}")
    except ValueError as error:
        problem = f"reading {cca}: {error}; is the module of another version than this agent?"
        return KernelView(None, "", {}, problem=problem)
    # If no table is in force, the file is empty or holds only white space.
    return KernelView(status=after, text=text if text.strip() else "", parameters=parameters)


def look_at_status(tree: Tree, cca: str) -> KernelStatus | None:
    """Read only `status`, for the cheap check at every interval. Return None if it cannot be read."""
    try:
        return parse_status(tree.read(cca, "status"))
    except (OSError, ValueError):
        return None


def parse_status(text: str) -> KernelStatus:
    """Parse the `name value` lines of `status`, and skip names that this agent does not know. Raises ValueError."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        values.setdefault(name, value.strip())
    try:
        return KernelStatus(
            module=values["module"],
            instance=values["instance"],
            generation=int(values["generation"]),
            registry=values["registry"],
            channel=values["channel"],
            serial=int(values["serial"]),
            urgent=values["urgent"] == "1",
            digest=values["digest"],
        )
    except KeyError as error:
        raise ValueError(f"expected a line `{error.args[0]} VALUE` in status, which has none") from error


def parse_parameters(text: str) -> dict[str, ParameterRange]:
    """Parse lines of `name value min default max unit` into ranges. Raises ValueError."""
    ranges: dict[str, ParameterRange] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) < 5:
            raise ValueError(f"expected `name value min default max unit` on line {number} of parameters, got {line!r}")
        ranges[fields[0]] = ParameterRange(minimum=int(fields[2]), maximum=int(fields[4]))
    return ranges


def why_not_taken(kernel: KernelView, ensemble: Ensemble) -> str | None:
    """Return why the running module does not support this ensemble, or None if it supports each column and value."""
    for index, column in enumerate(ensemble.columns):
        if column not in kernel.parameters:
            known = ", ".join(kernel.parameters) or "none"
            return f"the running module has no parameter {column} for {ensemble.cca} (it has: {known})"
        allowed = kernel.parameters[column]
        for row_number, row in enumerate(ensemble.rows):
            if not allowed.minimum <= row[index] <= allowed.maximum:
                return (
                    f"the running module takes {column} from {allowed.minimum} to {allowed.maximum}, "
                    f"row {row_number} has {row[index]}"
                )
    return None


def first_difference(read_back: str, written: str) -> str:
    """Describe the first line that differs between the text read back and the text written."""
    wrote_lines, read_lines = written.splitlines(), read_back.splitlines()
    for number, (wrote, read) in enumerate(zip(wrote_lines, read_lines, strict=False), start=1):
        if wrote != read:
            return f"line {number}: wrote {wrote!r}, read {read!r}"
    return f"wrote {len(wrote_lines)} lines, read {len(read_lines)}"
