# SPDX-License-Identifier: MIT
"""Runs a study: states, then one search for each, then the ensemble.

    epochs and levels   a default flow over every recording (states.py)
    plan                which epochs each level trains on (plan.py)
    parts               a level (all delay classes together), or the single sets:
                        one set per class for all levels, which learning is judged by
    ensemble            rows and where they came from (build.py)

Parts depend on nothing but the study's key, so their order, the number of threads
and interruptions change nothing. Finished ones are kept in the journal at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from emulation.traces import Recording
from kmod.ensemble import Ensemble, canonical_json
from training.build import Part, build_ensemble
from training.errors import TrainingError
from training.evaluator import Evaluator
from training.flows import EpochRunner, core_version, objectives, reference_turns
from training.journal import Journal
from training.optimise import optimise
from training.plan import LevelPlan, plan_levels
from training.search import Found
from training.settings import StudySettings, make_search
from training.states import StateEpoch, epochs_of

__all__ = ["Progress", "Silent", "Study", "epochs_for", "require_recordings", "study_key"]

SINGLE = "single"
SINGLE_STATE = 1000  # the seed's place for what is no level


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


def study_key(study: StudySettings, recordings: Sequence[Recording]) -> str:
    """What a journal is kept under (hex): settings, traces, version of core and simulator."""
    content = {
        "study": study.digest,
        "traces": sorted(f"{r.name} {r.trace.digest}" for r in recordings),
        "core": core_version(),
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def epochs_for(
    study: StudySettings, recordings: Sequence[Recording], *, threads: int, ran: Callable[[float], None]
) -> list[StateEpoch]:
    """The epochs of the recordings with their levels; `ran` is told seconds of recording."""
    found = []
    turns = reference_turns(study, recordings, threads=threads, ran=ran)
    for recording, its in zip(recordings, turns, strict=True):
        found += epochs_of(recording, its, study)
    return found


@dataclass
class Study:
    """One study over the recordings that train; `unseen` ones only score what was found."""

    settings: StudySettings
    recordings: Sequence[Recording]
    unseen: Sequence[Recording] = ()
    threads: int = 2
    progress: Progress = field(default_factory=Silent)

    @cached_property
    def key(self) -> str:
        """See `study_key`; the unseen recordings count too, as their scores are kept."""
        return study_key(self.settings, [*self.recordings, *self.unseen])

    @cached_property
    def epochs(self) -> list[StateEpoch]:
        """The training epochs by what a flow measures."""
        return self._measure("measuring levels", self.recordings)

    @cached_property
    def plans(self) -> list[LevelPlan]:
        """What each level trains on."""
        s = self.settings
        return plan_levels(self.epochs, count=s.levels.count, settings=s.epochs)

    def _measure(self, text: str, recordings: Sequence[Recording]) -> list[StateEpoch]:
        self.progress.phase(text, total=sum(r.duration_s for r in recordings))
        return epochs_for(self.settings, recordings, threads=self.threads, ran=self.progress.advance)

    def run(self, journal: Journal | None = None) -> Ensemble:
        """Do all parts that the journal does not hold, and build the ensemble.

        Raises:
            TrainingError: nothing to train on, or a search that came to nothing.
        """
        done = journal.parts() if journal else {}
        parts = {name: Part.from_json(data) for name, data in done.items()}
        work = {name: epochs for name, epochs in self._work().items() if name not in parts}
        self.progress.phase("searching", total=sum(self._amount(epochs) for epochs in work.values()))
        single = work.pop(SINGLE, None)
        with ThreadPoolExecutor(self.threads) as pool:
            longest_first = sorted(work, key=lambda name: -self._amount(work[name]))
            jobs = {pool.submit(self._search, name, work[name], threads=1): name for name in longest_first}
            self._collect(jobs, parts, journal)
        if single is not None:
            self._keep(SINGLE, self._search(SINGLE, single, threads=self.threads), parts, journal)
        unseen = self._measure("scoring unseen epochs", self.unseen) if self.unseen else []
        return build_ensemble(self, parts, unseen)

    def _work(self) -> dict[str, Sequence[StateEpoch]]:
        levels: dict[str, Sequence[StateEpoch]] = {
            f"level-{plan.level:02d}": plan.epochs for plan in self.plans if plan.epochs
        }
        every = {epoch.key: epoch for epochs in levels.values() for epoch in epochs}
        return {**levels, SINGLE: list(every.values())}

    def _amount(self, epochs: Sequence[StateEpoch]) -> float:
        """Work at most: capacity x points, in bytes."""
        points = make_search(self.settings, state=0, delay_class=0).budget * len(self.settings.classes)
        return float(points * sum(epoch.capacity_bytes for epoch in epochs))

    def _search(self, name: str, epochs: Sequence[StateEpoch], *, threads: int) -> Part:
        s = self.settings
        state = SINGLE_STATE if name == SINGLE else int(name.removeprefix("level-"))
        runner = EpochRunner(s, threads=threads)
        evaluator = Evaluator(runner, epochs, rounds=s.rounds)
        searches = [
            (make_search(s, state=state, delay_class=c), objective) for c, objective in enumerate(objectives(s, runner))
        ]
        capacity = sum(epoch.capacity_bytes for epoch in epochs)
        found = optimise(evaluator, searches, told=lambda n: self.progress.advance(float(n * capacity)))
        return Part(tuple(found), evaluator.runs)

    def _collect(self, jobs: dict[Future[Part], str], parts: dict[str, Part], journal: Journal | None) -> None:
        waiting = set(jobs)
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for job in ready:
                    self._keep(jobs[job], job.result(), parts, journal)
        except BaseException:
            for job in waiting:
                job.cancel()
            raise

    def _keep(self, name: str, part: Part, parts: dict[str, Part], journal: Journal | None) -> None:
        if journal:
            journal.put(name, part.to_json())
        parts[name] = part
        self.progress.finished(name, part.found)


def require_recordings(recordings: Sequence[Recording], study: StudySettings) -> list[Recording]:
    """The recordings of the study's datasets.

    Raises:
        TrainingError: there are none.
    """
    wanted = [r for r in recordings if not study.datasets or r.dataset in study.datasets]
    if not wanted:
        names = ", ".join(sorted({r.dataset for r in recordings})) or "none"
        raise TrainingError(
            f"study: expected recordings of {', '.join(study.datasets)}, got {names}; "
            "change `datasets` or give other traces"
        )
    return wanted
