# SPDX-License-Identifier: MIT
"""Makes a flow of the packets of one direction of a connection, as its sender saw them.

    transfers  The application had data again: new data is sent while everything before it is acknowledged, and the peer
               has sent data since (a request), or nothing was in flight for at least IDLE_S and the least RTT. A sender
               that has data never lets that happen, unless the receiver's window was closed.
    limit      APPLICATION after the last packet of a transfer, and after a packet that is not full until the next one;
               RECEIVER if the receiver's window has no room for a packet; NETWORK otherwise
    vantage    The handshake shows the delays on both sides of the capture. Without it: at the sender, data follows an
               ACK at once, and an ACK follows data after a round trip; the 10th percentiles of both are compared. A
               capture that has fewer of the lost transmissions than it lacks was made behind the bottleneck.

At the receiver, ACKs and data are known, but not the sender's round trip, what is in flight, nor a loss whose
retransmission was lost too. The RTT there is the time from an ACK to the first data that echoes its timestamp, which
holds the sender's own delay too, and is only good for the least RTT.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kmod.terminal import counted
from training.observed.flow import STEP, Flow, Limit
from training.observed.packets import ACK, PACKET, SYN
from training.observed.scoreboard import MOST_RTT_US, Scoreboard

IDLE_S = 0.02
BETWEEN_SHARE, BETWEEN_LEAST_US = 0.1, 1000  # of the round trip; less than that tells nothing of the vantage
_MANY = 20_000  # delays that decide on the vantage
_CHUNK = 65_536
_WRAP, _HALF = 1 << 32, 1 << 31
_USUAL_MSS = 1460
_STAMPS_BYTES = 12
_STEP = struct.Struct("<QQQIQB")  # a row of STEP
_AT_RECEIVER = (
    "The capture was made at the receiver, or after the bottleneck. There the sender's RTTs and its packets in flight "
    "are unknown; the RTT is the time from an ACK to the data that echoes its timestamp."
)


@dataclass
class Handshake:
    """What the SYN of an end said. seq: its number. time_us: of the first one, and of the ACK of it; 0: not seen."""

    seq: int
    time_us: int
    mss_bytes: int
    scale: int  # -1: none
    acked_us: int = 0


@dataclass
class Connection:
    """The packets of a connection: rows of PACKET as bytes, and the handshakes of both ends, where they were seen.

    last_us: time of the latest packet.
    """

    ends: tuple[bytes, bytes]
    rows: bytearray = field(default_factory=bytearray)
    handshakes: list[Handshake | None] = field(default_factory=lambda: [None, None])
    options_cut: bool = False
    disordered: int = 0
    last_us: int = 0

    def packets(self) -> NDArray[np.void]:
        """All packets by time, PACKET [n]."""
        packets = np.frombuffer(bytes(self.rows), PACKET)
        times_us = packets["time_us"]
        self.disordered = int((times_us[1:] < times_us[:-1]).sum())
        return packets[np.argsort(times_us, kind="stable")] if self.disordered else packets


def data_packets(packets: NDArray[np.void], direction: int) -> int:
    """The packets with data of a direction; longer ones than usual count as several."""
    return int((-(-packets["bytes"][packets["direction"] == direction].astype(np.int64) // _USUAL_MSS)).sum())


class _Reader:
    """Goes through the packets of a connection, from the view of the sender of `direction`."""

    def __init__(self, connection: Connection, direction: int) -> None:
        self.packets = connection.packets()
        self.direction = direction
        self.handshake, self.peer = connection.handshakes[direction], connection.handshakes[1 - direction]
        self.mss_bytes, self.mss_known = _mss_of(self.packets, direction, self.handshake, self.peer)
        self.board = Scoreboard(self.mss_bytes)
        self.base = self._first_seq()
        self.scale = max(self.peer.scale, 0) if self.handshake and self.peer and self.handshake.scale >= 0 else 0
        self.scale_known = self.handshake is not None and self.peer is not None
        self.start_us = int(self.packets["time_us"][0])
        self.steps = bytearray()  # rows of STEP
        self.receiver_rtts_us = array("I")
        self.transfers_us = [0]
        self.data_to_ack_us: list[int] = []
        self.ack_to_data_us: list[int] = []
        self._stamps: dict[int, int] = {}
        self._least_rtt_us = 0
        self._has_sent = False
        self._ack_us = self._idle_us = -1  # of an ACK that no data followed yet; since when nothing was outstanding
        self._asked = self._was_closed = False  # since the last data
        self._receiver_rtt_us = 0
        self._limit = Limit.NETWORK
        self._last_sends_us = [0]
        self._window_end = -1

    def _first_seq(self) -> int:
        if self.handshake is not None:
            return (self.handshake.seq + 1) % _WRAP
        own = self.packets["direction"] == self.direction
        data = self.packets[own & (self.packets["bytes"] > 0)]
        return int(data["seq"][0])

    def _offset(self, seq: int) -> int:
        """Unwrapped: the one nearest to the highest byte sent."""
        return self.board.next_offset + (seq - self.base - self.board.next_offset + _HALF) % _WRAP - _HALF

    def read(self) -> None:
        for row in _rows(self.packets):
            if row[9] == self.direction:
                self._sent(row)
            elif row[8] & ACK and not row[8] & SYN:
                self._came_back(row)

    def _sent(self, row: tuple[int, ...]) -> None:
        time_us, seq, _, payload_bytes, stamp, echo, _, ip_id, flags, _, stamped = row[:11]
        if flags & SYN or not payload_bytes:
            return
        time_us -= self.start_us
        board = self.board
        offset = self._offset(seq)
        if offset < 0:
            payload_bytes, offset = payload_bytes + offset, 0
            if payload_bytes <= 0:
                return
        probes = payload_bytes == 1 and self._window_end >= 0 and offset >= self._window_end
        if probes:  # of a closed window
            return
        was_idle = board.outstanding_bytes == 0
        if board.on_data(time_us, offset, payload_bytes, stamp if stamped else None, ip_id):
            if was_idle and self._has_data_again(time_us):
                self.transfers_us.append(time_us)
                self._last_sends_us.append(time_us)
            if self._ack_us >= 0 and len(self.ack_to_data_us) < _MANY and not was_idle:
                self.ack_to_data_us.append(time_us - self._ack_us)
            self._has_sent = True
            self._limit = Limit.APPLICATION if payload_bytes % self.mss_bytes else Limit.NETWORK
        self._last_sends_us[-1] = time_us
        self._ack_us, self._asked, self._was_closed = -1, False, False
        sent_us = self._stamps.get(echo) if stamped else None
        if sent_us is not None:
            self._receiver_rtt_us = min(max(time_us - sent_us, 1), MOST_RTT_US)
            self._stamps = {key: at_us for key, at_us in self._stamps.items() if at_us > sent_us}

    def _has_data_again(self, time_us: int) -> bool:
        if not self._has_sent or self._idle_us < 0:
            return False
        if self._asked:
            return True
        return not self._was_closed and time_us - self._idle_us >= max(IDLE_S * 1e6, self._least_rtt_us)

    def _came_back(self, row: tuple[int, ...]) -> None:
        time_us, _, ack, payload_bytes, stamp, echo, window, _, _, _, stamped, sacks, *edges = row
        time_us -= self.start_us
        board = self.board
        offset = min(self._offset(ack), board.next_offset) if self._is_fin(ack) else self._offset(ack)
        if offset < 0:
            return
        blocks = [(self._offset(edges[n]), self._offset(edges[n + 1])) for n in range(0, 2 * sacks, 2)]
        before = board.delivered_bytes
        board.on_ack(time_us, offset, blocks, echo if stamped else None)
        if stamped:
            self._stamps.setdefault(stamp, time_us)
        if board.delivered_bytes > before:
            self._ack_us = time_us
            if board.rtt_us:
                self._least_rtt_us = min(self._least_rtt_us or board.rtt_us, board.rtt_us)
                if len(self.data_to_ack_us) < _MANY:
                    self.data_to_ack_us.append(board.rtt_us)
        if board.outstanding_bytes == 0 and (self._idle_us < 0 or board.delivered_bytes > before):
            self._idle_us = time_us
        self._asked |= payload_bytes > 0
        self._was_closed |= window << self.scale < self.mss_bytes
        self._add_step(time_us, offset, window)

    def _is_fin(self, ack: int) -> bool:
        return self._offset(ack) == self.board.next_offset + 1

    def _add_step(self, time_us: int, offset: int, window: int) -> None:
        board = self.board
        limit = self._limit
        if limit == Limit.NETWORK and 0 <= self._window_end < board.next_offset + self.mss_bytes:
            limit = Limit.RECEIVER
        self._window_end = offset + (window << self.scale) if self.scale_known or not window else -1
        self.steps += _STEP.pack(
            time_us, board.delivered_bytes, board.retransmissions, board.rtt_us, board.inflight_bytes, limit
        )
        self.receiver_rtts_us.append(self._receiver_rtt_us)
        self._receiver_rtt_us = 0


def _rows(packets: NDArray[np.void]) -> Iterator[tuple[int, ...]]:
    """The packets as tuples, some at a time."""
    for at in range(0, len(packets), _CHUNK):
        yield from packets[at : at + _CHUNK].tolist()


def _mss_of(
    packets: NDArray[np.void], direction: int, own: Handshake | None, peer: Handshake | None
) -> tuple[int, bool]:
    """The payload of a full packet, and whether the handshake or common packets tell it."""
    data = packets[(packets["direction"] == direction) & (packets["bytes"] > 0)]
    options_bytes = _STAMPS_BYTES if data["stamped"].mean() > 0.5 else 0
    if own is not None and peer is not None and own.mss_bytes and peer.mss_bytes:
        agreed = min(own.mss_bytes, peer.mss_bytes) - options_bytes
        # A smaller MTU on the way shows as many packets of one smaller size.
        sizes, counts = np.unique(data["bytes"], return_counts=True)
        largest = int(sizes[-1])
        return (largest if largest < agreed and counts[-1] >= len(data) / 2 else agreed), True
    sizes, counts = np.unique(data["bytes"], return_counts=True)
    common = int(sizes[np.argmax(counts * sizes)])
    if common <= _USUAL_MSS:
        return max(common, 1), True
    return _USUAL_MSS - options_bytes, False


def flow_of(connection: Connection, direction: int, *, name: str, path: Path) -> Flow | None:
    """The flow of a direction that has data; None if no ACK of it was captured."""
    reader = _Reader(connection, direction)
    reader.read()
    if not reader.steps or not reader.board.delivered_bytes:
        return None
    steps = np.frombuffer(bytes(reader.steps), STEP).copy()
    steps["time_us"] = np.maximum.accumulate(steps["time_us"])
    _mark_ends(steps, reader)
    vantage, words = _vantage(reader, _delays_us(reader, connection, direction))
    has = set(STEP.names or ())
    remarks = [*words, *_remarks(reader, connection)]
    if vantage == "receiver":
        steps["rtt_us"] = reader.receiver_rtts_us
        steps["inflight_bytes"] = 0
        has.discard("inflight_bytes")
    sends = reader.board.sends.rows()
    sends["time_us"] = np.maximum.accumulate(sends["time_us"])
    return Flow(
        name=name, source=str(path), kind="capture", steps=steps, sends=sends,
        transfers_us=np.array(reader.transfers_us, np.int64), vantage=vantage,
        mss_bytes=reader.mss_bytes, start_s=reader.start_us / 1e6, has=frozenset(has), remarks=tuple(remarks),
    )  # fmt: skip


def _mark_ends(steps: NDArray[np.void], reader: _Reader) -> None:
    """After its last packet, a transfer has nothing to send."""
    for last_us, next_us in zip(reader._last_sends_us, [*reader.transfers_us[1:], np.iinfo(np.int64).max], strict=True):
        times_us = steps["time_us"].astype(np.int64)
        at_end = (times_us > last_us) & (times_us <= next_us) & (steps["limit"] != Limit.RECEIVER)
        steps["limit"][at_end] = Limit.APPLICATION


def _vantage(reader: _Reader, delays_us: tuple[float, float] | None) -> tuple[Literal["sender", "receiver"], list[str]]:
    """Where the capture was made, and what that means."""
    lost = int(reader.board.sends.rows()["lost"].sum())
    if reader.board.filled > lost or (delays_us and delays_us[1] - delays_us[0] > BETWEEN_LEAST_US):
        return "receiver", [_AT_RECEIVER]
    if delays_us and delays_us[1] > max(BETWEEN_SHARE * sum(delays_us), BETWEEN_LEAST_US):
        delay_ms = f"{delays_us[1] / 1000:.1f} ms"
        return "sender", [
            f"The capture was made between sender and receiver: its RTTs lack {delay_ms} between sender and capture."
        ]
    return "sender", []


def _delays_us(reader: _Reader, connection: Connection, direction: int) -> tuple[float, float] | None:
    """The delays from the capture to the receiver and back, and to the sender and back."""
    client, server = connection.handshakes
    if client is not None and server is not None and server.acked_us > server.time_us > client.time_us:
        delays_us = (server.time_us - client.time_us, server.acked_us - server.time_us)
        return delays_us[direction], delays_us[1 - direction]
    if not reader.data_to_ack_us or not reader.ack_to_data_us:
        return None
    return float(np.percentile(reader.data_to_ack_us, 10)), float(np.percentile(reader.ack_to_data_us, 10))


def _remarks(reader: _Reader, connection: Connection) -> list[str]:
    board, words = reader.board, []
    if reader.handshake is None or reader.peer is None:
        words.append(
            "The capture starts in the middle of the connection: bytes before it are not counted, and the receiver's "
            "window is not known."
        )
    if board.unseen_bytes:
        words.append(
            f"{board.unseen_bytes} bytes of data are missing from the capture, because it dropped their packets. "
            "Losses among these packets are not counted."
        )
    if board.offloaded:
        words.append(
            f"{counted(board.offloaded, 'captured segment')} longer than a packet (offload): counted as packets of "
            f"{reader.mss_bytes} bytes{'' if reader.mss_known else ', which is a guess'}."
        )
    if board.copies:
        words.append(f"{counted(board.copies, 'packet')} captured twice: each is counted once.")
    if connection.options_cut:
        words.append("The capture cut the TCP options: selective ACKs and timestamps may be missing.")
    if connection.disordered:
        words.append(f"{counted(connection.disordered, 'packet')} out of the order of their times: sorted by time.")
    return words
