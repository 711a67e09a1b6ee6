# SPDX-License-Identifier: MIT
"""The parts of a study: searches that depend on nothing but the study's key and on parts before them.

So their order, the number of threads and interruptions change nothing. Finished ones are kept in the journal at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol

from training.build import Part
from training.journal import Journal
from training.search import Found

__all__ = ["Job", "Parts", "Progress", "Silent"]


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


@dataclass(frozen=True)
class Job:
    """A part that is to be done. amount: its work at most, in bytes. search: does it on so many threads."""

    name: str
    amount: float
    search: Callable[[int], Part]


class Parts:
    """The parts that are done, from the journal and by running jobs."""

    def __init__(self, journal: Journal | None, *, threads: int, progress: Progress) -> None:
        self._journal = journal
        self._threads = threads
        self._progress = progress
        kept = journal.parts() if journal else {}
        self.done = {name: Part.from_json(data) for name, data in kept.items()}

    def missing(self, jobs: Sequence[Job]) -> list[Job]:
        """Those that are still to be done."""
        return [job for job in jobs if job.name not in self.done]

    def begin(self, text: str, jobs: Sequence[Job]) -> None:
        """Tell of a phase in which these are done."""
        self._progress.phase(text, total=sum(job.amount for job in jobs))

    def run(self, jobs: Sequence[Job]) -> None:
        """Do jobs beside each other, the longest first, each on one thread."""
        with ThreadPoolExecutor(self._threads) as pool:
            longest_first = sorted(jobs, key=lambda job: -job.amount)
            self._collect({pool.submit(job.search, 1): job.name for job in longest_first})

    def run_alone(self, job: Job) -> None:
        """Do a job on all threads."""
        self._keep(job.name, job.search(self._threads))

    def _collect(self, jobs: dict[Future[Part], str]) -> None:
        waiting = set(jobs)
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for job in ready:
                    self._keep(jobs[job], job.result())
        except BaseException:
            for job in waiting:
                job.cancel()
            raise

    def _keep(self, name: str, part: Part) -> None:
        if self._journal:
            self._journal.put(name, part.to_json())
        self.done[name] = part
        self._progress.finished(name, part.found)
