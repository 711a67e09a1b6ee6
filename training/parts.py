# SPDX-License-Identifier: MIT
"""The parts of a study: searches that depend on nothing but the study's key and on parts before them.

So their order, the number of threads or processes, and interruptions change nothing. Finished ones are kept in the
journal at once. A task is plain data: it can be sent to another process, and an executor says where it runs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol

from training.build import Part
from training.journal import Journal
from training.search import Found

__all__ = ["EXECUTORS", "Parts", "Progress", "Silent", "Task"]


class Progress(Protocol):
    """Is told how far a study is; called from several threads."""

    def phase(self, text: str, *, total: float) -> None:
        """What is done now, and its amount of work."""

    def advance(self, amount: float) -> None:
        """So much of it is done."""

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """A part, with its best points by class."""


class Silent:
    """Tells nobody."""

    def phase(self, text: str, *, total: float) -> None:
        """Nothing."""

    def advance(self, amount: float) -> None:
        """Nothing."""

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """Nothing."""


class Task(Protocol):
    """A part that is to be done; picklable."""

    @property
    def name(self) -> str:
        """What the part is kept as."""

    @property
    def amount(self) -> float:
        """Its work at most, in bytes."""

    def run(self, threads: int, advance: Callable[[float], None]) -> Part:
        """Do it on so many threads; advance: given work that is done, in bytes."""


class Executor(Protocol):
    """Runs tasks beside each other."""

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """All of them; keep: called with each part as soon as it is done, in this thread."""


def _collect(running: dict[Future[Part], Task], done: Callable[[Task, Part], None]) -> None:
    """Each as it finishes; where one fails, or this is interrupted, those that have not begun do not."""
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
    """Tasks on threads of this process, each on one: what they run is the engine's, which needs no lock of Python's."""

    count: int

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """See Executor."""
        with ThreadPoolExecutor(self.count) as pool:
            running = {pool.submit(task.run, 1, advance): task for task in _longest_first(tasks)}
            _collect(running, lambda task, part: keep(task.name, part))


@dataclass(frozen=True)
class Processes:
    """Tasks in processes of their own, which are given nothing but the task; work counts when a task is done."""

    count: int

    def run(self, tasks: Sequence[Task], advance: Callable[[float], None], keep: Callable[[str, Part], None]) -> None:
        """See Executor."""

        def done(task: Task, part: Part) -> None:
            keep(task.name, part)
            advance(task.amount)

        # A new interpreter: threads of this one could hold a lock at the moment of a fork.
        with ProcessPoolExecutor(self.count, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
            _collect({pool.submit(_run_alone, task): task for task in _longest_first(tasks)}, done)


def _run_alone(task: Task) -> Part:
    return task.run(1, _nothing)


def _nothing(_amount: float) -> None:
    """Nobody looks at the progress of a task in another process."""


def _leave_interrupts() -> None:
    """Ctrl-C ends the study, and this process with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


EXECUTORS: dict[str, Callable[[int], Executor]] = {"threads": Threads, "processes": Processes}


class Parts:
    """The parts that are done, from the journal and by running tasks."""

    def __init__(self, journal: Journal | None, *, threads: int, progress: Progress, executor: str = "threads") -> None:
        self._journal = journal
        self._threads = threads
        self._progress = progress
        self._executor = EXECUTORS[executor](threads)
        kept = journal.parts() if journal else {}
        self.done = {name: Part.from_json(data) for name, data in kept.items()}

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Those that are still to be done."""
        return [task for task in tasks if task.name not in self.done]

    def begin(self, text: str, tasks: Sequence[Task]) -> None:
        """Tell of a phase in which these are done."""
        self._progress.phase(text, total=sum(task.amount for task in tasks))

    def run(self, tasks: Sequence[Task]) -> None:
        """Do tasks beside each other, the longest first."""
        if tasks:
            self._executor.run(tasks, self._progress.advance, self._keep)

    def run_alone(self, task: Task) -> None:
        """Do a task on all threads of this process."""
        self._keep(task.name, task.run(self._threads, self._progress.advance))

    def _keep(self, name: str, part: Part) -> None:
        if self._journal:
            self._journal.put(name, part.to_json())
        self.done[name] = part
        self._progress.finished(name, part.found)
