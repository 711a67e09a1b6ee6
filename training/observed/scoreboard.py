# SPDX-License-Identifier: MIT
"""What is outstanding of one sender, packet by packet: its transmissions, and what ACKs say of each.

    piece      at most MSS bytes of the stream: [start, end), with its latest transmission
    delivered  acknowledged, cumulatively or selectively
    lost       a transmission is lost if a later one of the same piece exists, unless
                 a DSACK reports that the piece arrived twice (RFC 2883), or
                 the ACK that covers it echoes the timestamp of the earlier transmission (RFC 3522)
    in flight  sent, not delivered, without pieces that more than REORDERED_PKTS packets above them were
               selectively acknowledged past, until they are retransmitted
    hole       bytes between two captured packets that were not seen themselves. Who captures at the receiver sees a
               lost packet so; who captures at the sender sees a packet that the capture itself dropped.

Offsets count bytes from the first byte of the stream. They are unwrapped, and may pass 2^32.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from training.observed.flow import SEND

REORDERED_PKTS = 3
MOST_RTT_US = 2**32 - 1  # of a STEP
LATE_US = 1000  # a hole that is filled so soon was no loss
_COMPACT = 8192
_LONG_HOLE_BYTES = 1 << 25
_UNSEEN = -1
_SEND = struct.Struct("<QQI??")  # a row of SEND


@dataclass(slots=True)
class Piece:
    """send: row of its latest transmission in `sends`; _UNSEEN for a hole."""

    start: int
    end: int
    time_us: int
    send: int
    stamp: int | None
    ip_id: int
    transmissions: int = 1
    delivered: bool = False
    presumed_lost: bool = False


class Sends:
    """Transmissions, as bytes: an object each would take ten times the memory."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def __len__(self) -> int:
        return len(self._rows) // _SEND.size

    def add(self, time_us: int, start: int, end: int, *, retransmission: bool) -> None:
        self._rows += _SEND.pack(time_us, start, end - start, retransmission, 0)

    def mark(self, at: int, *, lost: bool) -> None:
        self._rows[(at + 1) * _SEND.size - 1] = lost

    def rows(self) -> NDArray[np.void]:
        """Rows of SEND, [m], in the order in which they were added."""
        return np.frombuffer(bytes(self._rows), SEND).copy()


