# SPDX-License-Identifier: MIT
"""The network states of epochs: the levels that a flow itself would measure.

A flow of the study's algorithm with default parameters runs over each recording. At the end of every epoch the core
measures the throughput acknowledged in the last gamma P (PQSA, eq. 1; the first time when slow start ends, eq. 6) and
quantises it (eq. 2). The epoch that begins there belongs to that level (eq. 3): it is the level with which an online
flow would look its row up. The epochs are those of the core's own clock.

With a second axis all this happens over a path of each of its levels.

The confusion compares that level with the level of the epoch's mean rate: the estimate covers 250 ms at the end of one
epoch and is used for the next 30 s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emulation.traces import Recording
from kmod.ensemble import Axis

__all__ = ["Confusion", "StateEpoch", "Turn", "confusion", "epochs_of"]


@dataclass(frozen=True)
class Turn:
    """The end of an epoch of a flow: its time, and the throughput measured there (0: none)."""

    at_ms: int
    measured_bytes_per_s: int


@dataclass(frozen=True)
class StateEpoch:
    """An epoch with the level that a flow measured when it began.

    rtt: the level on the second axis, of minimum RTTs, and so the study's path that it runs over.
    """

    recording: Recording
    start_ms: int
    end_ms: int
    level: int
    rtt: int = 0

    @cached_property
    def key(self) -> str:
        """Names the link's content before and during the epoch, and the path."""
        text = f"{self.recording.trace.digest}:{self.start_ms}:{self.end_ms}:{self.rtt}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def capacity_bytes(self) -> int:
        """What the link could carry."""
        return self.recording.trace.capacity_bytes(self.start_ms, self.end_ms)

    @property
    def mean_bytes_per_s(self) -> float:
        """Capacity over the epoch."""
        return self.capacity_bytes * 1000 / (self.end_ms - self.start_ms)


def epochs_of(
    recording: Recording,
    turns: Sequence[Turn],
    axis: Axis,
    *,
    rtt: int = 0,
    shortest_s: float,
    least_bytes_per_s: float,
) -> list[StateEpoch]:
    """The epochs of a flow with these turns, from the first turn on.

    axis: of throughput. rtt: the path's level. The rest of the recording after the last turn is an epoch if it lasts
    `shortest_s`. An epoch with a mean capacity below `least_bytes_per_s` is left out.
    """
    period_ms = recording.trace.period_ms
    starts = [turn.at_ms for turn in turns if turn.at_ms < period_ms]
    ends = [*starts[1:], period_ms]
    found = []
    for turn, start_ms, end_ms in zip(turns, starts, ends, strict=False):
        epoch = StateEpoch(recording, start_ms, end_ms, axis.level(turn.measured_bytes_per_s), rtt)
        if end_ms - start_ms >= shortest_s * 1000 and epoch.mean_bytes_per_s >= least_bytes_per_s:
            found.append(epoch)
    return found


@dataclass(frozen=True)
class Confusion:
    """Epochs by their measured level (rows) and the level of their mean rate (columns)."""

    counts: NDArray[np.int64]

    @property
    def within(self) -> dict[int, float]:
        """Share of epochs whose two levels differ by at most 0, 1 and 2."""
        rows, columns = np.indices(self.counts.shape)
        total = max(int(self.counts.sum()), 1)
        return {d: float(self.counts[abs(rows - columns) <= d].sum()) / total for d in (0, 1, 2)}

    @property
    def mean_error_levels(self) -> float:
        """Mean of measured minus true level: above 0 when flows overestimate."""
        rows, columns = np.indices(self.counts.shape)
        return float((self.counts * (rows - columns)).sum()) / max(int(self.counts.sum()), 1)


def confusion(epochs: Sequence[StateEpoch], axis: Axis) -> Confusion:
    """The confusion of these epochs on an axis of throughput, int64 [levels, levels]."""
    counts = np.zeros((axis.count, axis.count), dtype=np.int64)
    for epoch in epochs:
        counts[epoch.level, axis.level(int(epoch.mean_bytes_per_s))] += 1
    return Confusion(counts)
