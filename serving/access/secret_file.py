# SPDX-License-Identifier: MIT
"""Writes a secret to a new file that only its owner can read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from serving.errors import SettingsError


@contextlib.contextmanager
def new_secret_file(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Create a file that only its owner can read, and yield a function that writes the secret to it.

    The file is removed if the block raises. Without a path nothing is created, and the function does nothing.

    Raises:
        SettingsError: the file exists, or it cannot be written.
    """
    if path is None:
        yield lambda _: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: expected no such file, for a token replaces none; name another one") from error
    except OSError as error:
        raise SettingsError(f"{path}: expected a file that can be made, got {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:

            def write(text: str) -> None:
                try:
                    file.write(f"{text}\n")
                    file.flush()
                    os.fsync(descriptor)
                except OSError as error:
                    raise SettingsError(f"{path}: expected room for a token, got {error.strerror}") from error

            yield write
    except BaseException:
        path.unlink(missing_ok=True)
        raise
