# SPDX-License-Identifier: MIT
"""Files of observations: samples of TCP connections, which `ccatune observe` writes and training reads.

A file is gzip of lines of ASCII text. `zcat` shows it. The first line is JSON, with the keys of `Facts` and

    observations   1, the version of this format
    session, file  a random name of the run that wrote the file, and the file's number in it, from 0
    start_s        time of day when the file begins, in seconds since 1970
    begin_us       time of the session when the file begins; all times are us of a clock that is never set
    columns        {"a": "bytes_acked", ...}: the letter of each column that this kernel has, in the order of COLUMNS
    missing        names of the columns that this kernel does not have

and each further line is one of

    t DELTA                  a sample of all connections, or of one ACK, so many us after the previous sample
    f ID {...}               a connection, with the keys of `Ends`; all its columns are 0 until its next row
    ID a1448 c-2 ...         its row in this sample: for each column that changed its letter and the difference
    e ID WORD                it is no longer sampled, and why: closed, or left_out
    d MATCHING SAMPLED NEW OPENED LEFT_OUT
                             a list of all connections was read: how many match the filters, how many of them are
                             sampled, how many were not in the list before it, how many the network namespace opened
                             since then (also those that do not match), and how many are sampled by no means because
                             too many are

A connection without a row in a sample did not change. Each file names its connections anew, with their values, so that
it can be read without those before it. Numbers of connections are unique within a session.

A file is `observe-TIME-SESSION-NUMBER.gz`, and has `.part` at its end while it is written. The writer makes what it
wrote readable every few seconds. A killed process therefore loses only the last seconds, and its file stays readable.
"""

from __future__ import annotations

import io
import json
import re
import time
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from kmod.errors import CcatuneError

VERSION: Final = 1
SUFFIX: Final = ".gz"
UNFINISHED: Final = SUFFIX + ".part"
# The letter of each column, its name, and the place in the kernel's struct tcp_info that it is read from: the offset,
# and the code of `struct`. Columns of BBR and Vegas come from other structures, and the last one from samples of ACKs.
COLUMNS: Final[tuple[tuple[str, str, int, str], ...]] = (
    ("a", "bytes_acked", 120, "Q"),
    ("s", "bytes_sent", 200, "Q"),
    ("R", "bytes_retrans", 208, "Q"),
    ("d", "delivered_pkts", 192, "I"),
    ("u", "unacked_pkts", 24, "I"),
    ("k", "sacked_pkts", 28, "I"),
    ("l", "lost_pkts", 32, "I"),  # taken for lost and not yet acknowledged
    ("x", "retrans_pkts", 36, "I"),  # retransmitted and not yet acknowledged
    ("X", "total_retrans_pkts", 100, "I"),
    ("D", "dsack_dups_pkts", 216, "I"),
    ("o", "reordering_pkts", 88, "I"),
    ("n", "notsent_bytes", 144, "I"),
    ("c", "snd_cwnd_pkts", 80, "I"),
    ("S", "snd_mss_bytes", 16, "I"),
    ("r", "rtt_us", 68, "I"),  # smoothed
    ("m", "min_rtt_us", 148, "I"),
    ("v", "delivery_rate_bytes_per_s", 160, "Q"),  # three significant digits
    ("p", "is_app_limited", 7, "B"),  # the lowest bit: of the delivery rate
    ("b", "busy_us", 168, "Q"),
    ("w", "rwnd_limited_us", 176, "Q"),
    ("f", "sndbuf_limited_us", 184, "Q"),
    ("C", "ca_state", 1, "B"),  # 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss
    ("B", "bbr_bw_bytes_per_s", -1, ""),
    ("M", "bbr_min_rtt_us", -1, ""),
    ("G", "bbr_pacing_gain_q8", -1, ""),
    ("H", "bbr_cwnd_gain_q8", -1, ""),
    ("V", "vegas_rtt_us", -1, ""),
    ("W", "vegas_min_rtt_us", -1, ""),
    ("L", "last_rtt_us", -1, ""),  # of the packet sent last among those that the ACK delivered
)
NAMES: Final = tuple(name for _, name, _, _ in COLUMNS)
_N = len(NAMES)
ZEROS: Final = (0,) * _N
GZIP_BITS: Final = 31  # a window of 32 KiB, in the format of gzip
_PIECE_BYTES = 1 << 18
_MAX_LINE_BYTES = 1 << 16
_MAX_TIME_S = 1 << 36
_NAME = re.compile(r"observe-[0-9T]+Z-[0-9a-f]+-[0-9]+\.gz(\.part)?")
_CHANGE = re.compile(r"([A-Za-z])(-?[0-9]{1,20})")


