# SPDX-License-Identifier: MIT
"""Searches over a list of points that is known beforehand: a grid, and a Sobol sequence.

A grid holds every combination of equally spaced positions (PQSA, section IV), so of log-spaced values. It is the
accuracy that other searches are compared with. A Sobol sequence fills the space evenly with any number of points
(Sobol 1967; scrambled as in Owen 1998).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from training.errors import TrainingError
from training.searches.search import BaseSearch, Search, SearchChoice, Seed
from training.searches.space import Point, Space


def grid_points(space: Space, *, count: int, counts: Mapping[str, int] | None = None) -> list[Point]:
    """The points of a grid, each once, the last dimension varying fastest.

    count: values of each parameter, both ends of its range included; counts: of these parameters instead.

    Raises:
        TrainingError: fewer than 2 values, or a parameter that the space does not have.
    """
    by_name = {**dict.fromkeys(space.names, count), **(counts or {})}
    if set(by_name) != set(space.names) or min(by_name.values()) < 2:
        raise TrainingError(f"grid: expected at least 2 values of each of {', '.join(space.names)}, got {by_name}")
    axes = [[i / (by_name[name] - 1) for i in range(by_name[name])] for name in space.names]
    return list(dict.fromkeys(space.point(positions) for positions in itertools.product(*axes)))


def sobol_points(space: Space, *, count: int, seed: Sequence[int]) -> list[Point]:
    """The first `count` points of a scrambled Sobol sequence; fewer where two of them are the same integers."""
    import numpy as np
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(space.dimensions), rng=np.random.default_rng(list(seed)))
    positions = sequence.random_base2((count - 1).bit_length())[:count]
    return list(dict.fromkeys(space.point(row) for row in positions.tolist()))


class PointsSearch(BaseSearch):
    """All points of a list, each once, in order."""

    def __init__(self, points: Sequence[Point]) -> None:
        super().__init__(tuple(dict.fromkeys(points)))


class GridChoice(SearchChoice):
    """Every combination of log-spaced values."""

    kind: Literal["grid"]
    count: int = Field(10, ge=2, description="values of each parameter, both ends of its range included")
    counts: dict[str, Annotated[int, Field(ge=2)]] = Field({}, description="of these parameters instead")

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search; it uses no random numbers."""
        del samples, steps
        its = {name: count for name, count in self.counts.items() if name in space.names}
        return PointsSearch([*candidates, *grid_points(space, count=self.count, counts=its)])


class SobolChoice(SearchChoice):
    """A scrambled Sobol sequence."""

    kind: Literal["sobol"]
    points: int = Field(64, ge=1, le=65536, description="evaluations beside those of the candidates")

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search. samples: the seed."""
        del steps
        return PointsSearch([*candidates, *sobol_points(space, count=self.points, seed=samples)])
