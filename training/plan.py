# SPDX-License-Identifier: MIT
"""Which epochs each level trains on.

own        the epochs that a flow met at this level (eq. 3)
chosen     of more than `maximum`, so many, at equal distances in the order of
           datasets, recordings and time
borrowed   a level with fewer than `minimum` takes in those of n - 1 and n + 1,
           then n - 2 and n + 2, up to `borrow_levels` away
copied     a level with none of its own, or still too few, trains nothing and
           takes the row of the nearest level that does (the lower of two)

With a second axis each of its levels is planned apart: neighbours are of throughput.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kmod.ensemble import MAX_LEVELS
from training.errors import TrainingError
from training.settings import EpochSettings
from training.states import StateEpoch

__all__ = ["LevelPlan", "by_level", "choose", "gather", "plan_levels"]


@dataclass(frozen=True)
class LevelPlan:
    """What a level trains on.

    own: epochs met at this level, before any were left out. epochs: what it trains
    on; empty when the row is copied. borrowed_from: levels whose epochs are among them. copied_from: the level
    whose row it takes, or None. rtt: the level on the second axis.
    """

    level: int
    own: int
    epochs: tuple[StateEpoch, ...]
    borrowed_from: tuple[int, ...] = ()
    copied_from: int | None = None
    rtt: int = 0

    @property
    def source(self) -> int:
        """The level whose row it takes, its own or another's."""
        return self.level if self.copied_from is None else self.copied_from

    @property
    def place(self) -> int:
        """A number of its own among all states, for the seed."""
        return self.level + MAX_LEVELS * self.rtt


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
    """At most `maximum` epochs of the level; where it has fewer than `minimum`, filled up to that from its neighbours.

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
    level: int, levels: Mapping[int, Sequence[StateEpoch]], settings: EpochSettings
) -> tuple[list[StateEpoch], tuple[int, ...]]:
    epochs = list(levels.get(level, ()))
    sources: list[int] = []
    for distance in range(1, settings.borrow_levels + 1):
        if len(epochs) >= settings.minimum:
            break
        for near in (level - distance, level + distance):
            if levels.get(near):
                epochs += choose(levels[near], settings.maximum)
                sources.append(near)
    return epochs, tuple(sources)


def plan_levels(epochs: Sequence[StateEpoch], *, count: int, settings: EpochSettings, rtt: int = 0) -> list[LevelPlan]:
    """A plan for each of `count` levels; epochs: those of one level `rtt` of the second axis.

    Raises:
        TrainingError: no level has, with its neighbours, enough epochs to train on.
    """
    levels = by_level(epochs)
    plans: dict[int, LevelPlan] = {}
    for level, own in sorted(levels.items()):
        found, sources = _borrow(level, levels, settings)
        if len(found) >= settings.minimum:
            chosen = [*choose(own, settings.maximum), *choose(found[len(own) :], settings.maximum)]
            plans[level] = LevelPlan(level, len(own), tuple(chosen[: settings.maximum]), sources, rtt=rtt)
    if not plans:
        raise TrainingError(
            f"epochs: expected a level with at least {settings.minimum} epochs, "
            f"got {len(epochs)} over {len(levels)} levels; give longer traces or a lower minimum"
        )
    for level in range(count):
        if level not in plans:
            nearest = min((n for n in plans if plans[n].epochs), key=lambda n: (abs(n - level), n))
            plans[level] = LevelPlan(level, len(levels.get(level, ())), (), copied_from=nearest, rtt=rtt)
    return [plans[level] for level in range(count)]
