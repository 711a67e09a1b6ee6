# SPDX-License-Identifier: MIT
"""The second search of a level: on more of its epochs, beginning from what was found.

A level's own search sees few epochs, because every one of its many points runs on
all of them. What it ends on meets the target just so on these, and on others it
may not. In the finals few points run on many epochs: the point that the level
found, those of its neighbours on both sides, and the best single set. DDS takes
them as its samples and anneals around the best of them, in a box of a given reach.

So a row is at least as good as the single set on the epochs that the level could
train on: where learning brings nothing, the ensemble is the single set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from training.dds import DdsSearch, DdsSettings
from training.plan import LevelPlan
from training.search import Found, Search
from training.settings import DdsChoice, FinalsSettings, StudySettings
from training.space import Point

__all__ = ["finalists", "make_final"]

FINAL_SEED = 2000  # behind the levels' and the single sets' places in the seed


def finalists(
    level: int, delay_class: int, found: Mapping[int, Sequence[Found]], single: Sequence[Found], *, neighbours: int
) -> list[Point]:
    """The points that take part, without doubles, the level's own first.

    found: of the levels that trained, by class. single: the best single set of each class.
    """
    near = sorted(range(level - neighbours, level + neighbours + 1), key=lambda n: (abs(n - level), n))
    points = [found[n][delay_class].point for n in near if n in found]
    return list(dict.fromkeys([*points, single[delay_class].point]))


def make_final(
    study: StudySettings,
    *,
    finals: FinalsSettings,
    plan: LevelPlan,
    delay_class: int,
    found: Mapping[int, Sequence[Found]],
    single: Sequence[Found],
) -> Search:
    """The search of one level and class."""
    points = finalists(plan.level, delay_class, found, single, neighbours=finals.neighbours)
    base = study.search if isinstance(study.search, DdsChoice) else DdsSettings()
    return DdsSearch.among(
        study.space(delay_class),
        points,
        settings=base.model_copy(update={"steps": finals.steps, "restarts": 0}),
        reach=finals.reach,
        seed=(study.seed, FINAL_SEED + plan.level, delay_class),
    )
