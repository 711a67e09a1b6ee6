# SPDX-License-Identifier: MIT
"""The finished tasks of a study on disk, so that a kill loses none of them, and how far the others are.

A folder with a file of each finished part (NAME.json) and of the last snapshot of each task that has begun
(NAME.begun), each written whole or not at all, under a name that carries the study's key: a digest over its settings,
the traces and the version of core and simulator. Files of another key are not this study's; they are neither used nor
touched.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmod.ensemble import canonical_json, write_atomically
from training.errors import TrainingError

_PART = re.compile(r"[a-z0-9-]+")


class Journal:
    """The finished parts of the study `key` (hex) in a folder, which is made when needed."""

    def __init__(self, folder: Path, *, key: str) -> None:
        self.folder = folder / key[:16]
        self._key = key

    def parts(self) -> dict[str, Any]:
        """All finished parts by name.

        Raises:
            TrainingError: a file there is not one that a journal wrote.
        """
        return {path.stem: part for path in sorted(self.folder.glob("*.json")) if (part := self._read(path))}

    def snapshot_of(self, name: str) -> Any:
        """The last snapshot of a task that is not finished; None where there is none.

        Raises:
            TrainingError: its file is not one that a journal wrote.
        """
        path = self._path(name, "begun")
        return self._read(path) if path.exists() else None

    def begun(self) -> list[str]:
        """The names of what has begun, but is not finished: tasks with a snapshot, and batches of runs."""
        finished = {path.stem for path in self.folder.glob("*.json")}
        batches = {path.stem.rpartition("-")[0] for path in self.folder.glob("*.npz")}
        return sorted({path.stem for path in self.folder.glob("*.begun")} - finished | batches)

    def _read(self, path: Path) -> Any:
        try:
            entry = json.loads(path.read_bytes())
            return entry["part"] if entry["key"] == self._key else None
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(
                f"{path}: expected a part of a study, got {error!r}; remove the file and resume"
            ) from error

    def _path(self, name: str, kind: str) -> Path:
        if not _PART.fullmatch(name):
            raise TrainingError(f"journal: expected a name of a-z, 0-9 and dashes, got {name!r}")
        return self.folder / f"{name}.{kind}"

    def others(self) -> list[str]:
        """The folders beside this study's that hold parts of another key."""
        beside = self.folder.parent.glob("*/*.json")
        return sorted({path.parent.name for path in beside} - {self.folder.name})

    def put(self, name: str, part: object) -> None:
        """Keep a finished part, and drop its snapshot.

        Raises:
            TrainingError: a name other than a-z, 0-9 and dashes.
        """
        self._write(self._path(name, "json"), self._content(part))
        self._path(name, "begun").unlink(missing_ok=True)

    def put_snapshot(self, name: str, snapshot: object) -> None:
        """Keep how far a task is.

        Raises:
            TrainingError: a name other than a-z, 0-9 and dashes.
        """
        self._write(self._path(name, "begun"), self._content(snapshot))

    def _write(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)

    def _content(self, part: object) -> bytes:
        return canonical_json({"key": self._key, "part": part})

    def put_batch(self, name: str, data: bytes) -> None:
        """Keep the next batch of runs under a name."""
        self._write(self.folder / f"{name}-{len(self._batches(name)):05d}.npz", data)

    def batches(self, name: str) -> Iterator[bytes]:
        """The batches under a name, in order."""
        return (path.read_bytes() for path in self._batches(name))

    def _batches(self, name: str) -> list[Path]:
        return sorted(self.folder.glob(f"{name}-[0-9]*.npz"))

    def discard(self) -> None:
        """Forget this study's parts: it is finished, or starts over."""
        for path in [file for kind in ("*.json", "*.begun", "*.npz", ".*.tmp") for file in self.folder.glob(kind)]:
            path.unlink(missing_ok=True)
        for folder in (self.folder, self.folder.parent):
            with contextlib.suppress(OSError):  # others' files are in it, or it was never made
                folder.rmdir()
