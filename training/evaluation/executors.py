# SPDX-License-Identifier: MIT
"""Where the tasks of a study run: threads of this process, or processes of their own.

A task is plain data that can be sent to another process. It depends on nothing else, so the order of tasks, the number
of threads or processes, and interruptions do not change its result.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, Protocol

from training.searches.search import Found

__all__ = ["EXECUTORS", "Executor", "Part", "Task"]


@dataclass(frozen=True)
class Part:
    """The result of a task: the best point of each delay class, and its cost in runs."""

    found: tuple[Found, ...]
    runs: int

    def to_json(self) -> dict[str, Any]:
        """As JSON data; floats come back exactly."""
        return {"found": [f.to_json() for f in self.found], "runs": self.runs}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Part:
        """From the data of `to_json`."""
        return Part(tuple(Found.from_json(f) for f in data["found"]), data["runs"])


class Task(Protocol):
    """A search that is to be done; picklable."""

    @property
    def name(self) -> str:
        """The name of its part."""

    @property
    def amount(self) -> float:
        """Its work at most, in bytes."""

    def run(self, threads: int, advance: Callable[[float], None]) -> Part:
        """Do it on so many threads; advance: called with work that is done, in bytes."""


class Executor(Protocol):
    """Runs tasks side by side."""

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """All of them; keep: called in this thread with each part as soon as it is done."""


def _collect(running: dict[Future[Part], Task], done: Callable[[Task, Part], None]) -> None:
    """Each as it finishes. If one fails, or this is interrupted, those that have not begun are cancelled."""
    waiting = set(running)
    try:
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                done(running[future], future.result())
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _longest_first(tasks: Sequence[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: -task.amount)


@dataclass(frozen=True)
class Threads:
    """Tasks on threads of this process, each on one: the engine runs without Python's lock. A single task uses all."""

    count: int

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """See Executor."""
        each = self.count if len(tasks) == 1 else 1
        with ThreadPoolExecutor(self.count) as pool:
            running = {pool.submit(task.run, each, advance): task for task in _longest_first(tasks)}
            _collect(running, lambda task, part: keep(task.name, part))


@dataclass(frozen=True)
class Processes:
    """Tasks in processes of their own, which receive nothing but the task; work counts when a task is done."""

    count: int

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """See Executor."""

        def done(task: Task, part: Part) -> None:
            keep(task.name, part)
            advance(task.amount)

        each = self.count if len(tasks) == 1 else 1
        # A new interpreter: threads of this one could hold a lock at the moment of a fork.
        with ProcessPoolExecutor(self.count, mp_context=get_context("spawn"), initializer=_begin_process) as pool:
            _collect({pool.submit(_run, task, each): task for task in _longest_first(tasks)}, done)


def _begin_process() -> None:
    """Ctrl-C ends the study, and its processes with it. They also end if the study is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _run(task: Task, threads: int) -> Part:
    return task.run(threads, lambda _amount: None)


EXECUTORS: dict[str, Callable[[int], Executor]] = {"threads": Threads, "processes": Processes}