@dataclass
class Scoreboard:
    """mss_bytes: payload of a full packet. sends: all transmissions."""

    mss_bytes: int
    sends: Sends = field(default_factory=Sends)
    next_offset: int = 0  # after the highest byte sent
    acked_offset: int = 0  # below it all is acknowledged
    delivered_bytes: int = 0
    retransmissions: int = 0
    needless: int = 0
    unseen_bytes: int = 0
    filled: int = 0  # holes that a retransmission filled
    offloaded: int = 0  # captured packets above the MSS
    copies: int = 0  # packets that were captured twice
    rtt_us: int = 0  # sample of the latest ACK; 0: none

    def __post_init__(self) -> None:
        self._pieces: list[Piece] = []
        self._starts: list[int] = []
        self._head = 0  # pieces before it are acknowledged
        self._loss_at = 0  # pieces before it were looked at for loss
        self._selective_bytes = 0
        self._presumed_bytes = 0
        self._highest = 0  # end of the highest delivered byte
        self._blocks: dict[int, int] = {}
        self._retransmitted: dict[int, list[int]] = {}  # start of a piece: sends that were taken for lost

    @property
    def inflight_bytes(self) -> int:
        """What is in flight."""
        return max(self.next_offset - self.acked_offset - self._selective_bytes - self._presumed_bytes, 0)

    @property
    def outstanding_bytes(self) -> int:
        """Sent, and not cumulatively acknowledged."""
        return self.next_offset - self.acked_offset

    # --- data -----------------------------------------------------------------------------------

    def on_data(self, time_us: int, offset: int, payload_bytes: int, stamp: int | None, ip_id: int) -> bool:
        """A packet with data. Returns whether it brought new data."""
        end = offset + payload_bytes
        if payload_bytes <= 1 and end <= self.acked_offset:
            return False
        if payload_bytes > self.mss_bytes:
            self.offloaded += 1
        if offset < self.next_offset:
            self._retransmit_range(time_us, offset, min(end, self.next_offset), stamp, ip_id)
        if end <= self.next_offset:
            return False
        if offset > self.next_offset:
            self._add(self.next_offset, offset, time_us, stamp, ip_id, seen=False)
        self._add(max(offset, self.next_offset), end, time_us, stamp, ip_id, seen=True)
        return True

    def _add(self, start: int, end: int, time_us: int, stamp: int | None, ip_id: int, *, seen: bool) -> None:
        if not seen:
            self.unseen_bytes += end - start
        # A damaged number may be 2 GiB off. So long a hole is one piece.
        most_bytes = self.mss_bytes if seen or end - start <= _LONG_HOLE_BYTES else end - start
        while start < end:
            stop = min(start + most_bytes, end)
            send = len(self.sends) if seen else _UNSEEN
            if seen:
                self.sends.add(time_us, start, stop, retransmission=False)
            self._pieces.append(Piece(start, stop, time_us, send, stamp, ip_id))
            self._starts.append(start)
            start = stop
        self.next_offset = end

    def _retransmit_range(self, time_us: int, start: int, end: int, stamp: int | None, ip_id: int) -> None:
        if start < self.acked_offset:
            self._send_needless(time_us, max(start, 0), min(end, self.acked_offset))
        for piece in self._over(max(start, self.acked_offset), end):
            if piece.send == _UNSEEN:
                self._fill(piece, time_us, stamp, ip_id)
            elif ip_id and ip_id == piece.ip_id and stamp == piece.stamp:
                self.copies += 1
            else:
                self._retransmit(piece, time_us, stamp, ip_id)

    def _send_needless(self, time_us: int, start: int, end: int) -> None:
        """All of it was acknowledged before."""
        while start < end:
            stop = min(start + self.mss_bytes, end)
            self.sends.add(time_us, start, stop, retransmission=True)
            self.retransmissions += 1
            self.needless += 1
            start = stop

    def _over(self, start: int, end: int) -> list[Piece]:
        """The pieces that overlap [start, end)."""
        at = max(bisect_right(self._starts, start, self._head) - 1, self._head)
        found = []
        while at < len(self._pieces) and self._pieces[at].start < end:
            if self._pieces[at].end > start:
                found.append(self._pieces[at])
            at += 1
        return found

    def _fill(self, piece: Piece, time_us: int, stamp: int | None, ip_id: int) -> None:
        """A hole is filled: by a packet that was only late, or by a retransmission."""
        late = (stamp is not None and stamp == piece.stamp) or time_us - piece.time_us < LATE_US
        self.unseen_bytes -= piece.end - piece.start
        self.sends.add(time_us, piece.start, piece.end, retransmission=not late)
        piece.send = len(self.sends) - 1
        piece.time_us, piece.stamp, piece.ip_id = time_us, stamp, ip_id
        if not late:
            self.filled += 1
            piece.transmissions += 1
            self.retransmissions += 1

    def _retransmit(self, piece: Piece, time_us: int, stamp: int | None, ip_id: int) -> None:
        self.retransmissions += 1
        if piece.delivered:
            self.needless += 1
        else:
            self.sends.mark(piece.send, lost=True)
            self._retransmitted.setdefault(piece.start, []).append(piece.send)
        self.sends.add(time_us, piece.start, piece.end, retransmission=True)
        piece.send = len(self.sends) - 1
        piece.time_us, piece.stamp, piece.ip_id = time_us, stamp, ip_id
        piece.transmissions += 1
        self._presume(piece, lost=False)

    # --- ACKs -----------------------------------------------------------------------------------

    def on_ack(self, time_us: int, offset: int, blocks: list[tuple[int, int]], echo: int | None) -> None:
        """An ACK up to an offset, with selective blocks of offsets, and the timestamp that it echoes."""
        self.rtt_us = 0
        newest_us = -1
        if blocks and (blocks[0][0] < offset or (len(blocks) > 1 and _within(blocks[0], blocks[1]))):
            self._note_duplicate(*blocks[0])
            blocks = blocks[1:]
        if offset > self.next_offset:
            self._add(self.next_offset, offset, time_us, None, 0, seen=False)
        if offset > self.acked_offset:
            newest_us = self._acknowledge(offset, echo)
        for left, right in blocks:
            if self.acked_offset < right <= self.next_offset and self._blocks.get(left) != right:
                newest_us = max(newest_us, self._deliver_block(left, right))
        if newest_us >= 0:
            self.rtt_us = min(max(time_us - newest_us, 1), MOST_RTT_US)
        self._presume_losses()

    def _acknowledge(self, offset: int, echo: int | None) -> int:
        """Returns when the newest packet was sent that it delivers and that was sent once; -1 without one."""
        newest_us, first = -1, True
        while self._head < len(self._pieces) and self._pieces[self._head].start < offset:
            piece = self._pieces[self._head]
            if first and echo is not None and piece.transmissions > 1 and not piece.delivered:
                self._note_echo(piece, echo)
            first = False
            if piece.end > offset:  # in the middle of a piece
                delivered = offset - piece.start
                self.delivered_bytes += 0 if piece.delivered else delivered
                self._selective_bytes -= delivered if piece.delivered else 0
                self._presumed_bytes -= delivered if piece.presumed_lost else 0
                piece.start = self._starts[self._head] = offset
                break
            if piece.delivered:
                self._selective_bytes -= piece.end - piece.start
            else:
                newest_us = max(newest_us, self._deliver(piece))
            self._head += 1
        self.acked_offset = offset
        self._highest = max(self._highest, offset)
        if self._blocks:
            self._blocks = {left: right for left, right in self._blocks.items() if right > offset}
        if self._head > _COMPACT:
            del self._pieces[: self._head], self._starts[: self._head]
            self._loss_at = max(self._loss_at - self._head, 0)
            self._head = 0
        return newest_us

    def _deliver_block(self, left: int, right: int) -> int:
        """Most blocks grow, so that the part which was reported before is left out."""
        newest_us = -1
        for piece in self._over(max(self._blocks.get(left, left), self.acked_offset), right):
            if not piece.delivered and piece.start >= left and piece.end <= right:
                self._selective_bytes += piece.end - piece.start
                newest_us = max(newest_us, self._deliver(piece))
        self._blocks[left] = right
        self._highest = max(self._highest, right)
        return newest_us

    def _deliver(self, piece: Piece) -> int:
        """Returns when it was sent, if it was sent once and seen; otherwise -1 (Karn's rule)."""
        self._presume(piece, lost=False)
        self.delivered_bytes += piece.end - piece.start
        piece.delivered = True
        return piece.time_us if piece.transmissions == 1 and piece.send != _UNSEEN else -1

    def _presume(self, piece: Piece, *, lost: bool) -> None:
        if piece.presumed_lost != lost:
            self._presumed_bytes += (piece.end - piece.start) * (1 if lost else -1)
            piece.presumed_lost = lost

    def _presume_losses(self) -> None:
        below = self._highest - REORDERED_PKTS * self.mss_bytes
        at = max(self._loss_at, self._head)
        while at < len(self._pieces) and self._pieces[at].end <= below:
            if not self._pieces[at].delivered and self._pieces[at].transmissions == 1:
                self._presume(self._pieces[at], lost=True)
            at += 1
        self._loss_at = at

    # --- what shows that a retransmission was needless --------------------------------------------

    def _note_duplicate(self, left: int, right: int) -> None:
        start = left
        while start < min(right, left + _LONG_HOLE_BYTES):
            self._clear_loss(start)
            start += self.mss_bytes

    def _note_echo(self, piece: Piece, echo: int) -> None:
        if piece.stamp is not None and (echo - piece.stamp) & 0xFFFFFFFF >= 1 << 31:
            self._clear_loss(piece.start)

    def _clear_loss(self, start: int) -> None:
        sends = self._retransmitted.get(start)
        if sends:
            self.sends.mark(sends.pop(), lost=False)
            self.needless += 1


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
