# SPDX-License-Identifier: MIT
"""Writes files of observations (observations.py), and keeps no more of them than a number of bytes."""

from __future__ import annotations

import json
import os
import secrets
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Final

from kmod.observations import COLUMNS, GZIP_BITS, UNFINISHED, VERSION, ZEROS, Ends, Facts, file_name, files_in

_LEVEL: Final = 6
_LETTERS: Final = tuple(letter for letter, _, _, _ in COLUMNS)


def finish_left_over(folder: Path) -> None:
    """Give the files that a killed process left behind their final names, and remove empty ones."""
    for path in files_in(folder):
        if path.name.endswith(UNFINISHED):
            if path.stat().st_size:
                os.replace(path, _finished(path))
            else:
                path.unlink()


def remove_oldest(folder: Path, *, keep_bytes: int) -> None:
    """Remove the oldest files until the rest has at most so many bytes."""
    sizes = {path: path.stat().st_size for path in files_in(folder)}
    total_bytes = sum(sizes.values())
    for path, size_bytes in sizes.items():
        if total_bytes <= keep_bytes:
            break
        path.unlink(missing_ok=True)
        total_bytes -= size_bytes


class ObservationWriter:
    """Writes files into a folder, one after another, and removes the oldest ones. All methods raise OSError.

    The caller holds a lock on the folder. A file ends at `file_bytes`, or after `file_s`. What was written is readable
    after at most `flush_s`.
    """

    def __init__(
        self, folder: Path, *, facts: Facts, missing: Sequence[str] = (), keep_bytes: int = 1 << 30,
        file_bytes: int = 1 << 20, file_s: float = 3600, flush_s: float = 5, start_s: float | None = None,
    ) -> None:  # fmt: skip
        """Create the writer. missing: columns that this kernel does not have. keep_bytes: of all files together.

        start_s: time of day at time 0 of the session, since 1970; None for now.
        """
        self._folder, self._facts, self._missing = folder, facts, missing
        self._keep_bytes, self._file_bytes = keep_bytes, min(file_bytes, keep_bytes // 4)
        self._file_us, self._flush_us = round(file_s * 1e6), round(flush_s * 1e6)
        self._session = secrets.token_hex(6)
        self._start_s = time.time() if start_s is None else start_s
        self._file: BinaryIO | None = None
        self._path = folder
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP_BITS)
        self._n_files = self._size_bytes = 0
        # Times of the last sample, of the last one in a file, and of the beginning of the present file.
        self._time_us = self._written_us = self._begin_us = 0
        self._lines: list[str] = []
        self._flows: dict[int, tuple[Ends, tuple[int, ...]]] = {}
        self.written_bytes = 0
        finish_left_over(folder)

    def tick(self, time_us: int) -> bool:
        """Begin a sample at this time of the session, which never decreases. Returns whether a file was finished."""
        is_full = self._size_bytes >= self._file_bytes or time_us - self._begin_us >= self._file_us
        if has_ended := self._file is not None and is_full:
            self.finish()
        elif time_us - self._written_us >= self._flush_us:
            self._write(zlib.Z_SYNC_FLUSH)
        self._lines.append(f"t {time_us - self._time_us}")
        self._time_us = time_us
        return has_ended

    def flow(self, number: int, ends: Ends) -> None:
        """Name a connection, or name it anew. All its columns are 0 until its next row."""
        self._flows[number] = ends, ZEROS
        self._lines.append(_flow_line(number, ends))

    def row(self, number: int, values: tuple[int, ...]) -> None:
        """Write what changed since the connection's last row. values: one of each column."""
        ends, last = self._flows[number]
        if values != last:
            self._flows[number] = ends, values
            self._lines.append(_row_line(number, values, last))

    def end(self, number: int, word: str) -> None:
        """Write that a connection is no longer sampled."""
        del self._flows[number]
        self._lines.append(f"e {number} {word}")

    def listed(self, *, matching: int, sampled: int, new: int, opened: int, left_out: int) -> None:
        """Write the figures of a list of all connections."""
        self._lines.append(f"d {matching} {sampled} {new} {opened} {left_out}")

    def finish(self) -> None:
        """Finish the present file. The next line begins another one, which names the present connections anew."""
        self._write(zlib.Z_FINISH)
        if self._file is None:
            return
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        os.replace(self._path, _finished(self._path))
        for number, (ends, values) in self._flows.items():
            self._lines.append(_flow_line(number, ends))
            if values != ZEROS:
                self._lines.append(_row_line(number, values, ZEROS))

    def _write(self, mode: int) -> None:
        if not self._lines:
            return
        if self._file is None:
            self._open()
            self._lines.insert(0, self._header())
        text = "\n".join([*self._lines, ""]).encode("ascii")
        content = self._packer.compress(text) + self._packer.flush(mode)
        assert self._file is not None  # noqa: S101 - for the type checker
        # A full disk takes a part, and fails at the rest.
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._lines = []
        self._written_us = self._time_us
        self._size_bytes += len(content)
        self.written_bytes += len(content)

    def _open(self) -> None:
        self._begin_us = self._written_us
        name = file_name(self._start_s + self._begin_us / 1e6, self._session, self._n_files)
        self._path = self._folder / f"{name}.part"
        remove_oldest(self._folder, keep_bytes=self._keep_bytes - self._file_bytes)
        # Without a buffer of its own, so that a killed process has written all that it flushed.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP_BITS)
        self._size_bytes = 0

    def _header(self) -> str:
        number, self._n_files = self._n_files, self._n_files + 1
        header = {
            "observations": VERSION,
            "session": self._session,
            "file": number,
            "start_s": round(self._start_s + self._begin_us / 1e6, 6),
            "begin_us": self._begin_us,
            **asdict(self._facts),
            "columns": {letter: name for letter, name, _, _ in COLUMNS if name not in self._missing},
            "missing": list(self._missing),
        }
        return json.dumps(header)


def _finished(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".part"))


def _flow_line(number: int, ends: Ends) -> str:
    return f"f {number} {json.dumps(asdict(ends), separators=(',', ':'))}"


def _row_line(number: int, values: tuple[int, ...], last: tuple[int, ...]) -> str:
    changes = [
        f"{letter}{value - before}"
        for letter, value, before in zip(_LETTERS, values, last, strict=True)
        if value != before
    ]
    return f"{number} {' '.join(changes)}"
