# SPDX-License-Identifier: MIT
"""Runs a study: its stages in order, each as one search for every group of states, then runs on a kernel, if there are
any (training/verification), and the ensemble.

A stage takes from earlier ones the values that it holds and the candidates that it evaluates. Its searches depend on
nothing else, so they run side by side, and each is kept in the journal as soon as it is finished. The same key gives
the same ensemble, whatever interrupts it and wherever it runs, unless a real kernel verifies it.

A final stage among few candidates sees more cases than the search of a state, whose many points run on all of them.
The best point of that search may meet the target only narrowly, and only on its own cases. The candidates of a final
are the state's own point, its neighbours', and the single set, which knows all states' cases. So a row is at least as
good as the single set on the cases that the state can train on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from emulation.run.simulator import core_version
from emulation.traces import Recording
from kmod.ensemble import Ensemble, canonical_json
from training.errors import TrainingError
from training.evaluation.executors import ExecutorName, Recorder, open_executor
from training.evaluation.runner import CaseRunner, model_versions
from training.evaluation.tasks import ClassTask, Part, SearchTask
from training.progress import Progress
from training.searches import Found, Point, Score, Space, SurrogateChoice
from training.study.contextual import Contextual, union
from training.study.ensemble import build_ensemble
from training.study.journal import Journal
from training.study.settings import DEFAULTS, StageSettings, StudySettings
from training.study.trials import trial_rows
from training.verification.runs import require_runner
from training.verification.verify import PREFIX, Verification
from training.workloads import Setting, State, Workload
from training.workloads.epochs import default_values


def study_key(study: StudySettings, recordings: Sequence[Recording]) -> str:
    """The key of a journal: a hash (hex) of the settings, the traces, and the version of core and simulator.

    If a search uses a model (Optuna, Ax, PyTorch), of the versions of these packages, too, and of the packages that
    register the study's objective or searches.
    """
    content = {
        "study": study.digest,
        "traces": sorted(f"{r.name} {r.trace.digest}" for r in recordings),
        "core": core_version(),
        **({"packages": model_versions()} if study.uses_models else {}),
        **({"registered": study.registered} if study.registered else {}),
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


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


def setting_of(study: StudySettings, **more: Any) -> Setting:
    """The study as its workload needs it. more: the recordings, and how the workload runs (Setting)."""
    return Setting(study.cca, study.levels, study.seed, study.clock, **more)


def part_name(stage: StageSettings, group: State) -> str:
    """The name of the part of a group of states."""
    return "-".join([stage.name, *(f"{level:02d}" for level in group)])


def scaled(point: Point, names: Sequence[str], by_class: Sequence[str], scale: float) -> Point:
    """The point with the parameters `by_class` times `scale`; names: of all its parameters."""
    return tuple(round(value * scale) if name in by_class else value for value, name in zip(point, names, strict=True))


@dataclass
class Study:
    """One study over the recordings that train; `unseen` ones only score the rows that were found.

    executor, threads, address: where its searches run. tune_storage: where Ray Tune keeps their trials
    (training/evaluation/executors.py). trials: the points that the searches of a finished run evaluated, a row each
    (trials.py).
    """

    settings: StudySettings
    recordings: Sequence[Recording]
    unseen: Sequence[Recording] = ()
    threads: int = 2
    progress: Progress = field(default_factory=Progress)
    executor: ExecutorName = "threads"
    address: str | None = None
    tune_storage: str | None = None
    trials: list[dict[str, Any]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def key(self) -> str:
        """See `study_key`; the unseen recordings count too, because their scores are kept."""
        return study_key(self.settings, [*self.recordings, *self.unseen])

    @cached_property
    def workload(self) -> Workload:
        """The cases."""
        return self.settings.workload.open(
            setting_of(self.settings, recordings=self.recordings, unseen=self.unseen, threads=self.threads,
                       progress=self.progress)
        )  # fmt: skip

    def run(self, journal: Journal | None = None) -> Ensemble:
        """Do all searches and runs on a kernel that the journal does not hold, and build the ensemble.

        Raises:
            TrainingError: nothing to train on, a search without a complete score, or a run on a kernel that failed.
            EmulationError: the machine lacks what such runs require.
        """
        verify = self.settings.verify
        if verify is not None:
            require_runner(verify.runner, self.settings.cca)
        kept = journal.parts() if journal else {}
        parts = {name: Part.from_json(data) for name, data in kept.items() if not name.startswith(PREFIX)}
        recorder = Recorder(journal, self.progress, parts)
        for name, part in parts.items():
            self.progress.resumed(name, part.found)
        self._expect(parts)
        contextual: Contextual | None = None
        with open_executor(self.executor, threads=self.threads, address=self.address,
                           tune_storage=self.tune_storage) as executor:  # fmt: skip
            for stage in self.settings.all_stages:
                missing = [group for group in self.groups(stage) if part_name(stage, group) not in parts]
                search = self.settings.search_of(stage)
                if isinstance(search, SurrogateChoice):
                    contextual = contextual or self.contextual(journal)
                    tasks = [self._task(stage, group, parts) for group in self.groups(stage)]
                    if missing:
                        self.progress.phase(f"searching: {stage.name}", total=contextual.amount(search, tasks))
                        contextual.stage(stage.name, search, tasks, recorder.put)
                    else:
                        contextual.recall(stage.name, tasks)
                    continue
                tasks = [self._task(stage, group, parts) for group in missing]
                if tasks:
                    self.progress.phase(f"searching: {stage.name}", total=sum(task.amount for task in tasks))
                    executor.run(tasks, recorder)
        self.trials = trial_rows(self, parts)
        verified = None
        if verify is not None:
            parts, verified = Verification(self, parts, verify).run(journal)
        return build_ensemble(self, parts, verified)

    def _expect(self, parts: Mapping[str, Part]) -> None:
        """Notify of the work of all stages. Points of parts that are still missing are made up, all different."""
        s, known, amount = self.settings, dict(parts), 0.0
        for stage in s.all_stages:
            tasks = []
            for group in self.groups(stage):
                if (name := part_name(stage, group)) not in known:
                    tasks.append(self._task(stage, group, known))
                    share = 1 / (len(known) + 2)
                    spaces = (s.space(c) for c in range(s.n_classes))
                    points = (space.point([share] * len(space.dimensions)) for space in spaces)
                    known[name] = Part(tuple(Found(point, Score(0.0, 0.0, cases=0)) for point in points), 0)
            search = s.search_of(stage)
            if isinstance(search, SurrogateChoice):
                amount += Contextual.amount(search, tasks)
            else:
                amount += sum(task.amount for task in tasks)
        after_s = 0.0 if s.verify is None else Verification(self, {}, s.verify).least_s
        self.progress.expect(amount, after_s=after_s)

    def contextual(self, journal: Journal | None = None) -> Contextual:
        """The model that the stages with `kind: surrogate` share, without runs.

        Raises:
            TrainingError: PyTorch is not installed.
        """
        s = self.settings
        runner = CaseRunner(s.cca, s.names, s.objective.objectives(s.cca, "training"), threads=self.threads)
        space = union([s.space(c) for c in range(s.n_classes)])
        return Contextual(runner, space, seed=s.seed, journal=journal, advance=self.progress.advance)

    @cached_property
    def trained(self) -> list[State]:
        """The states that train; the others take the row of one of them."""
        return [state for state in self.settings.states if self.workload.source(state) == state]

    def groups(self, stage: StageSettings) -> list[State]:
        """The groups of a stage's searches that have states to train, by their levels on its axes."""
        return sorted({self._project(state, stage) for state in self.trained})

    def part_of(self, parts: dict[str, Part], stage: StageSettings, state: State) -> Part:
        """The part of a stage that a state belongs to."""
        return parts[self.name_of(stage, state)]

    def name_of(self, stage: StageSettings, state: State) -> str:
        """The name of that part."""
        return part_name(stage, self._project(self.workload.source(state), stage))

    def _project(self, state: State, stage: StageSettings) -> State:
        return tuple(level for level, name in zip(state, self.settings.levels, strict=True) if name in stage.group_by)

    def _task(self, stage: StageSettings, group: State, parts: dict[str, Part]) -> SearchTask:
        s = self.settings
        states = [state for state in self.trained if self._project(state, stage) == group]
        confirm = stage.confirm
        at = s.all_stages.index(stage)
        seed = (s.seed, at, *group)
        training = s.objective.objectives(s.cca, "training", margin_se=stage.margin_se)
        lenience = -confirm.lenience_se if confirm else None
        again = s.objective.objectives(s.cca, "confirming", margin_se=lenience)
        classes = []
        for c in range(s.n_classes):
            space = s.space(c).holding(self._held(stage, states[0], parts, c))
            candidates = self._candidates(stage, states[0], parts, c, space)
            classes.append(ClassTask(space, training[c], again[c], candidates, ((*seed, 0), (*seed, c + 1))))
        return SearchTask(
            name=part_name(stage, group),
            cca=s.cca,
            names=s.names,
            search=s.search_of(stage),
            classes=tuple(classes),
            cases=tuple(self.workload.cases(states, "training", stage.sample)),
            rounds=s.rounds,
            fresh=tuple(self.workload.cases(states, "confirming", confirm.sample)) if confirm else (),
            lenience_se=confirm.lenience_se if confirm else 0.0,
            stage=stage.name,
            levels=tuple(zip(stage.group_by, group, strict=True)),
        )

    def _held(self, stage: StageSettings, state: State, parts: dict[str, Part], delay_class: int) -> dict[str, int]:
        found = {}
        for name, source in stage.held_from.items():
            point = self._part(source, state, parts).found[delay_class].point
            found[name] = point[self.settings.names.index(name)]
        return found

    def _part(self, stage: str, state: State, parts: dict[str, Part]) -> Part:
        return self.part_of(parts, next(one for one in self.settings.all_stages if one.name == stage), state)

    def _candidates(
        self, stage: StageSettings, state: State, parts: dict[str, Part], delay_class: int, space: Space
    ) -> tuple[Point, ...]:
        """Points of the space, without doubles: in the order of candidates_from, of neighbours the nearest first."""
        s = self.settings
        by_class = tuple(s.objective.ranges(delay_class))
        found: list[Point] = []
        for source in stage.candidates_from:
            if source == DEFAULTS:
                found.append(tuple(default_values(s.cca).values()))
                continue
            near = self._near(state, stage.neighbours if source != s.single.name else 0)
            found += [self._part(source, one, parts).found[delay_class].point for one in near]
            if source == s.single.name:
                found += [scaled(found[-1], s.names, by_class, scale) for scale in stage.scales]
        return tuple(dict.fromkeys(space.nearest(point) for point in found))

    def _near(self, state: State, reach: int) -> list[State]:
        """The state and its trained neighbours on the first axis, the nearest first."""
        levels = sorted(range(state[0] - reach, state[0] + reach + 1), key=lambda n: (abs(n - state[0]), n))
        trained = set(self.trained)
        return [near for near in ((level, *state[1:]) for level in levels) if near in trained]
