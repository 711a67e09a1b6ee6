# SPDX-License-Identifier: MIT
"""Which of some points the runs on a kernel confirm, and how far the kernel is from the simulator.

The first point is the simulator's choice. All points run on the same n cases. t is the quantile of Student's
distribution with n - 1 degrees of freedom.

    meets       the objective's requirement, less t standard errors over the cases
    less        a figure of the pooled runs is less than the first point's by more than t standard errors of the
                difference, which come from leaving out one case at a time (jackknife; Efron, Tibshirani 1993, ch. 11)

    confirmed   the first point meets the requirement. It stays, unless another one that meets it costs less
    replaced    another point takes its place: one that meets the requirement and costs less; or, where the first one
                misses the requirement, the cheapest that meets it
    missed      none meets the requirement. The first stays, unless another one violates it less

The ratio of kernel to simulator is the geometric mean over the cases, with its 95 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np

from training.objectives import Objective, Pool, Tally
from training.searches import Score

Outcome = Literal["confirmed", "replaced", "missed"]
Figure = Callable[[Score], float]


@dataclass(frozen=True)
class Choice:
    """The number of the chosen point, and whether each meets the requirement."""

    number: int
    outcome: Outcome
    meets: tuple[bool, ...]


def quantile_of(confidence: float, runs: int) -> float:
    """One-sided quantile of Student's t with runs - 1 degrees of freedom, for at least two runs."""
    from scipy.stats import t as student_t

    return float(student_t.ppf(confidence, runs - 1))


def choose(points: Sequence[Sequence[Tally]], *, objective: Objective, lenient: Objective, confidence: float) -> Choice:
    """The point that the runs confirm.

    points: the tallies of each point, in the order of the cases; the simulator's choice first. objective: without a
    margin. lenient: the same, less `quantile_of` standard errors.
    """
    whole = [objective.score(Pool.of(tallies)) for tallies in points]
    meets = tuple(lenient.score(Pool.of(tallies)).feasible for tallies in points)

    def less(number: int, figure: Figure) -> bool:
        return number > 0 and _is_less(points[number], points[0], objective, figure, confidence)

    if not any(meets):
        rivals = [n for n in range(len(points)) if less(n, attrgetter("violation"))]
        return Choice(min(rivals, key=lambda n: whole[n].rank, default=0), "missed", meets)
    rivals = [n for n in range(1, len(points)) if meets[n] and (not meets[0] or less(n, attrgetter("cost")))]
    number = min(rivals, key=lambda n: whole[n].cost, default=0)
    return Choice(number, "replaced" if number else "confirmed", meets)


def _is_less(
    one: Sequence[Tally], first: Sequence[Tally], objective: Objective, figure: Figure, confidence: float
) -> bool:
    def apart(kept: Sequence[int]) -> float:
        ours, theirs = (figure(objective.score(Pool.of(its[i] for i in kept))) for its in (one, first))
        return ours - theirs

    cases = range(len(first))
    without = np.array([apart([i for i in cases if i != left_out]) for left_out in cases])
    error = math.sqrt((len(cases) - 1) * float(without.var()))
    return apart(cases) < -quantile_of(confidence, len(cases)) * error


def ratio_95(kernel: Sequence[float], simulator: Sequence[float], *, least: float) -> tuple[float, float, float]:
    """Kernel over simulator: the geometric mean over the cases, and the ends of its 95 % interval.

    least: smaller figures count as this.
    """
    logs = np.log(np.maximum(kernel, least)) - np.log(np.maximum(simulator, least))
    half = quantile_of(0.975, len(logs)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    mean = float(logs.mean())
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
