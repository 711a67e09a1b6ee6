# SPDX-License-Identifier: MIT
"""What options of many commands are checked by: numbers that are finite, files that can be written."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import click

from emulation.errors import EmulationError

__all__ = ["FiniteRange", "check_output"]


class FiniteRange(click.FloatRange):
    """A range of numbers without nan, which click's own takes for one that is in it, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails as a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a finite number, got {value}", param, ctx)
        return number


def check_output(path: Path) -> None:
    """Refuse a file that could not be written, before the work whose result it is to hold.

    By making the file that kmod.ensemble.write_atomically begins with: what root may do is told by nothing less.

    Raises:
        EmulationError: a folder or a device is there, or no file can be made beside it.
    """
    try:
        if path.exists() and not path.is_file():
            raise EmulationError(f"{path}: cannot be written (a folder or a device is there); name another")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"):
            pass
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror}); name another") from error
