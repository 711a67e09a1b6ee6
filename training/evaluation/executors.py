# SPDX-License-Identifier: MIT
"""Where the tasks of a study run: threads of this process, processes of their own, or a Ray cluster (cluster.py).

The order of tasks, the number of threads, processes or nodes, and interruptions do not change the result of a task.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, Literal, Protocol

from training.errors import TrainingError
from training.evaluation.tasks import Part, SearchTask
from training.progress import Progress

if TYPE_CHECKING:
    from training.study.journal import Journal

ExecutorName = Literal["threads", "processes", "ray"]
SNAPSHOT_S = 2.0


@dataclass(frozen=True)
class Recorder:
    """Keeps in the journal, and shows, what an executor reports from several threads. parts: all finished ones."""

    journal: Journal | None
    progress: Progress
    parts: dict[str, Part]

    def snapshot_of(self, name: str) -> Any:
        """The snapshot from which the task of that name continues; None: from its beginning."""
        return self.journal.snapshot_of(name) if self.journal else None

    def put_snapshot(self, name: str, snapshot: object) -> None:
        """A task has come so far."""
        if self.journal:
            self.journal.put_snapshot(name, snapshot)

    def put(self, name: str, part: Part) -> None:
        """A task is finished."""
        if self.journal:
            self.journal.put(name, part.to_json())
        self.parts[name] = part
        self.progress.finished(name, part.found)


class Executor(Protocol):
    """Runs tasks side by side."""

    def run(self, tasks: Sequence[SearchTask], recorder: Recorder) -> None:
        """Run all of them."""


@contextmanager
def open_executor(
    name: ExecutorName, *, threads: int, address: str | None = None, tune_storage: str | None = None
) -> Iterator[Executor]:
    """The executor of that name, for as long as a study runs.

    threads: threads or processes on this machine. address: of a Ray cluster; none: one on this machine alone.
    tune_storage: the folder or URI in which Ray Tune keeps its experiments; none: it keeps nothing.

    Raises:
        TrainingError: Ray is not installed, or there is no usable cluster at the address.
    """
    if name == "ray":
        if address:  # how often a head that does not answer is tried, about 50 s each; Ray reads it when imported
            os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")
        try:
            from training.evaluation.cluster import connected
        except ImportError as error:
            raise TrainingError(
                f"--executor ray: expected Ray, got {error}; install it with: pip install 'ccatune[ray]'"
            ) from error
        with connected(address, processors=threads, tune_storage=tune_storage) as cluster:
            yield cluster
    else:
        yield Threads(threads) if name == "threads" else Processes(threads)


def _collect(running: dict[Future[Part], SearchTask], done: Callable[[SearchTask, Part], None]) -> None:
    """Each as it finishes. If one fails, or this is interrupted, those that have not begun are cancelled."""
    waiting = set(running)
    try:
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(ready, key=lambda one: one.exception() is not None):  # what succeeded is kept first
                done(running[future], future.result())
    except BrokenExecutor as error:
        raise TrainingError(
            "study: a process that searched ended, as after a kill or without memory; what was finished is kept: "
            "run the same command with --resume"
        ) from error
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def longest_first(tasks: Sequence[SearchTask]) -> list[SearchTask]:
    """The order in which tasks begin."""
    return sorted(tasks, key=lambda task: -task.amount)


@dataclass(frozen=True)
class Threads:
    """Tasks on threads of this process, each on one: the engine runs without Python's lock. A single task uses all.

    A snapshot of each is kept every few seconds.
    """

    count: int

    def run(self, tasks: Sequence[SearchTask], recorder: Recorder) -> None:
        """See Executor."""
        each = self.count if len(tasks) == 1 else 1
        stop = threading.Event()
        with ThreadPoolExecutor(self.count) as pool:
            running = {pool.submit(_run_here, task, each, recorder, stop): task for task in longest_first(tasks)}
            try:
                _collect(running, lambda task, part: recorder.put(task.name, part))
            except BaseException:
                stop.set()
                raise


class _StoppedError(Exception):
    """The study was interrupted while a task ran."""


def _run_here(task: SearchTask, threads: int, recorder: Recorder, stop: threading.Event) -> Part:
    run = task.begin(threads, recorder.snapshot_of(task.name))
    kept_s = time.monotonic()
    while run.part is None:
        if stop.is_set():
            recorder.put_snapshot(task.name, run.snapshot())
            raise _StoppedError
        recorder.progress.advance(run.step())
        if run.part is None and time.monotonic() - kept_s > SNAPSHOT_S:
            recorder.put_snapshot(task.name, run.snapshot())
            kept_s = time.monotonic()
    return run.part


@dataclass(frozen=True)
class Processes:
    """Tasks in processes of their own. They receive the task, and the snapshot of an interrupted run on threads or Ray.

    Work counts when a task is done, and they make no snapshots.
    """

    count: int

    def run(self, tasks: Sequence[SearchTask], recorder: Recorder) -> None:
        """See Executor."""

        def done(task: SearchTask, part: Part) -> None:
            recorder.put(task.name, part)
            recorder.progress.advance(task.amount)

        each = self.count if len(tasks) == 1 else 1
        # A new interpreter: threads of this one could hold a lock at the moment of a fork.
        with ProcessPoolExecutor(self.count, mp_context=get_context("spawn"), initializer=_begin_process) as pool:
            running = {
                pool.submit(_run_there, task, each, recorder.snapshot_of(task.name)): task
                for task in longest_first(tasks)
            }
            _collect(running, done)


def _begin_process() -> None:
    """Ctrl-C ends the study, and its processes with it. They also end if the study is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _run_there(task: SearchTask, threads: int, snapshot: Any) -> Part:
    run = task.begin(threads, snapshot)
    while run.part is None:
        run.step()
    return run.part
