# SPDX-License-Identifier: MIT
"""Reads the logs of mm-link, and reads and writes the tunnel logs of a Pantheon data folder.

A tunnel log has the packets of all flows in one direction. Its first line states the time at which its clock was 0:

    # init timestamp: 1700000000000.000    in ms since 1970
    0.000 # 1500                           the link could deliver 1500 bytes
    3.120 + 1500 1                         a packet of 1500 bytes of flow 1 entered the tunnel
    45.301 - 1500 42.181 1                 it left the tunnel, 42.181 ms later

Times are in ms. Flows count from 1. A line without a flow belongs to flow 0. Other lines beginning with # are comments.
A log of mm-link has the same lines without flows, and `TIME d PACKETS BYTES` for dropped packets, which Debian's
mm-link does not write. Its times are in whole ms. Its first lines are comments, one of which also states the base
timestamp: the time at which the trace began. A packet that finds the queue full has a line as it enters, too. A delay
ends when the packet's last byte has left, so it includes the packet's transmission. Sizes include the 4 bytes of the
tun device's header in each packet.

Source of the formats: the documentation, merge_tunnel_logs.py and tunnel_graph.py of Pantheon, and link_queue.cc of
Mahimahi. The reader first matches the whole file with one pattern, and then converts all numbers together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.traces.files import read_file, write_file

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["datalink", "acklink", "stats", "mm_datalink", "mm_acklink"]

SHOWN_CHARS = 60
# The numbers of digits are bounded, so that the type of each column can represent each number exactly.
_TIME = rb"\d{1,12}(?:\.\d{1,6})?"
_BYTES = rb"\d{1,9}"
_FLOW = rb"(?: \d{1,4})?"
_EVENTS = {
    b"#": rb"# " + _BYTES,
    b"+": rb"\+ " + _BYTES + _FLOW,
    b"-": rb"- " + _BYTES + rb" -?" + _TIME + _FLOW,
    b"d": rb"d " + _BYTES + rb" " + _BYTES,
}
_FORMS = {
    b"#": "TIME # BYTES",
    b"+": "TIME + BYTES FLOW",
    b"-": "TIME - BYTES DELAY FLOW",
    b"d": "TIME d PACKETS BYTES",
}
_CODES = {b" # ": b" 0 ", b" + ": b" 1 ", b" - ": b" 2 ", b" d ": b" 3 "}
_COMMENT = rb"#[^\n]*"
_COMMENTS = re.compile(rb"^#[^\n]*\n", re.MULTILINE)
_FIRST_LINE = re.compile(rb"# init timestamp: (-?\d{1,15}(?:\.\d{1,6})?)\n")
_STAMP = re.compile(rb"^# (init|base) timestamp: (\d{1,15}(?:\.\d{1,6})?)$", re.MULTILINE)


def _lines(kinds: bytes) -> re.Pattern[bytes]:
    """Return the pattern of consecutive valid lines. Its match ends where the first damaged line begins.

    The group is possessive. Therefore the match needs neither backtracking nor memory for each line.
    """
    events = b"|".join(_EVENTS[bytes([kind])] for kind in kinds)
    return re.compile(rb"(?:(?:" + _TIME + rb" (?:" + events + rb")|" + _COMMENT + rb")\n)*+")


_TUNNEL_LINES = _lines(b"#+-")
_LINK_LINES = _lines(b"#+-d")


class _Columns:
    """Columns of equal length. Two objects are equal if their types and all their values are equal."""

    def __post_init__(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        if len(set(lengths.values())) > 1:
            raise EmulationError(f"{type(self).__name__}: expected columns of equal length, got {lengths}")

    def __len__(self) -> int:
        return len(self._columns()[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Columns) or type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(own, its) for own, its in zip(self._columns(), other._columns(), strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> list[NDArray[np.generic]]:
        return [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Events(_Columns):
    """Delivery opportunities. times_ms: float [n], since init_ms. bytes: int [n]."""

    times_ms: Floats
    bytes: Ints


@dataclass(frozen=True, eq=False)
class FlowEvents(Events):
    """Packets that entered. flow: int [n], 0 if the line states no flow."""

    flow: Ints


@dataclass(frozen=True, eq=False)
class Departures(_Columns):
    """Packets that left. delay_ms: float [n], the one-way delay; negative if the clocks of the two ends differ."""

    times_ms: Floats
    bytes: Ints
    delay_ms: Floats
    flow: Ints


@dataclass(frozen=True, eq=False)
class Drops(_Columns):
    """Packets that mm-link dropped. pkts, bytes: int [n], the amount that was dropped at that time."""

    times_ms: Floats
    pkts: Ints
    bytes: Ints


@dataclass(frozen=True)
class TunnelLog:
    """All events in one direction of a run. init_ms: the time in ms since 1970 at which times_ms is 0."""

    init_ms: float
    capacity: Events
    entered: FlowEvents
    left: Departures

    @property
    def flows(self) -> tuple[int, ...]:
        """The flows that have a packet in the log, in ascending order."""
        return tuple(np.union1d(self.entered.flow, self.left.flow).astype(int).tolist())

    def as_written(self) -> TunnelLog:
        """Return the log as write_log stores it: ordered by time, with times and delays in whole µs.

        Raises EmulationError if a time is negative or not finite.
        """
        by_time = []
        for events in (self.capacity, self.entered, self.left):
            times_ms = _whole_us(events.times_ms)
            if len(times_ms) and not (np.isfinite(times_ms).all() and times_ms.min() >= 0):
                came = f"got {times_ms.min()}; let init_ms be the first time"
                raise EmulationError(f"tunnel log: expected finite times of at least 0 ms, {came}")
            by_time.append((times_ms, np.argsort(times_ms, kind="stable")))
        (opened_ms, first), (came_ms, second), (left_ms, third) = by_time
        entered, left = self.entered, self.left
        return TunnelLog(
            init_ms=float(_whole_us(np.asarray([self.init_ms]))[0]),
            capacity=Events(opened_ms[first], self.capacity.bytes[first]),
            entered=FlowEvents(came_ms[second], entered.bytes[second], entered.flow[second]),
            left=Departures(left_ms[third], left.bytes[third], _whole_us(left.delay_ms)[third], left.flow[third]),
        )


@dataclass(frozen=True)
class LinkLog:
    """A log of mm-link. init_ms: as in TunnelLog. base_ms: the time of its clock at which its trace began.

    Old versions of mm-link state neither. Then both are None.
    """

    init_ms: float | None
    base_ms: float | None
    capacity: Events
    entered: Events
    left: Departures
    dropped: Drops

    def as_tunnel(self) -> TunnelLog:
        """Return the same events as flow 0 of a tunnel log, for runs without a tunnel."""
        entered = FlowEvents(self.entered.times_ms, self.entered.bytes, np.zeros(len(self.entered), dtype=np.int64))
        return TunnelLog(self.init_ms or 0.0, self.capacity, entered, self.left)


def log_path(data_dir: Path, *, scheme: str, run: int, kind: Kind) -> Path:
    """Return the path of a log in a data folder. run: counts from 1."""
    return data_dir / f"{scheme}_{kind}_run{run}.log"


def write_log(log: TunnelLog, path: Path) -> None:
    """Write a tunnel log atomically. At equal times, opportunities come first and departures last.

    Raises EmulationError if a time is negative or not finite, or the file cannot be written.
    """
    log = log.as_written()
    lines = [f"{time:.3f} # {size}\n" for time, size in _rows(log.capacity.times_ms, log.capacity.bytes)]
    lines += [
        f"{time:.3f} + {size} {flow}\n" if flow else f"{time:.3f} + {size}\n"
        for time, size, flow in _rows(log.entered.times_ms, log.entered.bytes, log.entered.flow)
    ]
    lines += [
        f"{time:.3f} - {size} {delay:.3f} {flow}\n" if flow else f"{time:.3f} - {size} {delay:.3f}\n"
        for time, size, delay, flow in _rows(log.left.times_ms, log.left.bytes, log.left.delay_ms, log.left.flow)
    ]
    times_ms = np.concatenate([log.capacity.times_ms, log.entered.times_ms, log.left.times_ms])
    ordered = [lines[at] for at in np.argsort(times_ms, kind="stable").tolist()]
    text = f"# init timestamp: {log.init_ms:.3f}\n{''.join(ordered)}"
    write_file(path, text.encode("ascii"))


def _rows(*columns: NDArray[np.generic]) -> zip[tuple[float, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _whole_us(values_ms: Floats) -> Floats:
    # The quotient is the double that is nearest to the written decimal. The sum replaces -0 by 0.
    return np.rint(np.asarray(values_ms, dtype=np.float64) * 1000) / 1000 + 0.0


def read_log(path: Path) -> TunnelLog:
    """Read a tunnel log. Events that are out of order, for example after a clock was set, are sorted by their time.

    Raises EmulationError if the file cannot be read or a line is damaged. The message names the file and the line.
    """
    data = read_file(path)
    first = _FIRST_LINE.match(data)
    if first is None:
        raise _damaged(str(path), data, 0, "# init timestamp: MILLISECONDS")
    table = _parse(str(path), data, first.end(), _TUNNEL_LINES)
    return TunnelLog(float(first[1]), table.capacity(), table.entered(), table.left())


def read_link_log(path: Path) -> LinkLog:
    """Read a log of mm-link.

    Raises EmulationError if the file cannot be read or a line is damaged. The message names the file and the line.
    """
    return parse_link_log(read_file(path), name=str(path))


def parse_link_log(data: bytes, *, name: str) -> LinkLog:
    """Parse the content of a log of mm-link. name: of the log in messages.

    Raises EmulationError if a line is damaged. The message names the log and the line.
    """
    if not data.startswith(b"#"):
        raise _damaged(name, data, 0, "a comment of mm-link")
    stamps = {kind: float(value) for kind, value in _STAMP.findall(data)}
    table = _parse(name, data, 0, _LINK_LINES)
    entered = table.entered()
    return LinkLog(
        init_ms=stamps.get(b"init"),
        base_ms=stamps.get(b"base"),
        capacity=table.capacity(),
        entered=Events(entered.times_ms, entered.bytes),
        left=table.left(),
        dropped=table.dropped(),
    )


def _damaged(name: str, data: bytes, at: int, expected: str) -> EmulationError:
    """Return the error about the line that begins at this byte."""
    line = data[at : at + SHOWN_CHARS + 1].split(b"\n", 1)[0]
    shown = repr(line[:SHOWN_CHARS].decode("ascii", "backslashreplace")) + ("..." if len(line) > SHOWN_CHARS else "")
    number = data.count(b"\n", 0, at) + 1
    return EmulationError(
        f"{name}, line {number}: expected {expected}, got {shown}; the log is damaged, repeat the run"
    )


def _parse(name: str, data: bytes, start: int, pattern: re.Pattern[bytes]) -> _Table:
    """Check all lines from the byte `start` on, and convert their numbers.

    Raises EmulationError if a line is damaged.
    """
    matched = pattern.match(data, start)
    end = matched.end() if matched else start
    if end < len(data):
        raise _damaged(name, data, end, _expected(data, end, pattern))
    text = data[start:]
    if text.startswith(b"#") or b"\n#" in text:
        text = _COMMENTS.sub(b"", text)
    for kind, code in _CODES.items():
        text = text.replace(kind, code)
    return _Table(text)


def _expected(data: bytes, at: int, pattern: re.Pattern[bytes]) -> str:
    line, newline, _ = data[at:].partition(b"\n")
    if not newline and pattern.match(line + b"\n").end() > len(line):  # type: ignore[union-attr]
        return "an end of line after the last event"
    words = line.split()
    allowed = [kind for kind in _FORMS if kind != b"d" or pattern is _LINK_LINES]
    if len(words) > 1 and words[1] in allowed:
        return _FORMS[words[1]]
    return " or ".join(_FORMS[kind] for kind in allowed)


class _Table:
    """The numbers in the lines of a log. The second number of each line is the code of its kind."""

    def __init__(self, text: bytes) -> None:
        characters = np.frombuffer(text, dtype=np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        spaces = np.searchsorted(np.flatnonzero(characters == ord(" ")), ends)
        # A line with n spaces has n + 1 numbers.
        counts = np.diff(spaces, prepend=0) + 1
        starts = np.cumsum(counts) - counts
        values = np.fromstring(text, dtype=np.float64, sep=" ") if text else np.zeros(0)
        codes = values[starts + 1]
        order = np.argsort(values[starts], kind="stable") if len(starts) else starts
        self._values = np.append(values, [0.0, 0.0])  # in place of missing optional numbers of the last line
        self._lines = [(starts[order][codes[order] == code], counts[order][codes[order] == code]) for code in range(4)]

    def _floats(self, code: int, at: int) -> Floats:
        values: Floats = self._values[self._lines[code][0] + at]
        return values

    def _ints(self, code: int, at: int) -> Ints:
        return self._floats(code, at).astype(np.int64)

    def _flow(self, code: int, at: int) -> Ints:
        return np.where(self._lines[code][1] > at, self._ints(code, at), 0)

    def capacity(self) -> Events:
        return Events(self._floats(0, 0), self._ints(0, 2))

    def entered(self) -> FlowEvents:
        return FlowEvents(self._floats(1, 0), self._ints(1, 2), self._flow(1, 3))

    def left(self) -> Departures:
        return Departures(self._floats(2, 0), self._ints(2, 2), self._floats(2, 3), self._flow(2, 4))

    def dropped(self) -> Drops:
        return Drops(self._floats(3, 0), self._ints(3, 2), self._ints(3, 3))
