# SPDX-License-Identifier: MIT
"""Search strategies, by the name that a study file gives as `kind`.

    dds     divide, diverge, simulated annealing over the whole space (PQSA, section IV)
    local   simulated annealing in a box around the best of the candidates
    grid    every combination of log-spaced values
    sobol   a Sobol sequence
    ray     Ray Tune's searchers Optuna and Ax
    botorch Bayesian optimisation with BoTorch, for expensive evaluations
    surrogate   a model of all states of a stage together, in PyTorch (study/contextual.py)

A new search is a class with the methods of `Search`, and a settings class with `kind` and `make`, which joins the
union `SearchSettings`, or which another package registers (training/registered.py). Candidates are points that earlier
stages of a study found; every search evaluates them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from training.errors import TrainingError
from training.fields import StudyPart
from training.registered import SEARCHES, or_registered
from training.searches.botorch import BotorchChoice
from training.searches.contextual import ModelSettings
from training.searches.dds import AnnealingSettings, DdsSearch, DdsSettings, latin_hypercube
from training.searches.points import PointsSearch, grid_points, sobol_points
from training.searches.ray import RayChoice
from training.searches.search import Evaluation, Found, Proposal, Score, Search
from training.searches.space import Dimension, Point, Space, space_of

__all__ = [
    "BotorchChoice",
    "DdsChoice",
    "DdsSearch",
    "DdsSettings",
    "Dimension",
    "Evaluation",
    "Found",
    "GridChoice",
    "LocalChoice",
    "Point",
    "PointsSearch",
    "Proposal",
    "RayChoice",
    "Score",
    "Search",
    "SearchSettings",
    "SobolChoice",
    "Space",
    "SurrogateChoice",
    "space_of",
]


class DdsChoice(DdsSettings):
    """DDS; the candidates are samples beside those of the hypercube."""

    kind: Literal["dds"] = "dds"

    def make(
        self, space: Space, candidates: Sequence[Point], *, samples: Sequence[int], steps: Sequence[int]
    ) -> Search:
        """A search. samples, steps: the seeds of the initial samples and of the annealing."""
        placed = latin_hypercube(intervals=self.intervals, dimensions=len(space.dimensions), placement=self.placement,
                                 seed=samples)  # fmt: skip
        return DdsSearch(space, settings=self, samples=[*placed, *map(space.positions, candidates)], seed=steps)


class LocalChoice(AnnealingSettings):
    """Simulated annealing around the best of the candidates."""

    kind: Literal["local"]
    steps: int = Field(6, ge=0, description="evaluations after those of the candidates")
    reach: float = Field(0.1, gt=0, le=0.5, description="half width of the box, as a share of each range's logarithm")

    def make(
        self, space: Space, candidates: Sequence[Point], *, samples: Sequence[int], steps: Sequence[int]
    ) -> Search:
        """A search. steps: the seed."""
        del samples
        return DdsSearch(space, settings=self, samples=list(map(space.positions, candidates)), seed=steps,
                         reach=self.reach)  # fmt: skip


class GridChoice(StudyPart):
    """Every combination of log-spaced values."""

    kind: Literal["grid"]
    count: int = Field(10, ge=2, description="values of each parameter, both ends of its range included")
    counts: dict[str, Annotated[int, Field(ge=2)]] = Field({}, description="of these parameters instead")
    aim: Literal[0] = 0

    def make(
        self, space: Space, candidates: Sequence[Point], *, samples: Sequence[int], steps: Sequence[int]
    ) -> Search:
        """A search; it uses no random numbers."""
        del samples, steps
        its = {name: count for name, count in self.counts.items() if name in space.names}
        return PointsSearch([*candidates, *grid_points(space, count=self.count, counts=its)])


class SobolChoice(StudyPart):
    """A scrambled Sobol sequence."""

    kind: Literal["sobol"]
    points: int = Field(64, ge=1, le=65536, description="evaluations beside those of the candidates")
    aim: Literal[0] = 0

    def make(
        self, space: Space, candidates: Sequence[Point], *, samples: Sequence[int], steps: Sequence[int]
    ) -> Search:
        """A search. samples: the seed."""
        del steps
        return PointsSearch([*candidates, *sobol_points(space, count=self.points, seed=samples)])


class SurrogateChoice(StudyPart):
    """A model of the runs of all states of the stage; one search for all of them (study/contextual.py)."""

    kind: Literal["surrogate"]
    points: int = Field(4, ge=1, description="random points that run on each case at first")
    probes: int = Field(2, ge=0, description="times that a promising point of each state and class is tried")
    probe_cases: int = Field(8, ge=1, description="cases of the state that it is tried on")
    finalists: int = Field(2, ge=1, description="points of each state and class that run on all its cases, at most")
    least_gain: float = Field(
        0.02, ge=0, description="a further finalist is expected to gain so much, in standard deviations of the cost "
        "over the space"
    )  # fmt: skip
    budget: int | None = Field(None, ge=1, description="no further finalists after so many runs of the stage")
    model: ModelSettings = ModelSettings()
    aim: Literal[0] = 0

    def make(
        self, space: Space, candidates: Sequence[Point], *, samples: Sequence[int], steps: Sequence[int]
    ) -> Search:
        """Refuse: there is no search of a single state.

        Raises:
            TrainingError: always.
        """
        del space, candidates, samples, steps
        raise TrainingError(
            "search: expected one that searches each state by itself, got `kind: surrogate`; use it for stages alone"
        )


SearchSettings = Annotated[
    SerializeAsAny[
        Annotated[
            DdsChoice | LocalChoice | GridChoice | SobolChoice | RayChoice | BotorchChoice | SurrogateChoice,
            Field(discriminator="kind"),
        ]
    ],
    or_registered(SEARCHES),
]
