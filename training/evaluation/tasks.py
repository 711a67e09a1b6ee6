# SPDX-License-Identifier: MIT
"""What a study asks an executor to do: tasks, which run step by step, and what is recorded of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter

from training.searches.search import Evaluation, Found

__all__ = ["EVALUATIONS", "Part", "Run", "Task", "TaskRecorder"]


@dataclass(frozen=True)
class Part:
    """The result of a task: the best point of each delay class, its cost in runs, and all evaluations in order."""

    found: tuple[Found, ...]
    runs: int
    evaluations: tuple[Evaluation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON data; floats come back exactly."""
        data: dict[str, Any] = _PART.dump_python(self, mode="json")
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Part:
        """From the data of `to_json`."""
        return _PART.validate_python(data)


_PART = TypeAdapter(Part)
EVALUATIONS = TypeAdapter(tuple[Evaluation, ...])
"""Evaluations as JSON data, and back."""


class Run(Protocol):
    """A task that has begun."""

    @property
    def part(self) -> Part | None:
        """The result, once it is there."""

    def step(self) -> float:
        """Do the next step; the work of it, in bytes."""

    def snapshot(self) -> Any:
        """The state between two steps, as JSON data, while there is no result."""


class Task(Protocol):
    """A search that is to be done; picklable."""

    @property
    def name(self) -> str:
        """The name of its part."""

    @property
    def amount(self) -> float:
        """Its work at most, in bytes."""

    def begin(self, threads: int, snapshot: Any = None) -> Run:
        """Begin it on so many threads, or continue from the snapshot of an earlier run."""


class TaskRecorder(Protocol):
    """Records the progress and the results that an executor reports. Its methods are called from several threads."""

    def advance(self, amount: float) -> None:
        """So much work is done, in bytes."""

    def snapshot_of(self, name: str) -> Any:
        """The snapshot from which the task of that name continues; None: from its beginning."""

    def put_snapshot(self, name: str, snapshot: object) -> None:
        """A task has come so far."""

    def put(self, name: str, part: Part) -> None:
        """A task is finished."""
