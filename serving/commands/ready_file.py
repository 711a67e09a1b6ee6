# SPDX-License-Identifier: MIT
"""The file of `ccatune serve --ready-file`, by which scripts learn the registry's URL."""

from __future__ import annotations

from pathlib import Path

from kmod.ensemble import write_atomically
from serving.errors import SettingsError

__all__ = ["ReadyFile"]


class ReadyFile:
    """The file that contains the URL while the registry answers requests. Without a path all methods do nothing."""

    def __init__(self, path: Path | None) -> None:
        """Raise SettingsError where the path's folder does not exist."""
        if path is not None and not path.parent.is_dir():
            raise SettingsError(f"--ready-file {path}: expected the folder {path.parent} to exist; make it first")
        self._path = path
        self._is_built_in = False

    def __enter__(self) -> None:
        """Leave the file alone: a running registry may have written it."""

    def __exit__(self, *_: object) -> None:
        """Remove the file if `take` was called: only then it belongs to this process."""
        if self._is_built_in and self._path is not None:
            self._path.unlink(missing_ok=True)

    def take(self) -> None:
        """Remove an existing file. Call this only after the port is bound.

        Before that, the file may belong to a running registry on the same port.
        """
        if self._path is not None:
            # A file that a killed process left would give its reader a wrong URL.
            self._path.unlink(missing_ok=True)
            self._is_built_in = True

    def write(self, url: str) -> None:
        """Write the registry's URL to the file. Raises SettingsError where it cannot be written."""
        if self._path is None:
            return
        try:
            write_atomically(self._path, f"{url}\n".encode())
        except OSError as error:
            raise SettingsError(
                f"--ready-file {self._path}: expected a file that can be written, got {error.strerror}"
            ) from error
