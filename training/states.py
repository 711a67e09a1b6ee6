# SPDX-License-Identifier: MIT
"""The network states that epochs belong to: what a flow itself would measure.

A flow of the study's algorithm with default parameters runs over each recording. At the end of every
epoch the core measures what was acknowledged in the last gamma P (eq. 1; the
first time when slow start ends, eq. 6), and quantises it (eq. 2). The epoch that
begins there belongs to that level (eq. 3): it is the level under which an online
flow would look its row up. The epochs' own boundaries are used, slow start's end
first and then every P, so nothing is measured here that the core does not.

With a second axis all this is done over a path of each of its levels.

How far that level is from the one of the epoch's mean rate is the confusion: the
paper's estimate is 250 ms at the end of one epoch, and speaks for the next 30 s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emulation.traces import Recording
from training.settings import StudySettings

__all__ = ["Confusion", "StateEpoch", "Turn", "confusion", "epochs_of"]


@dataclass(frozen=True)
class Turn:
    """The end of an epoch of a flow: when, and what it then measured (0: nothing)."""

    at_ms: int
    measured_bytes_per_s: int


@dataclass(frozen=True)
class StateEpoch:
    """An epoch with the level that a flow measured when it began.

    rtt: the level on the second axis, of minimum RTTs, and so which of the study's paths it runs over.
    """

    recording: Recording
    start_ms: int
    end_ms: int
    level: int
    rtt: int = 0

    @property
    def state(self) -> tuple[int, int]:
        """The levels on both axes."""
        return self.level, self.rtt

    @cached_property
    def key(self) -> str:
        """Names the link's content before and during the epoch, and the path."""
        text = f"{self.recording.trace.digest}:{self.start_ms}:{self.end_ms}"
        if self.rtt:  # the first path's keys are those of a study with one
            text += f":{self.rtt}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def capacity_bytes(self) -> int:
        """What the link could carry."""
        return self.recording.trace.capacity_bytes(self.start_ms, self.end_ms)

    @property
    def mean_bytes_per_s(self) -> float:
        """Capacity over the epoch."""
        return self.capacity_bytes * 1000 / (self.end_ms - self.start_ms)


def level_of(bytes_per_s: float, study: StudySettings) -> int:
    """Eq. 2."""
    return min(int(bytes_per_s // study.levels.step_bytes_per_s), study.levels.count - 1)


def epochs_of(recording: Recording, turns: Sequence[Turn], study: StudySettings, *, rtt: int = 0) -> list[StateEpoch]:
    """The epochs that a flow with these turns went through, from the first turn on; rtt: of which path.

    What is left of the recording behind the last turn is an epoch when it lasts
    `shortest_s`; an epoch in which the link carries next to nothing is left out.
    """
    period_ms = recording.trace.period_ms
    starts = [turn.at_ms for turn in turns if turn.at_ms < period_ms]
    ends = [*starts[1:], period_ms]
    found = []
    for turn, start_ms, end_ms in zip(turns, starts, ends, strict=False):
        epoch = StateEpoch(recording, start_ms, end_ms, level_of(turn.measured_bytes_per_s, study), rtt)
        if end_ms - start_ms < study.epochs.shortest_s * 1000:
            continue
        if epoch.mean_bytes_per_s >= study.epochs.least_capacity_kbps * 125:
            found.append(epoch)
    return found


@dataclass(frozen=True)
class Confusion:
    """Epochs by the level that was measured (rows) and the level of their mean rate (columns)."""

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


def confusion(epochs: Sequence[StateEpoch], study: StudySettings) -> Confusion:
    """The confusion of these epochs, int64 [levels, levels]."""
    counts = np.zeros((study.levels.count, study.levels.count), dtype=np.int64)
    for epoch in epochs:
        counts[epoch.level, level_of(epoch.mean_bytes_per_s, study)] += 1
    return Confusion(counts)
