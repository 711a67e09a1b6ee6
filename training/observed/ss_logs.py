# SPDX-License-Identifier: MIT
"""Reads logs of `ss -tin`, of iproute2 4.x to 6.x.

A log is a time before each list of connections, as seconds since 1970 or in ISO 8601:

    while sleep 0.2; do date +%s.%N; ss -tin; done > connections.log

Each connection has one line (-O) or two. The options -e, -m, -o, -p, -a and -H change nothing that is read here. ss
leaves out numbers that are 0, and older versions do not have all of them: a number that no line of the log has is
unknown if the version may not have it, else 0.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from training.errors import TrainingError

HOW = "make a log with: while sleep 0.2; do date +%s.%N; ss -tin; done > connections.log"
_SECONDS = re.compile(r"[0-9]{9,11}(\.[0-9]{1,9})?")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{5,8}.*")
_HEADINGS = ("State", "Netid", "Recv-Q")
_SENDING = frozenset({"ESTAB", "FIN-WAIT-1", "CLOSE-WAIT", "LAST-ACK", "CLOSING"})
_OTHERS = frozenset({"LISTEN", "UNCONN", "SYN-SENT", "SYN-RECV", "FIN-WAIT-2", "TIME-WAIT", "CLOSED"})
_NETIDS = frozenset({"tcp", "udp", "raw", "sctp", "mptcp", "dccp"})
_OPTIONS = frozenset({"ts", "sack", "ecn", "ecnseen", "fastopen"})
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_GROWING = ("bytes_acked", "total_retrans_pkts")


def _whole(text: str) -> int:
    return int(text)


def _ms(text: str) -> int:
    return round(float(text) * 1000)


def _busy_ms(text: str) -> int:
    """For instance 120ms(5.0%)."""
    number, unit, _ = text.partition("ms")
    if not unit:
        raise ValueError(text)
    return int(number) * 1000


# What ss calls a number: the columns that it fills, each with what reads it. Names are those of kmod's observations.
_FIELDS: dict[str, tuple[tuple[str, Callable[[str], int]], ...]] = {
    "bytes_acked": (("bytes_acked", _whole),),
    "bytes_sent": (("bytes_sent", _whole),),
    "unacked": (("unacked_pkts", _whole),),
    "sacked": (("sacked_pkts", _whole),),
    "lost": (("lost_pkts", _whole),),
    "retrans": (
        ("retrans_pkts", lambda text: int(text.split("/")[0])),
        ("total_retrans_pkts", lambda text: int(text.split("/")[1])),
    ),
    "dsack_dups": (("dsack_dups_pkts", _whole),),
    "notsent": (("notsent_bytes", _whole),),
    "cwnd": (("snd_cwnd_pkts", _whole),),
    "mss": (("snd_mss_bytes", _whole),),
    "rtt": (("rtt_us", lambda text: _ms(text.split("/")[0])),),
    "minrtt": (("min_rtt_us", _ms),),
    "busy": (("busy_us", _busy_ms),),
    "rwnd_limited": (("rwnd_limited_us", _busy_ms),),
    "sndbuf_limited": (("sndbuf_limited_us", _busy_ms),),
}
# Columns that are 0 where a version of ss that prints the mark leaves them out. "": every version prints them.
_ZERO_WITH: dict[str, tuple[str, ...]] = {
    "": ("bytes_acked", "unacked_pkts", "sacked_pkts", "lost_pkts", "retrans_pkts", "total_retrans_pkts"),
    "busy": ("busy_us", "rwnd_limited_us", "sndbuf_limited_us", "notsent_bytes", "is_app_limited"),
    "delivery_rate": ("is_app_limited",),
    "notsent": ("notsent_bytes",),
    "minrtt": ("min_rtt_us",),
    "dsack_dups": ("dsack_dups_pkts",),
}


@dataclass(eq=False)
class SsFlow:
    """A connection of a log. times_us: since 1970. columns: a value for each time."""

    name: str
    algorithm: str = ""
    times_us: list[int] = field(default_factory=list)
    rows: list[dict[str, int]] = field(default_factory=list)
    columns: dict[str, list[int]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def looks_like_ss(start: bytes) -> bool:
    """Whether the text, of which this is the start, has a line of ss about a connection."""
    text = start.decode("ascii", "replace")
    return any(_socket(line) is not None for line in text.splitlines()[:200])


def read_ss(content: bytes, *, source: str) -> list[SsFlow]:
    """Return the connections of a log that may send data. Raises TrainingError, with the number of the line."""
    if b"\0" in content or not content.strip():
        what = "a binary file" if content.strip() else "an empty file"
        raise TrainingError(f"{source}: expected a log of ss, got {what}; {HOW}")
    log = _Log(source)
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        log.take(number, line)
    return log.flows(is_cut=not content.endswith(b"\n"))


def _time_us(text: str) -> int | None:
    """Return a time of day as us since 1970, or None if the text is none."""
    if _SECONDS.fullmatch(text):
        whole, _, part = text.partition(".")
        return int(whole) * 1_000_000 + int(part.ljust(6, "0")[:6] or 0)
    if not _ISO.fullmatch(text):
        return None
    # `date --iso-8601=ns` writes nine digits, after a comma.
    text = re.sub(r"[.,]([0-9]{1,6})[0-9]*", lambda match: "." + match[1].ljust(6, "0"), text)
    try:
        return round(datetime.datetime.fromisoformat(text).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return None


def _socket(line: str) -> tuple[str, str, list[str]] | None:
    """Return the state, the name of the ends, and what follows; None for a line that is not of a socket."""
    if line[:1].isspace():
        return None
    parts = line.split()
    if parts and parts[0] in _NETIDS:
        del parts[0]
    state = "ESTAB"  # `ss state ...` leaves the column out
    if parts and not parts[0].isdigit():
        state = parts.pop(0)
    if len(parts) < 4 or not parts[0].isdigit() or not parts[1].isdigit() or ":" not in parts[2]:
        return None
    return (state, f"{parts[2]} > {parts[3]}", parts[4:]) if state in _SENDING | _OTHERS else None


class _Log:
    """Takes the lines of a log."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._time_us: int | None = None
        self._n_times = 0
        self._n_without_time = 0
        self._has_sockets = False
        self._last: tuple[int, str, list[str]] | None = None  # line, name and words of the present socket
        self._open: dict[str, SsFlow] = {}
        self._done: list[SsFlow] = []
        self._seen: set[str] = set()

    def _error(self, number: int, expected: str, got: str) -> TrainingError:
        return TrainingError(f"{self._source}: line {number}: expected {expected}, got {got:.200}")

    def take(self, number: int, line: str) -> None:
        """Take a line."""
        text = line.strip()
        if not text:
            return
        if line[:1].isspace() and self._has_sockets:
            # Details of a socket in a state that does not send are passed over.
            if self._last is not None:
                self._last[2].extend(text.split())
            return
        time_us = _time_us(text)
        if time_us is not None:
            self._begin_list(number, time_us, text)
        elif text.split()[0] in _HEADINGS:
            self._end_socket()
        else:
            found = _socket(line)
            if found is None:
                raise self._error(number, "a time, a heading or a connection of ss", f"{text[:40]!r}; {HOW}")
            self._end_socket()
            self._has_sockets = True
            if found[0] in _SENDING:
                self._last = number, found[1], found[2]

    def _begin_list(self, number: int, time_us: int, text: str) -> None:
        self._end_socket()
        if self._time_us is not None and time_us <= self._time_us:
            raise self._error(number, "a later time than the one before (`date +%s.%N`)", repr(text))
        self._time_us = time_us
        self._n_times += 1

    def _end_socket(self) -> None:
        """Keep the present socket's row."""
        if self._last is None:
            return
        number, name, words = self._last
        self._last = None
        if self._time_us is None:
            self._n_without_time += 1
            return
        row, algorithm, key = self._details(number, name, words)
        if "snd_mss_bytes" not in row:
            return
        flow = self._open.get(key)
        if flow is not None and any(row.get(name, 0) < flow.rows[-1].get(name, 0) for name in _GROWING):
            # A new connection with the same addresses.
            self._done.append(self._open.pop(key))
            flow = None
        if flow is None:
            flow = self._open[key] = SsFlow(name)
        flow.algorithm = algorithm or flow.algorithm
        if flow.times_us and flow.times_us[-1] == self._time_us:
            flow.rows[-1] = row
        else:
            flow.times_us.append(self._time_us)
            flow.rows.append(row)

    def _details(self, number: int, name: str, words: list[str]) -> tuple[dict[str, int], str, str]:
        """Return the numbers of a socket, its algorithm, and what names the socket."""
        row: dict[str, int] = {}
        algorithm, is_before_numbers, key = "", True, name
        for word in words:
            field_name, colon, value = word.partition(":")
            if not colon:
                if word == "app_limited":
                    row["is_app_limited"] = 1
                elif word == "delivery_rate":
                    self._seen.add(word)
                elif is_before_numbers and word not in _OPTIONS and _NAME.fullmatch(word):
                    algorithm = word
                continue
            if field_name in {"wscale", "rto"}:
                is_before_numbers = False
            elif field_name == "sk":
                key = f"{name} {value}"
            for column, read in _FIELDS.get(field_name, ()):
                try:
                    row[column] = read(value)
                    if not 0 <= row[column] < 1 << 62:
                        raise ValueError(value)
                except (ValueError, IndexError, OverflowError) as error:
                    raise self._error(number, f"a number of {field_name}", repr(word)) from error
                self._seen.add(field_name)
        return row, algorithm, key

    def flows(self, *, is_cut: bool) -> list[SsFlow]:
        """Return the connections. is_cut: the last line is not whole. Raises TrainingError."""
        cut_us = self._time_us if is_cut else None
        if is_cut:
            self._last = None
        self._end_socket()
        self._require_useful()
        remarks = []
        if cut_us is not None:
            remarks.append("The log ends within a line. Its last output of ss is left out.")
        if self._n_without_time:
            remarks.append("The first output of ss has no time, and is left out.")
        found = []
        for flow in [*self._done, *self._open.values()]:
            if cut_us is not None and flow.times_us[-1] == cut_us:
                flow.times_us.pop()
                flow.rows.pop()
            if flow.rows:
                self._fill(flow)
                flow.remarks = tuple(remarks)
                found.append(flow)
        return found

    def _require_useful(self) -> None:
        if not self._has_sockets:
            raise TrainingError(f"{self._source}: expected TCP connections of ss, found none; {HOW}")
        if not self._n_times:
            raise TrainingError(f"{self._source}: expected a time before each list of ss, found none; {HOW}")
        if not self._open and not self._done:
            raise TrainingError(
                f"{self._source}: expected the details of connections, which `ss -i` prints, found none; {HOW}"
            )
        if "bytes_acked" not in self._seen:
            raise TrainingError(
                f"{self._source}: expected bytes_acked of a connection, found none: either no connection sent data, or "
                "ss is older than iproute2 4.1; update iproute2, or use `ccatune observe`"
            )

    def _fill(self, flow: SsFlow) -> None:
        """Make columns of a connection's rows."""
        zero = {column for mark, columns in _ZERO_WITH.items() if not mark or mark in self._seen for column in columns}
        for column in zero | {"rtt_us", "snd_cwnd_pkts", "snd_mss_bytes"}:
            flow.columns[column] = [row.get(column, 0) for row in flow.rows]
