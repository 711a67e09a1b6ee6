# SPDX-License-Identifier: MIT
"""Reads mm-link's log; the standard library alone.

    # init timestamp: 1795255711699     ms since 1970 at which the shell's own clock read 0
    # base timestamp: 36                its clock when the trace began
    37 # 1504                           an opportunity of that many bytes, used or not
    40 + 1504                           a packet came to the queue, or to the full queue
    40 d 1 1504                         so many packets and bytes were dropped (newer than Debian's mm-link)
    52 - 1504 12                        a packet left, that many ms after it had come

Times are whole ms of the shell's clock. A packet counts 4 bytes more than its IP length (the header of the tun
device). A delay ends when the packet's last byte has left, so it contains the packet's own transmission.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TUN_BYTES = 4
# The longest headers of IPv4 and TCP behind the tun device's: a packet up to this size carries no data.
_CONTROL_BYTES = TUN_BYTES + 20 + 60


class LogError(Exception):
    """Text that is no log of mm-link, or one that ended early."""


@dataclass
class LinkLog:
    """The log in columns; times in ms from the trace's beginning, bytes as IP counts them.

    begun_at_ms: the trace's beginning since 1970. Packets without data (handshakes, pure ACKs) are left out.
    """

    begun_at_ms: int
    opportunities_ms: list[int] = field(default_factory=list)
    arrivals_ms: list[int] = field(default_factory=list)
    departures_ms: list[int] = field(default_factory=list)
    departed_bytes: list[int] = field(default_factory=list)
    delays_ms: list[int] = field(default_factory=list)
    drops_ms: list[int] = field(default_factory=list)
    dropped_pkts: list[int] = field(default_factory=list)

    def add(self, words: list[str], base_ms: int) -> None:
        """Take a line that is no comment."""
        at_ms, kind, amount = int(words[0]) - base_ms, words[1], int(words[2])
        if kind == "#":
            self.opportunities_ms.append(at_ms)
        elif kind == "d":
            self.drops_ms.append(at_ms)
            self.dropped_pkts.append(amount)
        elif amount <= _CONTROL_BYTES:
            return
        elif kind == "+":
            self.arrivals_ms.append(at_ms)
        elif kind == "-":
            self.departures_ms.append(at_ms)
            self.departed_bytes.append(amount - TUN_BYTES)
            self.delays_ms.append(int(words[3]))
        else:
            raise ValueError(kind)


def header(text: str) -> tuple[int, int] | None:
    """(init timestamp, base timestamp) of a log's beginning; None where it is not all there yet."""
    found: dict[str, int] = {}
    for line in text.splitlines(keepends=True):
        for name in ("init", "base"):
            if line.startswith(f"# {name} timestamp:") and line.endswith("\n"):
                found[name] = int(line.split()[-1])
    return (found["init"], found["base"]) if len(found) == 2 else None


def read_log(text: str) -> LinkLog:
    """Read a whole log.

    Raises:
        LogError: no header, or a line of another kind; names the line.
    """
    stamps = header(text)
    if stamps is None:
        raise LogError("expected the log of mm-link with its init and base timestamps, got none")
    log = LinkLog(begun_at_ms=sum(stamps))
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        try:
            log.add(line.split(), stamps[1])
        except (IndexError, ValueError) as error:
            raise LogError(f"line {number}: expected such as `52 - 1504 12`, got {line!r}") from error
    return log
