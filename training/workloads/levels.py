# SPDX-License-Identifier: MIT
"""The epochs of recorded links, each with the throughput level that a flow itself measures, and the epochs that each
level trains on.

A flow of the study's algorithm with default parameters runs over each recording. At the end of every epoch the core
measures the throughput acknowledged in the last gamma P (PQSA, eq. 1; the first time when slow start ends, eq. 6) and
quantises it (eq. 2). The epoch that begins there belongs to that level (eq. 3): it is the level with which an online
flow would look its row up. The epochs are those of the core's own clock.

The confusion compares that level with the level of the epoch's mean rate: the estimate covers 250 ms at the end of one
epoch and is used for the next 30 s.

A level trains on

own        the epochs that a flow met at this level (PQSA, eq. 3)
chosen     at most `maximum` of them, at equal distances in the order of datasets, recordings and time
borrowed   a level with fewer than `minimum` takes those of n - 1 and n + 1, then n - 2 and n + 2, up to
           `borrow_levels` away
copied     a level that still has too few trains nothing and takes the row of the nearest level that trains (the lower
           of two)

With a second axis all this happens over a path of each of its levels, planned separately: neighbours differ in
throughput.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emulation.traces import Recording
from kmod.ensemble import Axis
from training.errors import TrainingError


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


@dataclass(frozen=True)
class LevelPlan:
    """The training data of a level.

    own: the number of epochs at this level, before any were left out. epochs: it trains on these; empty when the row
    is copied. borrowed_from: levels whose epochs are among them. source: the level whose row it takes.
    """

    own: int
    epochs: tuple[StateEpoch, ...]
    borrowed_from: tuple[int, ...]
    source: int


def by_level(epochs: Sequence[StateEpoch]) -> dict[int, list[StateEpoch]]:
    """The classes C_n of eq. 3; levels without epochs are left out."""
    levels: defaultdict[int, list[StateEpoch]] = defaultdict(list)
    for epoch in epochs:
        levels[epoch.level].append(epoch)
    return dict(levels)


def in_time(epochs: Sequence[StateEpoch]) -> list[StateEpoch]:
    """In the order of datasets, recordings and time."""
    return sorted(epochs, key=lambda e: (e.recording.dataset, e.recording.name, e.start_ms))


def choose(epochs: Sequence[StateEpoch], maximum: int) -> list[StateEpoch]:
    """At most `maximum` epochs, at equal distances in the order of recordings and time."""
    if len(epochs) <= maximum:
        return list(epochs)
    ordered = in_time(epochs)
    return [ordered[(2 * i + 1) * len(ordered) // (2 * maximum)] for i in range(maximum)]


def gather(
    level: int, levels: Mapping[int, Sequence[StateEpoch]], *, minimum: int, maximum: int, reach: int
) -> list[StateEpoch]:
    """At most `maximum` epochs of the level; if it has fewer than `minimum`, filled up to that from its neighbours.

    The nearest levels first, those of both sides together, and none further than `reach`.
    """
    epochs = choose(levels.get(level, ()), maximum)
    for distance in range(1, reach + 1):
        lacking = minimum - len(epochs)
        if lacking <= 0:
            break
        near = [e for n in (level - distance, level + distance) for e in levels.get(n, ())]
        epochs += choose(near, lacking)
    return epochs


def _borrow(
    level: int, levels: Mapping[int, Sequence[StateEpoch]], *, minimum: int, maximum: int, reach: int
) -> tuple[list[StateEpoch], tuple[int, ...]]:
    epochs = list(levels.get(level, ()))
    sources: list[int] = []
    for distance in range(1, reach + 1):
        if len(epochs) >= minimum:
            break
        for near in (level - distance, level + distance):
            if levels.get(near):
                epochs += choose(levels[near], maximum)
                sources.append(near)
    return epochs, tuple(sources)


def plan_levels(epochs: Sequence[StateEpoch], *, count: int, minimum: int, maximum: int, reach: int) -> list[LevelPlan]:
    """A plan for each of `count` levels; epochs: those of one level of the second axis.

    Raises:
        TrainingError: no level has, with its neighbours, enough epochs to train on.
    """
    levels = by_level(epochs)
    plans: dict[int, LevelPlan] = {}
    for level, own in sorted(levels.items()):
        found, sources = _borrow(level, levels, minimum=minimum, maximum=maximum, reach=reach)
        if len(found) >= minimum:
            chosen = [*choose(own, maximum), *choose(found[len(own) :], maximum)]
            plans[level] = LevelPlan(len(own), tuple(chosen[:maximum]), sources, level)
    if not plans:
        raise TrainingError(
            f"epochs: expected a level with at least {minimum} epochs, "
            f"got {len(epochs)} over {len(levels)} levels; give longer traces or a lower minimum"
        )
    trained = sorted(plans)
    for level in range(count):
        if level not in plans:
            nearest = min(trained, key=lambda n: (abs(n - level), n))
            plans[level] = LevelPlan(len(levels.get(level, ())), (), (), nearest)
    return [plans[level] for level in range(count)]
