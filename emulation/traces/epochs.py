# SPDX-License-Identifier: MIT
"""Epochs: the pieces of a recording. A flow determines its state anew at the end of each one (every 30 s in PQSA)."""

from __future__ import annotations

from dataclasses import dataclass

from emulation.errors import TraceError
from emulation.traces.recording import Recording
from emulation.traces.trace import OPPORTUNITY_BYTES, Trace

EPOCH_S = 30
# The tail of a recording is an epoch if it is at least half as long as one. A shorter tail says little about a state.
MIN_TAIL_SHARE = 0.5


@dataclass(frozen=True)
class Epoch:
    """The piece [start_ms, end_ms) of a recording. index counts its epochs from 0, including silent ones."""

    recording: Recording
    index: int
    start_ms: int
    end_ms: int

    @property
    def name(self) -> str:
        """Recording and index."""
        return f"{self.recording.name}#{self.index}"

    @property
    def duration_ms(self) -> int:
        """Length; a tail is shorter than the others."""
        return self.end_ms - self.start_ms

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the link could carry during the epoch."""
        return self.recording.trace.capacity_bytes(self.start_ms, self.end_ms)

    @property
    def mean_rate_mbps(self) -> float:
        """Capacity over the epoch, in Mbit/s of wire bytes."""
        return self.capacity_bytes * 8 / (1000 * self.duration_ms)

    @property
    def trace(self) -> Trace:
        """The epoch as a trace of its own."""
        return self.recording.trace.slice(self.start_ms, self.end_ms)


def epochs(recording: Recording, *, epoch_s: float = EPOCH_S) -> list[Epoch]:
    """Cut a recording into epochs from its start.

    The tail is an epoch if it lasts at least half of epoch_s, and is dropped otherwise. An epoch in which the link is
    silent throughout (an outage of more than epoch_s) is dropped too, because nothing can be measured in it. Raises
    TraceError unless epoch_s is at least 1 ms.
    """
    epoch_ms = round(epoch_s * 1000)
    if epoch_ms < 1:
        raise TraceError(f"{recording.name}: expected epochs of at least 0.001 s, got {epoch_s}")
    period_ms = recording.trace.period_ms
    cut = [
        Epoch(recording, index, start_ms, min(start_ms + epoch_ms, period_ms))
        for index, start_ms in enumerate(range(0, period_ms, epoch_ms))
    ]
    return [
        epoch
        for epoch in cut
        if epoch.duration_ms >= MIN_TAIL_SHARE * epoch_ms and epoch.capacity_bytes >= OPPORTUNITY_BYTES
    ]
