# SPDX-License-Identifier: MIT
"""What a study asks an executor to do: tasks, which run step by step, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from training.searches.search import Evaluation, Found

__all__ = ["Keeper", "Part", "Run", "Task"]


@dataclass(frozen=True)
class Part:
    """The result of a task: the best point of each delay class, its cost in runs, and all evaluations in order."""

    found: tuple[Found, ...]
    runs: int
    evaluations: tuple[Evaluation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON data; floats come back exactly."""
        return {
            "found": [f.to_json() for f in self.found],
            "runs": self.runs,
            "evaluations": [e.to_json() for e in self.evaluations],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Part:
        """From the data of `to_json`."""
        evaluations = tuple(Evaluation.from_json(e) for e in data["evaluations"])
        return Part(tuple(Found.from_json(f) for f in data["found"]), data["runs"], evaluations)


class Run(Protocol):
    """A task that has begun."""

    @property
    def part(self) -> Part | None:
        """The result, once it is there."""

    def step(self) -> float:
        """Do the next step; the work of it, in bytes."""

    def snapshot(self) -> dict[str, Any]:
        """The state between two steps, as JSON data, while there is no result."""


class Task(Protocol):
    """A search that is to be done; picklable."""

    @property
    def name(self) -> str:
        """The name of its part."""

    @property
    def amount(self) -> float:
        """Its work at most, in bytes."""

    def begin(self, threads: int, kept: dict[str, Any] | None = None) -> Run:
        """Begin it on so many threads, or continue from the snapshot `kept` of an earlier run."""


class Keeper(Protocol):
    """Is notified by an executor of what is done. Its methods are called from several threads."""

    def advance(self, amount: float) -> None:
        """So much work is done, in bytes."""

    def snapshot_of(self, name: str) -> dict[str, Any] | None:
        """The snapshot from which the task of that name continues; None: from its beginning."""

    def keep_snapshot(self, name: str, snapshot: dict[str, Any]) -> None:
        """A task has come so far."""

    def keep(self, name: str, part: Part) -> None:
        """A task is finished."""
