# SPDX-License-Identifier: MIT
"""Recordings: traces that follow each other in time, over which one flow can run.

The files of a recording in pieces are numbered, for example "08640.down", "08641.down". To be joined, they must lie in
the same folder and differ only in the number at the end of their stem. The numbers must be consecutive, and each file
but the last must be a full slot. The rules, in the order in which they apply:

    length     a file lasts until its last line, rounded up to a whole second: a link of 100 kbit/s may end 0.1 s early
    slot       the commonest length among the files of one folder, prefix and suffix (30 s in the pqsa recordings)
    full       a file of length = slot takes its whole slot: the next file starts exactly one slot after it. Its last
               line must lie in the last tenth of the slot. Short files with numbers, such as the constant links bw1 to
               bw4 of a line each, are links of their own
    hole       a missing number, or a bad file that was left out, ends the recording; the file after it starts another
               one. The behaviour of the link in between is unknown, and none is invented.
    short      a file of another length (20 s in a series of 30) ends the recording: the rest of its slot is unknown
    gap        silence of at least 1 s within a recording is a real outage; it stays, and `gaps` lists it
    folders    a recording never crosses folders: hours in folders of their own become one recording per hour
    day        a recording lasts at most 24 h, as a run does (emulation/scenario/model.py). A longer series continues in
               another recording. A single file that is longer is refused when it is read (reader.py)

A file whose stem ends in no number, or whose neighbours are missing, is a recording by itself. Its period is then its
last line, as in Mahimahi.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from emulation.traces._sources import Refuse, refuse
from emulation.traces.trace import Trace

MAX_RECORDING_MS = 24 * 3600 * 1000  # a multiple of LENGTH_STEP_MS
GAP_MS = 1000
LENGTH_STEP_MS = 1000
LEAST_FILLED_SHARE = 0.9
# At most nine digits: a longer number is a date or a hash, not a place in a series.
STEM = re.compile(r"(?P<prefix>.*?)(?<!\d)(?P<number>\d{1,9})")


@dataclass(frozen=True)
class Gap:
    """Silence of a link: no opportunity in [start_ms, end_ms) of its recording."""

    start_ms: int
    end_ms: int

    @property
    def duration_ms(self) -> int:
        """Length of the silence."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Recording:
    """A trace that one flow can run over. files: its parts in order of time; gaps: its silences of at least 1 s."""

    name: str
    dataset: str
    trace: Trace
    gaps: tuple[Gap, ...] = field(repr=False)
    files: tuple[str, ...] = field(repr=False)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.trace.duration_s

    def cut(self, start_ms: int, end_ms: int) -> Recording:
        """The piece [start_ms, end_ms) as a recording; `files` names all parts. Raises TraceError like Trace.slice."""
        trace = self.trace.slice(start_ms, end_ms)
        return Recording(f"{self.name}[{start_ms}:{end_ms}]", self.dataset, trace, find_gaps(trace), self.files)

    def pieces(self, length_ms: int) -> list[Recording]:
        """Pieces of this length that carry anything. A rest of less than half of it belongs to the last one."""
        ends = [*range(length_ms, self.trace.period_ms - length_ms // 2, length_ms), self.trace.period_ms]
        spans = zip([0, *ends], ends, strict=False)
        return [self.cut(*span) for span in spans if self.trace.capacity_bytes(*span)]


@dataclass(frozen=True)
class ParsedFile:
    """A trace file as numbers, and where it came from (see _sources.TraceFile)."""

    dataset: str
    folder: str
    location: str
    file_name: str
    times_ms: NDArray[np.uint32]

    @property
    def length_ms(self) -> int:
        """Last line rounded up to a whole second."""
        return math.ceil(int(self.times_ms[-1]) / LENGTH_STEP_MS) * LENGTH_STEP_MS

    def fills(self, slot_ms: int) -> bool:
        """Whether the file takes its whole slot."""
        return self.length_ms == slot_ms and int(self.times_ms[-1]) >= LEAST_FILLED_SHARE * slot_ms

    @property
    def place(self) -> tuple[str, int] | None:
        """The series of the file (folder, prefix and suffix) and its number there; None if it has no number."""
        stem, _, suffix = self.file_name.rpartition(".")
        match = STEM.fullmatch(stem)
        if match is None:
            return None
        return f"{self.location}/{match['prefix']}*.{suffix}", int(match["number"])


def is_numbered(recording: Recording) -> bool:
    """Whether the files of a recording are numbered pieces of a series, rather than a file by itself."""
    stem = recording.files[0].rpartition("/")[2].rpartition(".")[0]
    return STEM.fullmatch(stem) is not None


def find_gaps(trace: Trace) -> tuple[Gap, ...]:
    """Silences of at least 1 s, including those before the first and after the last opportunity."""
    edges = np.concatenate(([0], trace.opportunities_ms.astype(np.int64), [trace.period_ms]))
    silent = np.flatnonzero(np.diff(edges) >= GAP_MS)
    return tuple(Gap(int(edges[index]), int(edges[index + 1])) for index in silent)


def join_files(files: Iterable[ParsedFile], *, bad: Refuse = refuse) -> list[Recording]:
    """Join files to recordings by the rules at the top of this module, in the order of their first files.

    files: none over 24 h. bad: called with the error of a file whose number another file of its series has.
    """
    alone: list[tuple[ParsedFile, ...]] = []
    series: defaultdict[str, dict[int, ParsedFile]] = defaultdict(dict)
    for file in files:
        place = file.place
        if place is None:
            alone.append((file,))
            continue
        name, number = place
        if number in series[name]:
            others = f"{series[name][number].file_name} and {file.file_name}"
            text = f"{file.folder}: expected one file numbered {number}, got {others}; remove or rename one"
            bad(TraceError(text))
        else:
            series[name][number] = file
    runs = [(run, slot_ms) for members in series.values() for run, slot_ms in _runs(members)]
    recordings = [_recording(run, slot_ms) for run, slot_ms in runs] + [_recording(run, 0) for run in alone]
    return sorted(recordings, key=lambda recording: recording.files[0])


def _runs(members: dict[int, ParsedFile]) -> list[tuple[tuple[ParsedFile, ...], int]]:
    """Cut a series where a number is missing, a slot is not full or a day is over; return each run with the slot."""
    counts = Counter(file.length_ms for file in members.values())
    slot_ms = max(counts, key=lambda length_ms: (counts[length_ms], length_ms))
    runs: list[list[ParsedFile]] = []
    previous: int | None = None
    for number in sorted(members):
        goes_on = previous is not None and number == previous + 1 and runs[-1][-1].fills(slot_ms)
        if goes_on and members[number].length_ms <= min(slot_ms, MAX_RECORDING_MS - len(runs[-1]) * slot_ms):
            runs[-1].append(members[number])
        else:
            runs.append([members[number]])
        previous = number
    return [(tuple(run), slot_ms) for run in runs]


def _recording(run: Sequence[ParsedFile], slot_ms: int) -> Recording:
    first, last = run[0], run[-1]
    names = tuple(f"{file.folder}/{file.file_name}" for file in run)
    name = names[0] if len(run) == 1 else f"{first.folder}/{_stem(first)}-{_stem(last)}"
    full = len(run) > 1 and last.fills(slot_ms)
    period_ms = len(run) * slot_ms if full else (len(run) - 1) * slot_ms + int(last.times_ms[-1])
    times_ms = np.concatenate([file.times_ms + np.uint32(slot_ms * index) for index, file in enumerate(run)])
    trace = Trace(name, times_ms, period_ms)
    return Recording(name, first.dataset, trace, find_gaps(trace), names)


def _stem(file: ParsedFile) -> str:
    return file.file_name.rpartition(".")[0]


def place_of(recordings: Sequence[Recording], *, share: float) -> tuple[Recording, int]:
    """The point at a share (0 to 1) of the total time of recordings (at least one): the recording, and the ms in it."""
    ends_s = list(accumulate(recording.duration_s for recording in recordings))
    at_s = share * ends_s[-1]
    index = min(int(np.searchsorted(ends_s, at_s, side="right")), len(recordings) - 1)
    return recordings[index], int(1000 * (at_s - ends_s[index] + recordings[index].duration_s))
