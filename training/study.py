# SPDX-License-Identifier: MIT
"""Runs a study: states, then one search for each, then the ensemble.

    epochs and levels   a default flow over every recording (states.py)
    plan                which epochs each level trains on (plan.py)
    parts               a level (all delay classes together), or the single sets:
                        one set per class for all levels, which learning is judged by
    finals              each level once more, among what was found (finals.py)
    ensemble            rows and where they came from (build.py)

Parts depend on nothing but the study's key (finals: and all other parts): parts.py runs and keeps them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from emulation.traces import Recording
from kmod.ensemble import Ensemble, canonical_json
from training.build import Part, build_ensemble, part_name
from training.cases import Case
from training.errors import TrainingError
from training.evaluator import Evaluator
from training.finals import make_final
from training.flows import EpochRunner, core_version, epoch_cases, objectives, reference_turns
from training.journal import Journal
from training.optimise import optimise
from training.parts import Parts, Progress, Silent
from training.plan import LevelPlan, by_level, gather, plan_levels
from training.search import Search
from training.settings import StudySettings, make_search
from training.states import StateEpoch, epochs_of

__all__ = ["Progress", "Silent", "Study", "epochs_for", "require_recordings", "study_key"]

SINGLE = "single"
SINGLE_STATE = 1000  # the seed's place for what is no level


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
    """The epochs of the recordings, on each of the study's paths, with their levels.

    ran: told seconds of recording, as many times as there are paths.
    """
    found = []
    for rtt in range(len(study.paths_ms)):
        turns = reference_turns(study, recordings, threads=threads, rtt=rtt, ran=ran)
        for recording, its in zip(recordings, turns, strict=True):
            found += epochs_of(recording, its, study, rtt=rtt)
    return found


class _MakeSearch(Protocol):
    def __call__(self, *, delay_class: int) -> Search:
        """A new search for one class."""


@dataclass
class Study:
    """One study over the recordings that train; `unseen` ones only score what was found."""

    settings: StudySettings
    recordings: Sequence[Recording]
    unseen: Sequence[Recording] = ()
    threads: int = 2
    progress: Progress = field(default_factory=Silent)
    executor: str = "threads"

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
        """What each state trains on, in the order of an ensemble's rows."""
        s = self.settings
        by_rtt = [
            plan_levels([e for e in self.epochs if e.rtt == rtt], count=s.levels.count, settings=s.epochs, rtt=rtt)
            for rtt in range(len(s.paths_ms))
        ]
        return [plan for of_level in zip(*by_rtt, strict=True) for plan in of_level]

    def _measure(self, text: str, recordings: Sequence[Recording]) -> list[StateEpoch]:
        self.progress.phase(text, total=sum(r.duration_s for r in recordings) * len(self.settings.paths_ms))
        return epochs_for(self.settings, recordings, threads=self.threads, ran=self.progress.advance)

    def run(self, journal: Journal | None = None) -> Ensemble:
        """Do all parts that the journal does not hold, and build the ensemble.

        Raises:
            TrainingError: nothing to train on, or a search that came to nothing.
        """
        parts = Parts(journal, threads=self.threads, progress=self.progress, executor=self.executor)
        work = parts.missing(self._first_tasks())
        parts.begin("searching", work)
        parts.run([task for task in work if task.name != SINGLE])
        for task in work:
            if task.name == SINGLE:
                parts.run_alone(task)
        finals = parts.missing(self._final_tasks(parts.done))
        if finals:
            parts.begin("finals", finals)
            parts.run(finals)
        unseen = self._measure("scoring unseen epochs", self.unseen) if self.unseen else []
        return build_ensemble(self, parts.done, unseen)

    def _first_tasks(self) -> list[EpochTask]:
        """The levels that train, and the single sets on all of their epochs."""
        tasks = [
            self._task(part_name("level", plan), plan.epochs, partial(make_search, self.settings, state=plan.place))
            for plan in self.plans
            if plan.epochs
        ]
        every = {epoch.key: epoch for plan in self.plans for epoch in plan.epochs}
        make = partial(make_search, self.settings, state=SINGLE_STATE, steps=self.settings.single.steps)
        return [*tasks, self._task(SINGLE, list(every.values()), make)]

    def _final_tasks(self, parts: Mapping[str, Part]) -> list[EpochTask]:
        """The finals of the levels that trained; none where the study asks for none."""
        finals = self.settings.finals
        if finals is None:
            return []
        tasks = []
        for rtt in range(len(self.settings.paths_ms)):
            trained = [plan for plan in self.plans if plan.epochs and plan.rtt == rtt]
            found = {plan.level: parts[part_name("level", plan)].found for plan in trained}
            gathered = partial(
                gather,
                levels=by_level([epoch for epoch in self.epochs if epoch.rtt == rtt]),
                minimum=max(finals.minimum, self.settings.epochs.minimum),
                maximum=finals.maximum,
                reach=finals.borrow_levels,
            )
            tasks += [
                self._task(
                    part_name("final", plan),
                    gathered(plan.level),
                    partial(make_final, self.settings, finals=finals, level=plan.level, place=plan.place, found=found,
                            single=parts[SINGLE].found),
                    margin_se=finals.margin_se,
                )
                for plan in trained
            ]  # fmt: skip
        return tasks

    def _task(
        self, name: str, epochs: Sequence[StateEpoch], make: _MakeSearch, *, margin_se: float | None = None
    ) -> EpochTask:
        return EpochTask(name, self.settings, tuple(epoch_cases(self.settings, epochs)), make, margin_se)


@dataclass(frozen=True)
class EpochTask:
    """A search over epochs, all delay classes in step. make: the search of a class. margin_se: None for the study's."""

    name: str
    study: StudySettings
    cases: tuple[Case, ...]
    make: _MakeSearch
    margin_se: float | None = None

    @property
    def amount(self) -> float:
        """Evaluations at most, times what all cases carry."""
        points = sum(self.make(delay_class=c).budget for c in range(len(self.study.classes)))
        return float(points * self._capacity_bytes)

    @property
    def _capacity_bytes(self) -> int:
        return sum(case.capacity_bytes for case in self.cases)

    def run(self, threads: int, advance: Callable[[float], None]) -> Part:
        """Search; see training/parts.py."""
        runner = EpochRunner(self.study, threads=threads)
        evaluator = Evaluator(runner, self.cases, rounds=self.study.rounds)
        asked = objectives(self.study, runner, margin_se=self.margin_se)
        searches = [(self.make(delay_class=c), objective) for c, objective in enumerate(asked)]
        found = optimise(evaluator, searches, told=lambda n: advance(float(n * self._capacity_bytes)))
        return Part(tuple(found), evaluator.runs)


class _OfDatasets(Protocol):
    @property
    def datasets(self) -> tuple[str, ...]:
        """Which train; empty: all."""


def require_recordings(recordings: Sequence[Recording], study: _OfDatasets) -> list[Recording]:
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
