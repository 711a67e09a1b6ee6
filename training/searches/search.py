# SPDX-License-Identifier: MIT
"""The contract of a search: it proposes points and receives their scores.

    while not search.done:
        for proposal in search.ask(4):     # empty while the next proposals depend on scores that are missing
            score = evaluate(proposal)     # may stop early where search.hopeless(proposal.number, bound) is true
            search.tell(proposal.number, score)

A search knows neither workloads nor simulators. It minimises a rank: first the violation of the constraint
(0 where it is met), then the cost. Of two points that meet the constraint the one with the lower cost wins.
If no point meets it, the one with the smallest violation wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from training.errors import TrainingError
from training.fields import StudyPart
from training.searches.space import Point


@dataclass(frozen=True)
class Score:
    """The result of a point on its cases.

    violation: by how much the constraint is missed, relative to it; 0 where it is met. cost: is minimised.
    cases: the number of cases that ran. bounded: the measure that the constraint bounds, such as a delay in ms;
    0 where no such measure exists. metrics: further figures, by name with unit, for people and reports.
    complete: all cases ran. Otherwise `violation` and `cost` are the best values that the point can still reach.
    """

    violation: float
    cost: float
    cases: int
    complete: bool = True
    bounded: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """The constraint is met; for an incomplete score: it can still be met."""
        return self.violation <= 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """The pair that searches minimise."""
        return (max(self.violation, 0.0), self.cost)


@dataclass(frozen=True)
class Found:
    """A point with its complete score."""

    point: Point
    score: Score


@dataclass(frozen=True)
class Evaluation:
    """A point with its score, complete or not, of the search of a class."""

    delay_class: int
    point: Point
    score: Score


@dataclass(frozen=True)
class Proposal:
    """A point to evaluate. number: counts the search's proposals from 0."""

    number: int
    point: Point


class Search(Protocol):
    """A search strategy. Its seed is given when it is made: the same scores lead to the same proposals.

    An interrupted search therefore continues as a new one that receives the scores of the earlier one again.
    """

    @property
    def done(self) -> bool:
        """No proposal is left."""

    @property
    def best(self) -> Found | None:
        """The point with the best rank so far; None before the first complete score."""

    @property
    def budget(self) -> int:
        """The largest number of proposals."""

    def ask(self, count: int) -> list[Proposal]:
        """Up to `count` points to evaluate; fewer, or none, where the next ones depend on scores that are missing."""

    def tell(self, number: int, score: Score) -> None:
        """Receive the score of a proposal. Scores may arrive in any order; the result does not depend on it.

        Raises:
            TrainingError: no such proposal is waiting for its score.
        """

    def hopeless(self, number: int, bound: Score) -> bool:
        """Whether the proposal of that number cannot change the result, even with a score as good as this bound."""


Seed = Sequence[int]


class NoMorePointsError(Exception):
    """The searcher has no further point, although the budget of the search is not spent."""


class SearchChoice(StudyPart):
    """The settings of a search. aim: see dds.py; other searches know no boundary to aim at."""

    aim: Literal[0] = 0


class BaseSearch:
    """A `Search` to derive others from. Scores come in any order, and the result does not depend on it.

    first: points that depend on no score. steps: how many further points there are. Each is the `_next` of the search,
    and waits for the scores of all points before it.
    """

    def __init__(self, first: Sequence[Point], *, steps: int = 0) -> None:
        self._first = tuple(first)
        self._out: dict[int, Point] = {}  # proposals whose scores are still to come
        self._best: tuple[tuple[float, float], int, Found] | None = None  # rank, number: the earlier of two equals
        self._asked = 0
        self._scored = 0
        self.budget = len(self._first) + steps

    @property
    def done(self) -> bool:
        """The budget is spent."""
        return self._scored >= self.budget

    @property
    def best(self) -> Found | None:
        """The best complete score so far."""
        return None if self._best is None else self._best[2]

    def ask(self, count: int) -> list[Proposal]:
        """The first points, `count` at a time, and then one at a time."""
        if self._asked < len(self._first):
            points = self._first[self._asked : self._asked + count]
        elif self._out or self._asked >= self.budget:
            return []
        else:
            try:
                points = (self._next(self._asked),)
            except NoMorePointsError:
                self.budget = self._scored
                return []
        made = [Proposal(self._asked + i, point) for i, point in enumerate(points)]
        self._out |= {proposal.number: proposal.point for proposal in made}
        self._asked += len(made)
        return made

    def tell(self, number: int, score: Score) -> None:
        """Receive the score of a proposal, and keep the best.

        Raises:
            TrainingError: no such proposal waits for its score.
        """
        if number not in self._out:
            waiting = ", ".join(map(str, sorted(self._out))) or "none"
            raise TrainingError(
                f"search: expected the score of a proposal that is out ({waiting}), got one of {number}"
            )
        point = self._out.pop(number)
        self._scored += 1
        if score.complete:
            found = (score.rank, number, Found(point, score))
            if self._best is None or found[:2] < self._best[:2]:
                self._best = found
        self._learn(number, point, score)

    def hopeless(self, number: int, bound: Score) -> bool:
        """Even at its very best it does not become the best."""
        del number
        return self.best is not None and bound.rank > self.best.score.rank

    def _next(self, number: int) -> Point:
        """Return the point of that number, after the first ones. Searches with further points define it.

        Raises:
            NoMorePointsError: there is none, and the search is at its end.
        """
        raise TypeError(f"{type(self).__name__}: expected {len(self._first)} points and no further one, got {number}")

    def _learn(self, number: int, point: Point, score: Score) -> None:
        """Take note of a score."""
