# SPDX-License-Identifier: MIT
"""Reads captures: pcap and pcapng, also within gzip or xz.

    capture_file.py   records of the file
    packets.py        the TCP header of a frame
    scoreboard.py     what is outstanding of a sender
    directions.py     the flow of one direction of a connection

A proxy that was captured on both sides has two connections, and each one is a flow of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kmod.terminal import counted
from training.errors import TrainingError
from training.observed.capture_file import CaptureFile
from training.observed.directions import Connection, Handshake, data_packets, flow_of
from training.observed.flow import Flow
from training.observed.packets import ACK, SYN, Segment, end_name, segment_of

LEAST_PKTS = 10
_MAGICS = (
    b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a",
    b"\x1f\x8b", b"\xfd7zX",
)  # fmt: skip
# From a step of the clock on, or after such a silence, packets count as those of another connection.
STEP_BACK_US, SILENCE_US = 10**6, 3600 * 10**6
_EVERY = 20_000  # packets between two reports of progress


@dataclass(frozen=True)
class Capture:
    """flows: in order of their first packet. packets: all of the file. remarks: on the whole file, a sentence each."""

    flows: list[Flow]
    packets: int
    remarks: tuple[str, ...]


def is_capture(path: Path) -> bool:
    """Whether the file begins like a capture or like an archive of one."""
    with path.open("rb") as file:
        return file.read(4).startswith(_MAGICS)


def read_capture(
    path: Path, *, least_pkts: int = LEAST_PKTS, advance: Callable[[int], None] = lambda _: None
) -> Capture:
    """Read the flows of a capture: the directions of its TCP connections that have at least so many packets of data.

    advance: is called with the number of packets read since the last call.

    Raises:
        TrainingError: the file is no capture, is damaged at its beginning, or has no flow.
    """
    file, left_out = CaptureFile(path), Counter[str]()
    connections = _connections(file, left_out, advance)
    if not connections:
        reasons = _reasons(left_out) or "no packet"
        raise TrainingError(f"{path}: expected TCP connections, got {reasons}")
    flows, small, silent, names = [], 0, 0, Counter[str]()
    for connection in connections:
        packets = [data_packets(connection.packets(), direction) for direction in (0, 1)]
        small += 0 < max(packets) < least_pkts
        for direction in (0, 1):
            if packets[direction] >= least_pkts:
                flow = flow_of(connection, direction, name=_name(connection, direction, names), path=path)
                flows += [] if flow is None else [flow]
                silent += flow is None
        connection.rows.clear()
    remarks = [*file.remarks, *_remarks(left_out, small, silent, least_pkts)]
    if not flows:
        raise TrainingError(f"{path}: expected a flow with data and its ACKs, got none. {' '.join(remarks)}".strip())
    return Capture(sorted(flows, key=lambda flow: flow.start_s), file.records, tuple(remarks))


def _connections(file: CaptureFile, left_out: Counter[str], advance: Callable[[int], None]) -> list[Connection]:
    """All connections, in order of their first packet."""
    found: list[Connection] = []
    current: dict[bytes, tuple[Connection, int]] = {}
    before_us = 0
    for number, record in enumerate(file, 1):
        if number % _EVERY == 0:
            advance(_EVERY)
        segment = segment_of(record.link_type, record.frame, record.wire_bytes, left_out)
        if record.time_us < before_us - STEP_BACK_US:
            file.remarks.append(
                f"The clock steps back by {(before_us - record.time_us) / 1e6:.1f} s after {number - 1} packets: flows "
                "are cut there."
            )
            current.clear()
            before_us = record.time_us
        before_us = max(before_us, record.time_us)
        if segment is None:
            continue
        key = segment.source + segment.target
        place = current.get(key)
        if place is None or (segment.flags & SYN and _is_new(*place, segment)) or _is_late(place[0], record.time_us):
            connection = Connection((segment.source, segment.target))
            found.append(connection)
            place = current[key] = (connection, 0)
            current[segment.target + segment.source] = (connection, 1)
        _add(*place, segment, record.time_us)
    return found


def _is_new(connection: Connection, direction: int, segment: Segment) -> bool:
    """Whether a SYN opens another connection between the same ends."""
    handshake = connection.handshakes[direction]
    if handshake is not None:
        return handshake.seq != segment.seq
    return not segment.flags & ACK and len(connection.rows) > 0


def _is_late(connection: Connection, time_us: int) -> bool:
    """Whether the connection was silent for so long that it counts as another one."""
    return time_us - connection.last_us > SILENCE_US and bool(connection.rows)


def _add(connection: Connection, direction: int, segment: Segment, time_us: int) -> None:
    options = segment.options
    connection.last_us = time_us
    connection.options_cut |= options.cut
    if segment.flags & SYN and connection.handshakes[direction] is None:
        connection.handshakes[direction] = Handshake(segment.seq, time_us, options.mss_bytes, options.scale)
    elif segment.flags & ACK:
        peer = connection.handshakes[1 - direction]
        if peer is not None and not peer.acked_us:
            peer.acked_us = time_us
    connection.rows += segment.row(time_us, direction)


def _name(connection: Connection, direction: int, names: Counter[str]) -> str:
    """The ends of a direction; with a number if there was one with these ends before."""
    source, target = connection.ends if direction == 0 else connection.ends[::-1]
    name = f"{end_name(source)} > {end_name(target)}"
    names[name] += 1
    return f"{name} ({names[name]})" if names[name] > 1 else name


def _reasons(left_out: Counter[str]) -> str:
    return ", ".join(f"{counted(count, 'packet')} {reason}" for reason, count in left_out.most_common())


def _remarks(left_out: Counter[str], small: int, silent: int, least_pkts: int) -> list[str]:
    words = []
    if left_out:
        words.append(f"Left out: {_reasons(left_out)}.")
    if small:
        words.append(f"Left out: {counted(small, 'connection')} with fewer than {least_pkts} packets of data.")
    if silent:
        words.append(
            f"Left out: {counted(silent, 'direction')} whose ACKs were not captured. Capture both directions of a "
            "connection."
        )
    return words
