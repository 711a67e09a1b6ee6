# SPDX-License-Identifier: MIT
"""Computes the delay of each packet of each flow from two captures of the same packets.

    inner capture   in the namespace of the innermost shell, at the senders' end of the path
    outer capture   outside of all shells, at the receivers' end of the path
    data link       inner -> outer, the packets from senders to receivers
    ACK link        outer -> inner, the packets from receivers to senders

Both captures use the clock of the same kernel. A packet is recognised by its IP identification, addresses, length and
the first bytes of its content. Its TTL and checksums are ignored, because they change on the path. Sizes are IP
lengths. A packet that is only in the first capture of its direction is lost, or was in flight at the end.

All packets of a direction leave in the order in which they entered, because Mahimahi's shells keep their order.
A packet is therefore lost if it has not left although a later one has. With this rule most equal packets can be
distinguished, for example if the IP identification has wrapped around.

Limit: consecutive equal packets without IP identification cannot be distinguished. If one of them is lost, the delays
of the equal packets after it are overestimated, until a different packet leaves.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.mahimahi.logs import Departures, Events, FlowEvents, TunnelLog, read_link_log

# The first two numbers of the addresses of all senders, and of all receivers. The third number is that of the flow.
NETWORKS = {"sender": "10.9", "receiver": "10.10"}

# The pcap format in this machine's byte order with times in ns, and the link types without a header before IP.
_MAGIC = 0xA1B23C4D
_RAW_IP = (12, 101)
_FILE_HEADER = struct.Struct("=IHHiIII")
_PACKET_HEADER = struct.Struct("=IIII")
_TCP, _UDP = 6, 17
# A capture may record packets of two senders in another order than the next shell receives them.
_REORDERED_MS = 1.0
DEPARTURE_COLUMNS = 4
# (offset, end) of the checksum in the transport header.
_CHECKSUMS = {_TCP: (16, 18), _UDP: (6, 8)}
_NUMBERS = {role: bytes(map(int, network.split("."))) for role, network in NETWORKS.items()}


class CaptureError(EmulationError):
    """A capture is damaged, or does not contain what it should."""


@dataclass
class _Direction:
    """Packets of one direction, in the order of the capture.

    entered: (time, bytes, flow). left: (time, bytes, delay, flow). waiting: times of entry, by the key of the packet.
    """

    entered: list[tuple[float, int, int]] = field(default_factory=list)
    left: list[tuple[float, int, float, int]] = field(default_factory=list)
    waiting: dict[bytes, deque[float]] = field(default_factory=lambda: defaultdict(deque))


def _packets(file: Path) -> Iterator[tuple[float, bytes]]:
    """Yield (time in ms since 1970, first bytes) of each packet of a capture."""
    data = file.read_bytes()
    if len(data) < _FILE_HEADER.size or _FILE_HEADER.unpack_from(data)[0] != _MAGIC:
        raise CaptureError(f"{file.name}: expected a capture of tcpdump with times in ns, got other data")
    if (link_type := _FILE_HEADER.unpack_from(data)[6]) not in _RAW_IP:
        raise CaptureError(f"{file.name}: expected packets that begin with the IP header, got link type {link_type}")
    at, read = _FILE_HEADER.size, _PACKET_HEADER.unpack_from
    while at + _PACKET_HEADER.size <= len(data):
        seconds, ns, captured, _ = read(data, at)
        at += _PACKET_HEADER.size
        if at + captured > len(data):
            return  # the last packet was not written completely
        yield seconds * 1000 + ns / 1e6, data[at : at + captured]
        at += captured


def _key(packet: bytes) -> bytes:
    """Return the bytes that identify a packet: they are equal in both captures, and differ between packets."""
    header_bytes = (packet[0] & 15) * 4
    first, last = _CHECKSUMS.get(packet[9], (0, 0))
    content = packet[header_bytes:]
    return packet[2:8] + packet[12:20] + content[:first] + content[last:]


def _flow_of(packet: bytes) -> tuple[int, bool] | None:
    """Return the number of the packet's flow, and whether it goes to the receiver; None if it belongs to no flow."""
    source, target = packet[12:14], packet[16:18]
    if source == _NUMBERS["sender"] and target == _NUMBERS["receiver"]:
        return packet[14], True
    if source == _NUMBERS["receiver"] and target == _NUMBERS["sender"]:
        return packet[14], False
    return None


