# SPDX-License-Identifier: MIT
"""What the options of many commands share: finite numbers, lists of words, and files that can be written."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import click

from emulation.errors import EmulationError


class FiniteRange(click.FloatRange):
    """A range of finite numbers. click.FloatRange accepts nan and, without bounds, infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. An invalid one is a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a finite number, got {value}", param, ctx)
        return number


def words_of(text: str) -> list[str]:
    """Return the words of an option that takes a list. Spaces or commas separate them, in all commands."""
    return [word for word in re.split(r"[\s,]+", text) if word]


def check_output(path: Path) -> None:
    """Check that a file can be written, before the work whose result it will contain.

    It makes a temporary file in the same folder, as kmod.ensemble.write_atomically does. The permissions alone do not
    show what root may write.

    Raises EmulationError if the path is a folder or a device, or no file can be made in its folder.
    """
    try:
        if path.exists() and not path.is_file():
            raise EmulationError(f"{path}: cannot be written (a folder or a device is there); name another")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"):
            pass
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror}); name another") from error
