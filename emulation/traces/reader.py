# SPDX-License-Identifier: MIT
"""Read traces: from files, folders and archives to recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from emulation.traces._parse import parse_trace
from emulation.traces._sources import TraceFile, find_files, refuse
from emulation.traces.recording import MAX_RECORDING_MS, ParsedFile, Recording, join_files
from emulation.traces.trace import OPPORTUNITY_BYTES
from kmod.terminal import counted, listed

Paths = str | Path | Sequence[str | Path]

MOST_NAMES_SHOWN = 3
DELAY_LEAST_MS = 5
DELAY_BELOW_MS = 1000
DELAY_RATE_KBPS = 100_000


@dataclass(frozen=True)
class Reading:
    """The result of reading. skipped: a message for each bad file; unread: the name of each file that is no trace."""

    recordings: tuple[Recording, ...]
    skipped: tuple[str, ...]
    unread: tuple[str, ...]

    @property
    def n_files(self) -> int:
        """Number of the files in the recordings."""
        return sum(len(recording.files) for recording in self.recordings)

    @property
    def left_out(self) -> list[str]:
        """A line for each bad file, one with their number, and one about files that are no traces, if there are any."""
        lines = [f"left out: {text}" for text in self.skipped]
        lines += [f"{counted(len(lines), 'bad file')} left out"] if lines else []
        if self.unread:
            files = counted(len(self.unread), "file that is no trace was", "files that are no traces were")
            lines.append(f"{files} not read: {listed(self.unread, most=MOST_NAMES_SHOWN)}")
        return lines


def read(
    paths: Paths,
    *,
    skip_bad: bool = False,
    may_be_empty: bool = False,
    wanted: Callable[[str], bool] = lambda _: True,
    progress: Callable[[str], None] | None = None,
) -> Reading:
    """Read trace files, folders of them and .tar.xz archives (in memory), and join consecutive files.

    skip_bad: leave bad files out and list them, instead of raising at the first. may_be_empty: also if nothing else is
    left. wanted: decides by the name of its dataset whether a file is read. progress: called with each file's name.
    _sources.py says which files are read, recording.py how files are joined, and how holes, short files and gaps are
    treated.

    Raises TraceError as _parse.parse_trace, _sources.find_files and recording.join_files do, for a file over 24 h or
    that looks like a file of delays, and if every file was left out.
    """
    skipped: list[str] = []
    unread: list[str] = []
    files: list[ParsedFile] = []
    bad = (lambda error: skipped.append(str(error))) if skip_bad else refuse
    for file in find_files(_as_paths(paths), wanted=wanted, bad=bad, unread=unread):
        if progress is not None:
            progress(file.name)
        try:
            files.append(_parsed(file))
        except TraceError as error:
            bad(error)
    recordings = tuple(join_files(files, bad=bad))
    if skipped and not recordings and not may_be_empty:
        n_bad = counted(len(skipped), "bad file was", "bad files were")
        raise TraceError(f"{skipped[0]}; {n_bad} left out, and nothing is left")
    return Reading(recordings, tuple(skipped), tuple(unread))


def read_recordings(paths: Paths, *, skip_bad: bool = False) -> list[Recording]:
    """The recordings of `read`, for callers that need no list of the files left out."""
    return list(read(paths, skip_bad=skip_bad).recordings)


def _parsed(file: TraceFile) -> ParsedFile:
    times_ms = parse_trace(file.data, name=file.name)
    if times_ms[-1] > MAX_RECORDING_MS:
        raise TraceError(
            f"{file.name}: expected at most 24 h, {MAX_RECORDING_MS} ms, got {times_ms[-1]} ms; cut the file in pieces"
        )
    if _looks_like_delays(times_ms):
        raise TraceError(
            f"{file.name}: expected times of deliveries, got {len(times_ms)} lines from {times_ms[0]} to "
            f"{times_ms[-1]}, which look like delays; convert LeoReplayer's files with `ccatune traces import`"
        )
    return ParsedFile(file.dataset, file.folder, file.location, file.file_name, times_ms)


def _looks_like_delays(times_ms: NDArray[np.uint32]) -> bool:
    """Whether lines are delays that happen never to decrease: below 1 s, near each other, and far too many for times.

    As a trace, such a file would be silent for a quarter of its period and then faster than 100 Mbit/s.
    """
    first_ms, last_ms = int(times_ms[0]), int(times_ms[-1])
    is_narrow = first_ms >= DELAY_LEAST_MS and last_ms < DELAY_BELOW_MS and 4 * first_ms >= last_ms
    return is_narrow and len(times_ms) * OPPORTUNITY_BYTES * 8 > DELAY_RATE_KBPS * last_ms


def _as_paths(paths: Paths) -> list[Path]:
    if isinstance(paths, str | Path):
        return [Path(paths)]
    return [Path(path) for path in paths]