class ObservationError(CcatuneError):
    """A file of observations cannot be read. The message names the file, and what was expected and found."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What was sampled. The header has it in each file.

    every_ms: time between two samples. find_s: time between two lists of connections, in which new ones are found.
    share: of the connections that is sampled. addresses: what was done to them, in words. ports: local ports, and
    algorithms: their names, to which the sampling was limited; none for all. version: of the program.
    acks_per_s: most samples of single ACKs in a second; 0: there are none.
    """

    every_ms: int
    find_s: float
    share: float
    addresses: str
    ports: Sequence[int] = ()
    algorithms: Sequence[str] = ()
    version: str = ""
    acks_per_s: int = 0


@dataclass(frozen=True, kw_only=True)
class Ends:
    """A connection's ends. local, peer: addresses as the facts say. peer_port: 0 if it was left out.

    is_new: whether it began after the sampling. Of another one, what it did before is unknown.
    """

    local: str
    local_port: int
    peer: str
    peer_port: int = 0
    algorithm: str = ""
    is_new: bool = False


@dataclass(eq=False)
class Observed:
    """A connection as it was sampled.

    times_us: of the session, ascending. values: those of all NAMES at the first time, then at the second, and so on.
    A time at which nothing had changed is left out, unless it is the last one before a change or the end.
    ended: why, or "" if the files end before.
    """

    session: str
    number: int
    ends: Ends
    start_s: float
    facts: Facts
    missing: frozenset[str]
    times_us: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))
    ended: str = ""

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The values of each time, for short connections."""
        return [tuple(self.values[at : at + _N]) for at in range(0, len(self.values), _N)]

    @property
    def last(self) -> tuple[int, ...]:
        """The values of the last time."""
        return tuple(self.values[-_N:])

    def put(self, time_us: int, row: tuple[int, ...]) -> None:
        """Add values, or replace those of the last time. Raises ValueError for an earlier time."""
        if self.times_us and self.times_us[-1] == time_us:
            del self.values[-_N:]
        elif self.times_us and self.times_us[-1] > time_us:
            raise ValueError(f"time {time_us} after {self.times_us[-1]}")
        else:
            self.times_us.append(time_us)
        self.values.extend(row)


@dataclass
class Observations:
    """All connections of some files. is_cut: whether a file ends within a line, as after a crash.

    found, opened: new connections in the lists that were read, and those that the server opened meanwhile. Shorter
    ones than the time between two lists are missing among those found. has_acks: whether a file has samples of ACKs.
    """

    flows: list[Observed] = field(default_factory=list)
    is_cut: bool = False
    found: int = 0
    opened: int = 0
    has_acks: bool = False


def files_in(folder: Path) -> list[Path]:
    """Return the folder's files of observations, also unfinished ones, from the oldest to the newest."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file())


def is_observations(start: bytes) -> bool:
    """Whether a file that begins with these bytes, 512 if it has as many, is one of observations."""
    try:
        return zlib.decompressobj(GZIP_BITS).decompress(start, 64).startswith(b'{"observations":')
    except zlib.error:
        return False


def read_observations(paths: Sequence[Path]) -> Observations:
    """Return the connections in some files. Files of one session are joined, in any order of the paths.

    Raises ObservationError for a file that is damaged elsewhere than at its end, and OSError.
    """
    result = Observations()
    contents = [_Content(path) for path in paths]
    result.is_cut = any(not content.header for content in contents)
    contents = [content for content in contents if content.header]
    contents.sort(key=lambda one: (one.start_s, one.header["session"], one.header["file"]))
    found: dict[tuple[str, int], Observed] = {}
    for content in contents:
        result.has_acks = result.has_acks or content.facts.acks_per_s > 0
        _Reading(content, found, result).read()
        result.is_cut = result.is_cut or content.is_cut
    result.flows = [one for one in found.values() if one.times_us]
    return result


def file_name(start_s: float, session: str, number: int) -> str:
    """Return the name of a finished file, from its header."""
    return f"observe-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(start_s))}-{session}-{number:06}{SUFFIX}"


def begin_of(content: bytes, *, name: str) -> tuple[float, str]:
    """Return when a file begins, in seconds since 1970, and what it is called in a folder of `observe`.

    Reads its header alone. name: for errors. Raises ObservationError.
    """
    found = _Content(Path(name), content)
    begin_s = found.start_s + found.begin_us / 1e6 if found.header else -1
    own_name = file_name(begin_s, found.session, found.header["file"]) if 0 <= begin_s < _MAX_TIME_S else ""
    if not _NAME.fullmatch(own_name):
        raise found.error(1, "the header of a file of observations", "another one, or a part of it")
    return begin_s, own_name


