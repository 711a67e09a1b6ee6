# SPDX-License-Identifier: MIT
"""Reads the kernel's state of one CCA: the table, the status, and the parameters with their ranges.

The ranges are read from the running module, not from the definitions in this package, because the two may be of
different versions.
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kmod.ensemble import without_urgent_mark
from serving.agent.tree import NotLoadedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmod.ensemble import Ensemble
    from serving.agent.table import Table
    from serving.agent.tree import Tree

# If the status changes while the files are read, all of them are read again. After this many attempts the last
# reading is used.
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

    instance: changes with every load of the module; empty if the module does not report it.
    urgent: whether the table in force has the mark `urgent`; False if the module does not support the mark.
    """

    module: str
    generation: int
    registry: str
    channel: str
    serial: int
    digest: str
    instance: str = ""
    urgent: bool = False


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

    @property
    def has_table(self) -> bool:
        """Whether a table is in force."""
        return bool(self.text)

    @property
    def text_sha256(self) -> str:
        """SHA-256 of the table's text, in hexadecimal."""
        return text_sha256(self.text)

    @property
    def unmarked_text_sha256(self) -> str:
        """SHA-256 of the table's text without the mark `urgent`, in hexadecimal."""
        return text_sha256(without_urgent_mark(self.text))

    def holds(self, table: Table) -> bool:
        """Whether `table` is in force, with the mark `urgent` or without it."""
        return without_urgent_mark(self.text) == table.unmarked_text


def text_sha256(text: str) -> str:
    """Return the SHA-256 of a table's text, in hexadecimal."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


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
        return _unreadable(f"reading {cca}: {errno_in_words(error)}")
    except ValueError as error:
        return _unreadable(f"reading {cca}: {error}; is the module of another version than this agent?")
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
            generation=int(values["generation"]),
            registry=values["registry"],
            channel=values["channel"],
            serial=int(values["serial"]),
            digest=values["digest"],
            instance=values.get("instance", ""),
            urgent=values.get("urgent", "0") == "1",
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


def _unreadable(problem: str) -> KernelView:
    return KernelView(status=None, text="", parameters={}, problem=problem)
