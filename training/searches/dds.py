# SPDX-License-Identifier: MIT
"""DDS: divide, diverge, simulated annealing (PQSA, section IV).

Divide   Each parameter's range is divided into k0 intervals, equal on its log scale.
Diverge  Each interval of each parameter gets one sample: the intervals of every parameter are permuted, and the
         permutations are aligned to k0 points (a Latin hypercube). R0 is the point that meets the constraint at the
         lowest cost. If none meets it, R0 is the one with the smallest violation.
Anneal   The annealing moves in the box around R0 that holds no other sample. In each dimension the box reaches from the
         next smaller to the next larger sample, or to the end of the range. From x a step proposes y. With u uniform in
         (0, 1) the step is taken if E(y) < E(x) - t ln u (Metropolis), where

             E = cost + violation_weight * violation

         The result is the best point of both phases, by rank (search.py).

DEVIATION: with `box: follow` a restart moves the box to the best point so far. The paper's box does not move. Where the
samples fell badly, the optimum lies outside of it; `ccatune report search` shows how often.

DEVIATION: `widen` makes that box wider, and a share `aim` of the steps ends on the target's boundary (surrogate.py),
where the best point lies. A step then searches one dimension less, and may end outside of the box. Which steps are
aimed, and how far from the boundary they end, is drawn at random. Of `draws` such steps the most promising one is
evaluated, so the steps also try points a little beyond the estimated boundary. With noise that pays.

The fields of the settings are the choices that the paper leaves open. As u is drawn before y is evaluated, the energy
that y must stay below is known beforehand. An evaluator that stops a hopeless y early therefore does not change the
path. With `aim` it does, because the boundary is estimated from complete points, but always in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from training.errors import TrainingError
from training.fields import StudyPart
from training.searches.search import BaseSearch, Score, Search, Seed
from training.searches.space import Point, Space
from training.searches.surrogate import Surrogate


class AnnealingSettings(StudyPart):
    """The choices of the annealing."""

    steps: int = Field(34, ge=0, description="evaluations of the annealing, restarts included")
    restarts: int = Field(0, ge=0, description="times the schedule starts over, from the best point so far in its box")
    box: Literal["fixed", "follow"] = Field(
        "fixed", description="follow: at each restart the box keeps its width and moves to the best point"
    )
    aim: float = Field(0.0, ge=0, le=1, description="share of the steps that are moved to the target's boundary")
    aim_spread: float = Field(0.04, ge=0, description="how far beside it they end, standard deviation in ln delay")
    draws: int = Field(1, ge=1, le=1000, description="steps drawn for each that is aimed; the most promising is taken")
    start_temperature: float = Field(0.02, gt=0, description="t of the first step, in units of energy")
    end_temperature: float = Field(0.001, gt=0, description="t of the last step; geometric in between")
    step_kind: Literal["uniform", "normal"] = Field("normal", description="how a step is drawn")
    start_step: float = Field(0.6, gt=0, le=1, description="first step's size in half widths of the box")
    end_step: float = Field(0.15, gt=0, le=1, description="last step's size; geometric in between")
    violation_weight: float = Field(
        4.0, gt=0, description="energy of missing the target by as much as the target itself"
    )
    widen: float = Field(1.0, ge=1, description="the box's widths, in those of the paper")


def latin_hypercube(*, intervals: int, dimensions: int, placement: str, seed: Sequence[int]) -> list[list[float]]:
    """`intervals` positions; in each dimension every interval holds exactly one."""
    rng = np.random.default_rng(list(seed))
    columns = []
    for _ in range(dimensions):
        order = rng.permutation(intervals)
        offset = rng.random(intervals) if placement == "random" else np.full(intervals, 0.5)
        columns.append((order + offset) / intervals)
    return np.stack(columns, axis=1).tolist()  # type: ignore[no-any-return]  # intervals x dimensions


def neighbours(samples: Sequence[Sequence[float]], centre: Sequence[float]) -> list[tuple[float, float]]:
    """For each dimension the next smaller and next larger sample, else 0 and 1."""
    box = []
    for axis, here in enumerate(centre):
        values = [sample[axis] for sample in samples]
        below = max((v for v in values if v < here), default=0.0)
        above = min((v for v in values if v > here), default=1.0)
        box.append((below, above))
    return box


def moved(side: tuple[float, float], centre: float, *, widen: float = 1.0) -> tuple[float, float]:
    """An interval of the same width, or a wider one, around a centre, pushed back into [0, 1]."""
    width = min(widen * (side[1] - side[0]), 1.0)
    low = min(max(centre - width / 2, 0.0), 1.0 - width)
    return low, low + width


def reflect(value: float, low: float, high: float) -> float:
    """A value folded back into [low, high] at its ends."""
    width = high - low
    if width <= 0:
        return low
    along = (value - low) % (2 * width)
    return low + (along if along <= width else 2 * width - along)


def _between(start: float, end: float, progress: float) -> float:
    return start * math.exp(progress * math.log(end / start))


class DdsSearch(BaseSearch):
    """One run of DDS on a space.

    samples: the positions that are evaluated first. seed: of the annealing alone, so that searches for other targets
    can share the samples, and their runs. reach: half width of the annealing's box around the best sample, in
    positions, 0 to 0.5; None: the box that holds no other sample.
    """

    def __init__(
        self,
        space: Space,
        *,
        settings: AnnealingSettings,
        samples: Sequence[Sequence[float]],
        seed: Sequence[int],
        reach: float | None = None,
    ) -> None:
        if not samples:
            raise TrainingError("search: expected at least one sample or candidate to begin with, got none")
        super().__init__([space.point(sample) for sample in samples], steps=settings.steps)
        self._space = space
        self._settings = settings
        self._samples = [list(sample) for sample in samples]
        self._reach = reach
        self._rng = np.random.default_rng(list(seed))
        self._surrogate = Surrogate()
        self._sampled: dict[int, Score] = {}  # until the last sample has its score
        self._box: list[tuple[float, float]] = []
        self._current: list[float] = []
        self._energy = math.inf
        self._proposed: list[float] = []
        self._accept_below = math.inf

    @property
    def box(self) -> list[tuple[float, float]]:
        """The bounded space around R0 in positions; empty while samples are out."""
        return list(self._box)

    def _learn(self, number: int, point: Point, score: Score) -> None:
        """Bound the box after the last sample; take or leave a step."""
        if number < len(self._samples):
            self._sampled[number] = score
            if self._scored == len(self._samples):
                self._end_sampling()
            return
        self._surrogate.add(self._space.positions(point), score)
        if score.complete and self.energy(score) < self._accept_below:
            self._current, self._energy = self._proposed, self.energy(score)

    def _end_sampling(self) -> None:
        """In the order of the samples, whatever the order of their scores."""
        for number, score in sorted(self._sampled.items()):
            self._surrogate.add(self._space.positions(self._first[number]), score)
        self._start_annealing()

    def hopeless(self, number: int, bound: Score) -> bool:
        """It can neither become the best nor be taken as a step."""
        if not super().hopeless(number, bound):
            return False
        return number < len(self._samples) or self.energy(bound) >= self._accept_below

    def energy(self, score: Score) -> float:
        """E of the annealing; of a bound, the least that it could still be."""
        return score.cost + self._settings.violation_weight * max(score.violation, 0.0)

    def _start_annealing(self) -> None:
        best = self.best
        if best is None:  # an evaluator that completes no sample; begin in the middle
            self._current = [0.5] * len(self._space.dimensions)
            self._box = [(0.0, 1.0)] * len(self._current)
            return
        self._current = self._samples[self._first.index(best.point)]
        self._energy = self.energy(best.score)
        if self._reach is None:
            self._box = neighbours(self._samples, self._current)
            if self._settings.widen > 1:
                widen = self._settings.widen
                self._box = [moved(side, x, widen=widen) for side, x in zip(self._box, self._current, strict=True)]
        else:
            self._box = [moved((0.0, 2 * self._reach), x) for x in self._current]

    def _next(self, number: int) -> Point:
        """Draw the next step and, before it is evaluated, what it must stay below."""
        s = self._settings
        step = number - len(self._samples)
        chain = math.ceil(s.steps / (s.restarts + 1))
        if step > 0 and step % chain == 0 and self.best is not None:
            self._current = self._space.positions(self.best.point)
            self._energy = self.energy(self.best.score)
            if s.box == "follow":
                self._box = [moved(side, x) for side, x in zip(self._box, self._current, strict=True)]
        progress = (step % chain) / max(chain - 1, 1)
        size = _between(s.start_step, s.end_step, progress)
        self._proposed = self._drawn(size)
        if s.aim and self._rng.random() < s.aim:
            drawn = [self._proposed, *(self._drawn(size) for _ in range(s.draws - 1))]
            landed = [
                self._surrogate.land(position, beside=s.aim_spread * float(self._rng.standard_normal()))
                for position in drawn
            ]
            promises = self._surrogate.promise(landed)
            self._proposed = landed[promises.index(max(promises))]
        u = 1.0 - self._rng.random()  # in (0, 1]
        temperature = _between(s.start_temperature, s.end_temperature, progress)
        self._accept_below = self._energy - temperature * math.log(u)
        return self._space.point(self._proposed)

    def _drawn(self, size: float) -> list[float]:
        """A step of this size, in half widths of the box, from where the annealing stands."""
        n = len(self._current)
        is_uniform = self._settings.step_kind == "uniform"
        draw = self._rng.uniform(-1, 1, n) if is_uniform else self._rng.standard_normal(n)
        return [
            reflect(x + size * float(d) * (high - low) / 2, low, high)
            for x, d, (low, high) in zip(self._current, draw, self._box, strict=True)
        ]


class DdsChoice(AnnealingSettings):
    """DDS; the candidates are samples beside those of the hypercube."""

    kind: Literal["dds"] = "dds"
    intervals: int = Field(24, ge=3, description="k0: intervals of every range, and so the number of initial samples")
    placement: Literal["centre", "random"] = Field("random", description="where in its interval a sample lies")

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search. samples, steps: the seeds of the initial samples and of the annealing."""
        placed = latin_hypercube(intervals=self.intervals, dimensions=len(space.dimensions), placement=self.placement,
                                 seed=samples)  # fmt: skip
        return DdsSearch(space, settings=self, samples=[*placed, *map(space.positions, candidates)], seed=steps)


class LocalChoice(AnnealingSettings):
    """Simulated annealing around the best of the candidates."""

    kind: Literal["local"]
    steps: int = Field(6, ge=0, description="evaluations after those of the candidates")
    reach: float = Field(0.1, gt=0, le=0.5, description="half width of the box, as a share of each range's logarithm")

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search. steps: the seed."""
        del samples
        return DdsSearch(space, settings=self, samples=list(map(space.positions, candidates)), seed=steps,
                         reach=self.reach)  # fmt: skip