class _Content:
    """A file. Its header is read at once, the other lines when they are needed."""

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Open a file, or take its content."""
        self.path = path
        self._open = path.open if content is None else lambda _mode: io.BytesIO(content)
        self.is_cut = False
        self.lines = self._lines()
        self.header: dict[str, Any] = {}
        first = next(self.lines, "" if self.is_cut else None)
        if first is None and not self.is_cut:
            raise self.error(1, "a first line", "none")
        if first:
            self._take_header(first)

    def _take_header(self, first: str) -> None:
        try:
            header = json.loads(first)
            if not isinstance(header, dict) or header.get("observations") != VERSION:
                raise self.error(1, f"observations of version {VERSION}", first[:60])
            # Files of earlier versions have no `acks_per_s`.
            known_facts = {one.name: header[one.name] for one in fields(Facts) if one.name != "acks_per_s"}
            self.facts = Facts(**known_facts, acks_per_s=_natural(header.get("acks_per_s", 0)))
            self.session = str(header["session"])
            self.begin_us = _natural(header["begin_us"])
            # Of the session, whose clock does not follow a time of day that is set.
            self.start_s = float(header["start_s"]) - self.begin_us / 1e6
            if not abs(self.start_s) < _MAX_TIME_S:
                raise ValueError(header["start_s"])
            self.missing = frozenset(map(str, header["missing"]))
            known = {name: number for number, name in enumerate(NAMES)}
            # Columns that a later version adds are passed over.
            self.places: dict[str, int | None] = {key: known.get(name) for key, name in header["columns"].items()}
            header["file"] = _natural(header["file"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self.error(1, "the header of a file of observations", f"{error!r:.80}") from error
        self.header = header

    def error(self, line: int, expected: str, got: str) -> ObservationError:
        return ObservationError(f"{self.path}: line {line}: expected {expected}, got {got}")

    def _lines(self) -> Iterator[str]:
        """Yield the whole lines. What follows the last one was cut off."""
        unpacker, rest, number = zlib.decompressobj(GZIP_BITS), b"", 0
        with self._open("rb") as file:
            while not unpacker.eof:
                packed = unpacker.unconsumed_tail or file.read(_PIECE_BYTES)
                if not packed:
                    self.is_cut = True
                    return
                try:
                    rest += unpacker.decompress(packed, _PIECE_BYTES)
                except zlib.error as error:
                    raise self.error(number + 1, "gzip", f"{error}; the file is damaged") from error
                *whole, rest = rest.split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    raise self.error(number + 1, f"lines of at most {_MAX_LINE_BYTES} bytes", "a longer one")
                number += len(whole)
                yield from (line.decode("ascii", "replace") for line in whole)
            if unpacker.unused_data or file.read(1):
                raise self.error(number + 1, "the end of the file", "more; read joined files one by one")


class _Reading:
    """Reads the lines of one file after its header."""

    def __init__(self, content: _Content, found: dict[tuple[str, int], Observed], result: Observations) -> None:
        self._content, self._found, self._result = content, found, result
        self._present: dict[int, Observed] = {}
        # Of the present sample, and of the one before it.
        self._time_us = self._before_us = content.begin_us

    def read(self) -> None:
        takes = {"t": self._tick, "f": self._flow, "e": self._end, "d": self._listed}
        for number, line in enumerate(self._content.lines, 2):
            kind, _, rest = line.partition(" ")
            try:
                take = takes.get(kind)
                if take is not None:
                    take(rest)
                else:
                    self._row(self._present[int(kind)], rest)
            except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
                raise self._content.error(number, "a line of observations", f"{line!r:.60} ({error!r:.80})") from error
        # A cut file may lack rows of its last sample.
        until_us = self._before_us if self._content.is_cut else self._time_us
        for one in self._present.values():
            if one.last == ZEROS:
                del one.times_us[-1:], one.values[-_N:]
            elif one.times_us[-1] < until_us:
                one.put(until_us, one.last)

    def _tick(self, rest: str) -> None:
        self._before_us, self._time_us = self._time_us, self._time_us + _natural(rest)

    def _flow(self, rest: str) -> None:
        text, _, data = rest.partition(" ")
        ends = Ends(**json.loads(data))
        if not all(isinstance(part, str) for part in (ends.local, ends.peer, ends.algorithm)):
            raise ValueError(data)
        content, number = self._content, int(text)
        new = Observed(content.session, number, ends, content.start_s, content.facts, content.missing)
        one = self._found.setdefault((content.session, number), new)
        one.ends = ends
        self._present[number] = one
        # The differences of the next line are from 0.
        one.put(self._time_us, ZEROS)

    def _end(self, rest: str) -> None:
        text, _, word = rest.partition(" ")
        one = self._present.pop(int(text))
        one.ended = word
        if one.times_us[-1] < self._before_us:
            one.put(self._before_us, one.last)

    def _listed(self, rest: str) -> None:
        _, _, new, opened, _ = map(_natural, rest.split(" "))
        self._result.found += new
        self._result.opened += opened

    def _row(self, one: Observed, changes: str) -> None:
        last = one.last
        values = list(last)
        for change in changes.split(" "):
            match = _CHANGE.fullmatch(change)
            if match is None:
                raise ValueError(change)
            place = self._content.places[match[1]]
            if place is not None:
                values[place] += int(match[2])
                if not 0 <= values[place] < 1 << 63:
                    raise ValueError(change)
        if one.times_us[-1] < self._before_us:
            one.put(self._before_us, last)
        one.put(self._time_us, tuple(values))


def _natural(text: str | int) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number
