# SPDX-License-Identifier: MIT
"""The second search of a level: on more of its epochs, beginning from what was found.

A level's own search sees few epochs, because every one of its many points runs on
all of them. What it ends on meets the target just so on these, and on others it
may not. In the finals few points run on many epochs: the point that the level
found, those of its neighbours on both sides, and the best single set, also with the
parameters that bound the delay scaled down: it knows the link from all levels' epochs,
and with a threshold of the level's own it is hard to beat where these are few. DDS
takes them as its samples and anneals around the best of them, in a box of a given reach.
Of a class that asks for the goodput of the algorithm's own defaults these take part, too:
they have it on any epochs.

So a row is at least as good as the single set on the epochs that the level could
train on: where learning brings nothing, the ensemble is the single set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from training.dds import DdsSearch, DdsSettings
from training.search import Found, Search
from training.settings import DdsChoice, FinalsSettings, StudySettings
from training.space import Point, Space

__all__ = ["finalists", "make_final"]

FINAL_SEED = 2000  # behind the levels' and the single sets' places in the seed


def finalists(
    level: int,
    delay_class: int,
    found: Mapping[int, Sequence[Found]],
    singles: Sequence[Point],
    *,
    neighbours: int,
) -> list[Point]:
    """The points that take part, without doubles, the level's own first.

    found: of the levels that trained, by class. singles: what all levels have: the class's best single set, what was
    made of it, and the defaults where they take part.
    """
    near = sorted(range(level - neighbours, level + neighbours + 1), key=lambda n: (abs(n - level), n))
    points = [found[n][delay_class].point for n in near if n in found]
    return list(dict.fromkeys([*points, *singles]))


def scaled(point: Point, space: Space, names: Collection[str], scale: float) -> Point:
    """The point with these parameters times `scale`, within their ranges."""
    return tuple(
        min(max(round(value * scale), d.low), d.high) if d.name in names else value
        for value, d in zip(point, space.dimensions, strict=True)
    )


def make_final(
    study: StudySettings,
    *,
    finals: FinalsSettings,
    level: int,
    place: int,
    delay_class: int,
    found: Mapping[int, Sequence[Found]],
    single: Sequence[Found],
) -> Search:
    """The search of one level and class. place: the state's number among all, for the seed."""
    space, names = study.space(delay_class), study.classes[delay_class].ranges
    singles = [scaled(single[delay_class].point, space, names, scale) for scale in (1.0, *finals.scales)]
    known = [*singles, *study.defaults_of(delay_class)]
    points = finalists(level, delay_class, found, known, neighbours=finals.neighbours)
    base = study.search if isinstance(study.search, DdsChoice) else DdsSettings()
    return DdsSearch.among(
        space,
        points,
        settings=base.model_copy(update={"steps": finals.steps, "restarts": 0}),
        reach=finals.reach,
        seed=(study.seed, FINAL_SEED + place, delay_class),
    )
