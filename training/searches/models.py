# SPDX-License-Identifier: MIT
"""What the searches share whose points come from a model in a library (ray.py, botorch.py).

The candidates and `initial` points of a Sobol sequence run first. Each further point is a function of the earlier
points with their scores and of a seed. A library's object is made anew for each point. An interrupted search therefore
proposes the same points as an uninterrupted one.

Hopeless points. The score of a point that stopped early is a bound, and a model must not depend on where it stopped.
Let v be the smallest violation of a complete score so far, and L the setting `violation_limit`. A point stops once its
violation is certainly at least v + L. Its rank is then worse than the best one's, so it cannot win. To the model every
violation of at least v + L, of a complete score or of a bound, is exactly v + L, with an unknown cost. As v never
rises, the model sees the same data whether or not such points stop, and wherever they stop. Points that merely cost
too much run to their end.

A violation is 0 wherever the constraint is met, so it does not tell how far away the boundary is. To models of the
violation a met constraint is -MET. The level 0 then separates points that meet it from those that miss it.
"""

from __future__ import annotations

import importlib.util
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from pydantic import Field, model_validator

from training.errors import TrainingError
from training.searches.points import sobol_points
from training.searches.search import BaseSearch, Score, SearchChoice, Seed
from training.searches.space import Point, Space

MET = 0.1

_LIBRARIES = threading.RLock()


@dataclass(frozen=True)
class Seen:
    """A point as a model learns it.

    position: in [0, 1], one for each dimension. violation: at most v + L; -MET where the constraint is met. cost: None
    where the violation is v + L.
    """

    position: tuple[float, ...]
    violation: float
    cost: float | None


Propose = Callable[[Sequence[Seen], int], Sequence[float]]
"""The next position, from everything seen and a seed below 2^32; of at least one point the cost is known."""


class ModelSettings(SearchChoice):
    """The choices that these searches share."""

    evaluations: int = Field(40, ge=1, description="evaluations beside those of the candidates")
    initial: int = Field(12, ge=1, description="of these the first ones, which are points of a Sobol sequence")
    violation_limit: float = Field(
        0.5, gt=0, description="L: violations this much above the smallest one are alike to the model, and stop early"
    )

    @model_validator(mode="after")
    def _initial_points_are_evaluations(self) -> ModelSettings:
        if self.initial > self.evaluations:
            raise ValueError(f"expected at most as many initial points as evaluations ({self.evaluations}), "
                             f"got {self.initial}")  # fmt: skip
        return self


def require_extra(*modules: str, extra: str = "search") -> None:
    """See that the libraries of an extra of ccatune are installed, without importing them.

    Raises:
        TrainingError: one is missing.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise TrainingError(f"search: expected the package {name} of the extra `{extra}`, it is not installed; "
                                f"pip install 'ccatune[{extra}]'")  # fmt: skip


@contextmanager
def quietly() -> Iterator[None]:
    """Call a library without its warnings and its log below errors; one thread at a time.

    The filters of warnings belong to the process, and so do the random numbers of PyTorch.
    """
    with _LIBRARIES, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(disabled)


@contextmanager
def with_torch(seed: int) -> Iterator[None]:
    """Call PyTorch with this seed and one thread, and leave its random numbers and threads as they were."""
    with quietly():
        import torch

        threads = torch.get_num_threads()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            torch.set_num_threads(1)
            try:
                yield
            finally:
                torch.set_num_threads(threads)


class ModelSearch(BaseSearch):
    """Candidates and a Sobol sequence, and then the points of a model, one at a time.

    samples: the seed of the Sobol sequence, which searches for other targets can share, with its runs. steps: the seed
    of the model.
    """

    def __init__(
        self,
        space: Space,
        candidates: Sequence[Point],
        *,
        settings: ModelSettings,
        samples: Seed,
        steps: Seed,
        propose: Propose,
    ) -> None:
        sobol = sobol_points(space, count=settings.initial, seed=samples)
        super().__init__(tuple(dict.fromkeys([*candidates, *sobol])), steps=settings.evaluations - settings.initial)
        self._space = space
        self._settings = settings
        self._steps = tuple(steps)
        self._propose = propose
        self._scores: dict[int, tuple[Point, float, float | None]] = {}  # violation; cost, None of a bound

    def _next(self, number: int) -> Point:
        return self._space.point(self._position(number))

    def _position(self, number: int) -> Sequence[float]:
        seed = int(np.random.SeedSequence([*self._steps, number]).generate_state(1)[0])
        if self.best is None:  # an evaluator that completes no point; nothing is known of the cost
            return [float(x) for x in np.random.default_rng(seed).random(len(self._space.dimensions))]
        try:
            return self._propose(self.seen, seed)
        except ImportError as error:
            raise TrainingError(f"search: expected the libraries of the extra `search` to be usable, got: {error}; "
                                "pip install 'ccatune[search]'") from error  # fmt: skip

    @property
    def seen(self) -> list[Seen]:
        """The points with a score, in the order of their numbers, as a model learns them."""
        limit = self._limit
        seen = []
        for _, (point, violation, cost) in sorted(self._scores.items()):
            position = tuple(min(max(x, 0.0), 1.0) for x in self._space.positions(point))
            if cost is None or violation >= limit:
                seen.append(Seen(position, limit, None))
            else:
                seen.append(Seen(position, violation if violation > 0 else -MET, cost))
        return seen

    @property
    def _limit(self) -> float:
        """v + L; L itself before the first complete score."""
        least = 0.0 if self.best is None else max(self.best.score.violation, 0.0)
        return least + self._settings.violation_limit

    def _learn(self, number: int, point: Point, score: Score) -> None:
        """Keep the score for the model."""
        self._scores[number] = (point, score.violation, score.cost if score.complete else None)

    def hopeless(self, number: int, bound: Score) -> bool:
        """Its violation is at least v + L: neither the best point nor the model depends on how much it is."""
        del number
        return self.best is not None and bound.violation >= self._limit
