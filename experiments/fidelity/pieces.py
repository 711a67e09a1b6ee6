# SPDX-License-Identifier: MIT
"""Cuts pieces out of recorded traces and keeps them, because archives with hours of recordings take long to unpack.

A kept piece is a file in the campaign's folder. Its name contains a digest of the piece's fields and duration, and of
the name, size and modification time of the files of its dataset. Changed recordings are therefore read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from emulation.errors import TraceError
from emulation.traces import Recording, Trace, read
from kmod.ensemble import write_atomically


class Piece(BaseModel):
    """A piece of a recording. recording: a part of its name that no other recording of the dataset has in its name."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field(min_length=1)
    recording: str = Field(min_length=1)
    start_s: float = Field(0.0, ge=0)


class Pieces:
    """Finds pieces in the recordings below `source`, and keeps them in `folder`.

    source: None if there are no recorded traces. progress: called with the name of a dataset before it is read.
    """

    def __init__(self, source: Path | None, *, folder: Path, progress: Callable[[str], None] | None = None) -> None:
        self._source = source
        self._folder = folder
        self._progress = progress
        self._read: dict[str, tuple[Recording, ...]] = {}

    def find(self, piece: Piece, *, duration_s: float) -> tuple[Trace | None, str]:
        """Return the piece as a trace that starts at 0, and ""; None and the reason if its dataset is not available.

        Raises:
            TraceError: the dataset does not have exactly one such recording, the piece exceeds the recording, a file
                is invalid, or the folder for pieces cannot be created.
        """
        if self._source is None or not self._source.exists():
            where = "none in $CCATUNE_TRACES" if self._source is None else f"nothing at {self._source}"
            return None, f"no recorded traces ({where}); give --traces"
        stamps = self._stamps(piece.dataset)
        if not stamps:
            return None, f"no dataset {piece.dataset} at {self._source}"
        name = f"{piece.dataset} {piece.recording} from {piece.start_s:g} s"
        digest = hashlib.sha256(json.dumps([piece.model_dump(), duration_s, stamps]).encode()).hexdigest()
        kept = self._folder / f"{piece.dataset}-{digest[:16]}.json"
        if kept.exists():
            return _trace(name, json.loads(kept.read_bytes())), ""
        # A missing folder is reported before the archive is unpacked, which takes long.
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"{self._folder}: expected a folder to keep pieces in, got none "
                             f"({error.strerror}); choose another place (--work)") from error  # fmt: skip
        trace = self._cut(piece, duration_s)
        found = {"opportunities_ms": trace.opportunities_ms.tolist(), "period_ms": trace.period_ms}
        write_atomically(kept, json.dumps(found).encode())
        return _trace(name, found), ""

    def _stamps(self, dataset: str) -> list[tuple[str, int, int]]:
        """Return (name, size in bytes, modification time in ns) of each archive and file of a dataset."""
        assert self._source is not None  # noqa: S101 (find has looked)
        root = self._source if self._source.is_dir() else self._source.parent
        paths = [*root.rglob(f"{dataset}.tar.xz"), *root.rglob(f"{dataset}/**/*.*")]
        stats = [(str(path.relative_to(root)), path.stat()) for path in sorted(paths) if path.is_file()]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]

    def _cut(self, piece: Piece, duration_s: float) -> Trace:
        if piece.dataset not in self._read:
            if self._progress is not None:
                self._progress(piece.dataset)
            assert self._source is not None  # noqa: S101 (find has looked)
            reading = read(self._source, wanted=lambda name: name == piece.dataset)
            self._read[piece.dataset] = tuple(r for r in reading.recordings if r.dataset == piece.dataset)
        recordings = self._read[piece.dataset]
        found = [recording for recording in recordings if piece.recording in recording.name]
        if len(found) != 1:
            names = ", ".join(recording.name for recording in found or recordings)
            raise TraceError(f"{piece.dataset}: expected one recording {piece.recording}, got {len(found)} ({names})")
        start_ms = round(piece.start_s * 1000)
        return found[0].trace.slice(start_ms, start_ms + round(duration_s * 1000))


def _trace(name: str, kept: dict[str, object]) -> Trace:
    period_ms = kept["period_ms"]
    assert isinstance(period_ms, int)  # noqa: S101 (for the type checker; write_atomically wrote it)
    return Trace(name, np.asarray(kept["opportunities_ms"], dtype=np.uint32), period_ms)
