# SPDX-License-Identifier: MIT
"""The epochs that each throughput level trains on.

own        the epochs that a flow met at this level (PQSA, eq. 3)
chosen     at most `maximum` of them, at equal distances in the order of datasets, recordings and time
borrowed   a level with fewer than `minimum` takes those of n - 1 and n + 1, then n - 2 and n + 2, up to
           `borrow_levels` away
copied     a level that still has too few trains nothing and takes the row of the nearest level that trains (the lower
           of two)

With a second axis each of its levels is planned separately: neighbours differ in throughput.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.errors import TrainingError
from training.workloads.states import StateEpoch

__all__ = ["LevelPlan", "by_level", "choose", "gather", "plan_levels"]


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


def choose(epochs: Sequence[StateEpoch], maximum: int) -> list[StateEpoch]:
    """At most `maximum` epochs, at equal distances in the order of recordings and time."""
    if len(epochs) <= maximum:
        return list(epochs)
    ordered = sorted(epochs, key=lambda e: (e.recording.dataset, e.recording.name, e.start_ms))
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
