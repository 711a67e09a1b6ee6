# SPDX-License-Identifier: MIT
"""What a search is: it proposes points, is told how they did, and nothing else.

    while not search.done:
        for proposal in search.ask(4):     # none while what comes next depends on scores that are still to come
            score = evaluate(proposal)     # stops early where search.hopeless(proposal.number, bound)
            search.tell(proposal.number, score)

A search knows neither epochs nor simulators. It minimises a rank: first the
excess over the target (0 where the target is met), then the capacity left
unused, or another cost that the objective names. So of two points that meet the
target the one with more throughput (or less delay) wins; where none does, the one
that misses it by least.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from training.space import Point

__all__ = ["Found", "Proposal", "Score", "Search", "score_from_json"]


@dataclass(frozen=True)
class Score:
    """How a point did on the epochs of a state.

    excess: by how much the target is missed, relative to it; 0 where it is met.
    utilization: delivered over capacity, 0 to 1. throughput_mbps: eq. 5, the mean
    over the epochs. delay_ms: the class's percentile of the queueing delay, pooled.
    share_within: packets within the target over all, 0 to 1. epochs: how many ran.
    cost: what is minimised where the target is met, in place of the capacity left unused.
    rival_share: what was delivered over what the rival of the goal delivered.
    complete: all epochs ran. Otherwise `excess` and `utilization` are the best that
    the point could still have reached, and the rest describes the epochs that ran.
    """

    excess: float
    utilization: float
    throughput_mbps: float
    delay_ms: float
    share_within: float
    epochs: int
    complete: bool = True
    cost: float | None = None
    rival_share: float | None = None

    @property
    def feasible(self) -> bool:
        """The target is met (for an incomplete score: could still be)."""
        return self.excess <= 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """What searches minimise."""
        return (max(self.excess, 0.0), -self.utilization if self.cost is None else self.cost)


def score_from_json(data: dict[str, Any]) -> Score:
    """Read what `dataclasses.asdict` made of a score."""
    return Score(**data)


@dataclass(frozen=True)
class Found:
    """A point with its complete score."""

    point: Point
    score: Score

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"point": list(self.point), "score": asdict(self.score)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Found:
        """From the data of `to_json`."""
        return Found(tuple(data["point"]), score_from_json(data["score"]))


@dataclass(frozen=True)
class Proposal:
    """A point to evaluate. number: counts the search's proposals from 0."""

    number: int
    point: Point


class Search(Protocol):
    """A strategy; its seed is an argument of its making, its state serialisable."""

    @property
    def done(self) -> bool:
        """Nothing is left to be asked for."""

    @property
    def best(self) -> Found | None:
        """The best point told so far by rank; None before the first complete score."""

    @property
    def budget(self) -> int:
        """How many points it asks for at most."""

    def ask(self, count: int) -> list[Proposal]:
        """Up to `count` points to evaluate; fewer, or none, where the next depend on scores that are still to come."""

    def tell(self, number: int, score: Score) -> None:
        """The score of a proposal that is out. Scores may come in any order: what is found does not depend on it.

        Raises:
            TrainingError: no such proposal is out.
        """

    def hopeless(self, number: int, bound: Score) -> bool:
        """Whether the proposal of that number, at its very best this, can change nothing."""

    def snapshot(self) -> dict[str, Any]:
        """All of its state as JSON data, while no score is waited for."""

    def restore(self, data: dict[str, Any]) -> None:
        """Go on from a snapshot of a search that was made with the same settings."""
