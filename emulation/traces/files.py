# SPDX-License-Identifier: MIT
"""Reads and writes whole files. An error of the system becomes one of this package, which names the file."""

from __future__ import annotations

from pathlib import Path

from emulation.errors import EmulationError
from kmod.ensemble import write_atomically


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises EmulationError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmulationError(f"{path}: cannot be read ({error.strerror})") from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all. Raises EmulationError if it cannot be written."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror})") from error
