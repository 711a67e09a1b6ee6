# SPDX-License-Identifier: MIT
"""Read traces: from files, folders and archives to recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulation.errors import TraceError
from emulation.traces._parse import parse_trace
from emulation.traces._sources import TraceFile, find_files
from emulation.traces.recording import MAX_RECORDING_MS, ParsedFile, Recording, join_files

__all__ = ["Reading", "read", "read_recordings"]

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Reading:
    """The result of reading. skipped: a message for each bad file that was left out (empty without skip_bad)."""

    recordings: tuple[Recording, ...]
    n_files: int
    skipped: tuple[str, ...]

    @property
    def left_out(self) -> list[str]:
        """A line for each bad file that was left out, and one with their number; no line if none was."""
        lines = [f"left out: {text}" for text in self.skipped]
        return [*lines, f"{len(lines)} bad files left out"] if lines else []


def read(
    paths: Paths,
    *,
    skip_bad: bool = False,
    wanted: Callable[[str], bool] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Reading:
    """Read .down, .up and .txt files, folders of them and .tar.xz archives (in memory), and join consecutive files.

    skip_bad: leave bad files out and list them, instead of raising at the first. wanted: decides by the name of its
    dataset whether a file is read. progress: called with each file's name. recording.py says how files are joined, and
    how holes, short files and gaps are treated.

    Raises TraceError as _parse.parse_trace, _sources.find_files and recording.join_files do, for a file over 24 h, and
    if every file was left out.
    """
    files: list[ParsedFile] = []
    skipped: list[str] = []
    for file in find_files(_as_paths(paths), wanted=wanted or _every):
        if progress is not None:
            progress(file.name)
        try:
            files.append(_parsed(file))
        except TraceError as error:
            if not skip_bad:
                raise
            skipped.append(str(error))
    if skipped and not files:
        raise TraceError(f"{skipped[0]}; {len(skipped)} bad files were left out, and nothing is left")
    return Reading(tuple(join_files(files)), n_files=len(files), skipped=tuple(skipped))


def read_recordings(paths: Paths, *, skip_bad: bool = False) -> list[Recording]:
    """The recordings of `read`, for callers that need no list of the files left out."""
    return list(read(paths, skip_bad=skip_bad).recordings)


def _parsed(file: TraceFile) -> ParsedFile:
    times_ms = parse_trace(file.data, name=file.name)
    if times_ms[-1] > MAX_RECORDING_MS:
        raise TraceError(
            f"{file.name}: expected at most 24 h, {MAX_RECORDING_MS} ms, got {times_ms[-1]} ms; cut the file in pieces"
        )
    return ParsedFile(file.dataset, file.folder, file.location, file.file_name, times_ms)


def _every(dataset: str) -> bool:
    del dataset
    return True


def _as_paths(paths: Paths) -> list[Path]:
    if isinstance(paths, str | Path):
        return [Path(paths)]
    return [Path(path) for path in paths]