def _partner_ms(waiting: deque[float], newest_ms: float) -> float:
    """Remove and return the time at which a packet entered. Earlier times than newest_ms belong to lost packets.

    waiting: times of entry of equal packets. newest_ms: the latest time of entry of the packets that have left.
    """
    while len(waiting) > 1 and waiting[0] < newest_ms - _REORDERED_MS:
        waiting.popleft()
    return waiting.popleft()


def _read(inner: Path, outer: Path, *, end_ms: float) -> dict[bool, _Direction]:
    """Return the packets of both directions; True is the direction to the receivers.

    end_ms: the end of the run, since 1970. The captures do not end at the same time, so packets after the end of the
    run may be in one capture only.
    """
    found = {True: _Direction(), False: _Direction()}
    for enters_here, file in ((True, inner), (False, outer)):
        for at_ms, packet in _packets(file):
            flow = _flow_of(packet)
            if flow is not None and flow[1] == enters_here:
                direction = found[enters_here]
                direction.entered.append((at_ms, int.from_bytes(packet[2:4], "big"), flow[0]))
                direction.waiting[_key(packet)].append(at_ms)
    for leaves_here, file in ((False, inner), (True, outer)):
        direction, newest_ms = found[leaves_here], 0.0
        for at_ms, packet in _packets(file):
            flow = _flow_of(packet)
            if flow is None or flow[1] != leaves_here:
                continue
            entered = direction.waiting.get(_key(packet))
            if not entered:
                if at_ms > end_ms:
                    continue
                raise CaptureError(f"{file.name}: expected each packet in both captures, got one that never entered")
            entered_ms = _partner_ms(entered, newest_ms)
            newest_ms = max(newest_ms, entered_ms)
            direction.left.append((at_ms, int.from_bytes(packet[2:4], "big"), at_ms - entered_ms, flow[0]))
    return found


def tunnel_logs(folder: Path, *, begins_ms: float, runtime_s: float) -> dict[str, TunnelLog]:
    """Return the logs of a run, under the names `datalink` and `acklink`.

    folder: contains inner.pcap, outer.pcap and mm-link's logs uplink.log and downlink.log. begins_ms: when the run
    began, since 1970. Events before the beginning and after the end of the run are left out.

    Raises EmulationError if a file is damaged.
    """
    end_ms = begins_ms + runtime_s * 1000
    directions = _read(folder / "inner.pcap", folder / "outer.pcap", end_ms=end_ms)
    logs = {}
    for name, to_receiver, link_log in (("datalink", True, "uplink.log"), ("acklink", False, "downlink.log")):
        opened = read_link_log(folder / link_log)
        capacity_ms = (opened.init_ms or 0.0) + opened.capacity.times_ms
        capacity_ms = capacity_ms[(capacity_ms >= begins_ms) & (capacity_ms <= end_ms)] - begins_ms
        entered = [row for row in directions[to_receiver].entered if begins_ms <= row[0] <= end_ms]
        left = [row for row in directions[to_receiver].left if begins_ms <= row[0] <= end_ms]
        logs[name] = TunnelLog(
            init_ms=begins_ms,
            capacity=Events(capacity_ms, np.full(len(capacity_ms), 1500)),
            entered=FlowEvents(*_columns(entered, begins_ms, 3)),
            left=Departures(*_columns(left, begins_ms, DEPARTURE_COLUMNS)),
        )
    return logs


def _columns(rows: Sequence[tuple[float, ...]], begins_ms: float, width: int) -> list[NDArray[Any]]:
    """Return rows of (time, bytes, [delay], flow) as columns, with times since the beginning of the run."""
    columns = [np.asarray(column) for column in zip(*rows, strict=True)] or [np.empty(0) for _ in range(width)]
    times = columns[0].astype(np.float64) - begins_ms
    delays = [column.astype(np.float64) for column in columns[2:-1]] if width == DEPARTURE_COLUMNS else []
    return [times, columns[1].astype(np.int64), *delays, columns[-1].astype(np.int64)]
