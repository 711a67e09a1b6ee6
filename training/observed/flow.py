# SPDX-License-Identifier: MIT
"""A flow that was observed on a live network: what its sender sent, and what came back.

Readers make flows: of captures (captures.py), of the logs of `ss -tin` and of `ccatune observe` (samples.py). The rest
of this package reads flows alone, and so works on any of these sources.

A flow is one direction of a TCP connection: the data of one sender. Times are us since the flow's first row or packet.

    steps    what the sender learnt, in order of time: one row for each ACK in a capture, and one row for each sample in
             a log, which may be a sample of an ACK
    sends    every transmission, in order of time; captures only

Counters of steps are cumulative and never decrease. A log of samples has fewer facts than a capture: a field that a
source does not have is 0, and `has` names those that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.errors import TrainingError


class Limit(IntEnum):
    """What kept a sender from sending more since the row before."""

    NETWORK = 0  # or congestion control
    APPLICATION = 1  # it had nothing to send
    RECEIVER = 2  # its window was full
    SEND_BUFFER = 3
    UNKNOWN = 4


STEP = np.dtype(
    [
        ("time_us", "u8"),
        ("delivered_bytes", "u8"),  # acknowledged, selectively or not, without the SYN and the FIN
        ("lost_pkts", "u8"),  # transmissions that the sender took for lost: each retransmission counts one
        ("rtt_us", "u4"),  # the latest sample; 0: none with this row
        ("inflight_bytes", "u8"),  # sent, neither acknowledged nor taken for lost, after this row
        ("limit", "u1"),  # Limit
    ]
)
SEND = np.dtype(
    [
        ("time_us", "u8"),
        ("offset_bytes", "u8"),  # of its first byte from the flow's first byte
        ("bytes", "u4"),  # of payload, at least 1
        ("retransmission", "?"),
        ("lost", "?"),  # it was retransmitted later, and no ACK shows that this was needless
    ]
)


@dataclass(frozen=True, eq=False)
class Flow:
    """One direction of a connection.

    name: of its ends, as far as they may be shown. source: the file. vantage: where it was observed. algorithm: of the
    sender; "" if unknown. mss_bytes: payload of a full packet, at least 1. start_s: of its first row, since 1970.
    steps: STEP [n], at least 1, by time. sends: SEND [m], by time, or None. has: fields of STEP that the source has.
    transfers_us: int64 [k], ascending, the first one 0: when the application had data again after it had none.
    remarks: what the reader had to leave out or guess, a sentence each.

    Raises TrainingError for rows out of order.
    """

    name: str
    source: str
    kind: Literal["capture", "ss", "observe", "acks"]
    steps: NDArray[np.void] = field(repr=False)
    sends: NDArray[np.void] | None = field(default=None, repr=False)
    transfers_us: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64), repr=False)
    vantage: Literal["sender", "receiver"] = "sender"
    algorithm: str = ""
    mss_bytes: int = 1448
    start_s: float = 0.0
    has: frozenset[str] = frozenset(STEP.names or ())
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.steps.dtype != STEP or not len(self.steps):
            raise TrainingError(f"{self.name}: expected steps of STEP, at least one, got {len(self.steps)}")
        for column in ("time_us", "delivered_bytes", "lost_pkts"):
            if bool((self.steps[column][1:] < self.steps[column][:-1]).any()):
                raise TrainingError(f"{self.name}: expected {column} that never decreases, got one that does")

    @property
    def has_each_ack(self) -> bool:
        """Whether each row is an ACK with the RTT of a packet. In a log of samples, some ACKs may have no row."""
        return self.kind in {"capture", "acks"}

    @property
    def duration_s(self) -> float:
        """From the first to the last row."""
        return float(self.steps["time_us"][-1] - self.steps["time_us"][0]) / 1e6

    @property
    def min_rtt_us(self) -> int:
        """The least RTT sample; 0 without any."""
        known = self.steps["rtt_us"][self.steps["rtt_us"] > 0]
        return int(known.min()) if len(known) else 0

    def segments(self) -> Iterator[Flow]:
        """The flow, cut where the application had data again. A piece without a step is left out.

        Times and counters of a segment go on from those of the flow; its first transfer is its own beginning.
        """
        bounds = [*self.transfers_us.tolist(), np.iinfo(np.int64).max]
        for begin_us, end_us in pairwise(bounds):
            steps = _between(self.steps, begin_us, end_us)
            if len(steps):
                yield Flow(
                    name=self.name, source=self.source, kind=self.kind, steps=steps,
                    sends=None if self.sends is None else _between(self.sends, begin_us, end_us),
                    transfers_us=np.array([begin_us], np.int64), vantage=self.vantage, algorithm=self.algorithm,
                    mss_bytes=self.mss_bytes, start_s=self.start_s, has=self.has, remarks=self.remarks,
                )  # fmt: skip


def _between(rows: NDArray[np.void], begin_us: int, end_us: int) -> NDArray[np.void]:
    """The rows from one time up to another."""
    times_us = rows["time_us"].astype(np.int64)
    return rows[(times_us >= begin_us) & (times_us < end_us)]
