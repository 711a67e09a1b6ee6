# SPDX-License-Identifier: MIT
"""Reads mm-link's log. It uses only the standard library.

    # init timestamp: 1795255711699     time at which the shell's own clock was 0, in ms since 1970
    # base timestamp: 36                time on this clock at which the trace began
    37 # 1504                           an opportunity of 1504 bytes, used or not
    40 + 1504                           a packet of 1504 bytes arrived at the queue, even if that was full
    40 d 1 1504                         1 packet was dropped, 1504 bytes in all (Debian's mm-link has no such lines)
    52 - 1504 12                        a packet of 1504 bytes left, 12 ms after it had arrived

The first number of a line is a time in whole ms of the shell's clock. Sizes are the IP length plus 4 bytes for the
header of the tun device. A delay ends when the packet's last byte has left, so it includes the packet's transmission.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TUN_BYTES = 4
# The headers of the tun device, IPv4 and TCP with all options. A packet up to this size is taken to carry no data.
_CONTROL_BYTES = TUN_BYTES + 20 + 60


class LogError(Exception):
    """The text is not a log of mm-link, or the log is incomplete."""


@dataclass
class LinkLog:
    """The log in columns. Times are in ms from the beginning of the trace, sizes are IP lengths.

    begun_at_ms: the beginning of the trace, in ms since 1970. of_acks: whether the log is that of the ACKs. It then
    has only packets without data (handshakes, ACKs). Otherwise these are left out.
    """

    begun_at_ms: int
    of_acks: bool = False
    opportunities_ms: list[int] = field(default_factory=list)
    arrivals_ms: list[int] = field(default_factory=list)
    departures_ms: list[int] = field(default_factory=list)
    departed_bytes: list[int] = field(default_factory=list)
    delays_ms: list[int] = field(default_factory=list)
    drops_ms: list[int] = field(default_factory=list)
    dropped_pkts: list[int] = field(default_factory=list)

    def add(self, words: list[str], base_ms: int) -> None:
        """Add the words of a line that is not a comment."""
        at_ms, kind, amount = int(words[0]) - base_ms, words[1], int(words[2])
        if kind == "#":
            self.opportunities_ms.append(at_ms)
        elif kind == "d":
            self.drops_ms.append(at_ms)
            self.dropped_pkts.append(amount)
        elif (amount <= _CONTROL_BYTES) != self.of_acks:
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
    """Return the init and base timestamps of a log, or None while its header is incomplete."""
    found: dict[str, int] = {}
    for line in text.splitlines(keepends=True):
        for name in ("init", "base"):
            if line.startswith(f"# {name} timestamp:") and line.endswith("\n"):
                found[name] = int(line.split()[-1])
    return (found["init"], found["base"]) if len(found) == 2 else None


def read_log(text: str, *, of_acks: bool = False) -> LinkLog:
    """Read a complete log, that of the data or that of the ACKs.

    Raises:
        LogError: there is no header, or a line is invalid. The message names the line.
    """
    stamps = header(text)
    if stamps is None:
        raise LogError("expected the log of mm-link with its init and base timestamps, got none")
    log = LinkLog(begun_at_ms=sum(stamps), of_acks=of_acks)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        try:
            log.add(line.split(), stamps[1])
        except (IndexError, ValueError) as error:
            raise LogError(f"line {number}: expected such as `52 - 1504 12`, got {line!r}") from error
    return log
