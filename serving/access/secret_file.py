# SPDX-License-Identifier: MIT
"""Writes a secret to a new file that only its owner can read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from serving.errors import SettingsError

__all__ = ["written_to"]


@contextlib.contextmanager
def written_to(path: Path | None, text: str) -> Iterator[None]:
    """Write a secret to a new file that only its owner can read. The file is removed if the block raises.

    Raises:
        SettingsError: the file exists, or it cannot be written.
    """
    if path is None:
        yield
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: expected no such file, for a token replaces none; name another one") from error
    except OSError as error:
        raise SettingsError(f"{path}: expected a file that can be made, got {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(descriptor)
        yield
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SettingsError(f"{path}: expected room for a token, got {error.strerror}") from error
        raise
