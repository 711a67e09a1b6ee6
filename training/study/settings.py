# SPDX-License-Identifier: MIT
"""A study as its YAML file states it: every choice of training, by name.

    axes        the network states: levels of what a flow measures
    workload    what each state trains on (training/workloads)
    objective   what is required, and what is minimised (training/objectives)
    search      how points are proposed (training/searches)
    stages      which searches run, over which states together, and what they take from each other
    verify      which states a real kernel runs afterwards (training/verification)

Everything here is part of the study's digest, and so of what a journal may be resumed with. How a study is run
(threads, paths) is not.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from emulation.errors import EmulationError
from emulation.scenario.files import first_fault, read_document
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Ensemble, canonical_json
from training.errors import TrainingError
from training.evaluation.executors import ExecutorName
from training.fields import StudyPart
from training.objectives import ObjectiveSettings
from training.registered import OBJECTIVES, SEARCHES, package_of
from training.searches import DdsChoice, SearchSettings, Space, space_of
from training.verification.settings import VerifySettings
from training.workloads import ClockSettings, Sample, State, WorkloadSettings
from training.workloads.axes import AxesSettings

DEFAULTS = "defaults"
AxisName = Literal["throughput", "min_rtt", "limit"]


class ConfirmSettings(StudyPart):
    """After a search its best point and the candidates run on cases that did not train.

    The best of them wins that beats the first candidate by more than chance; else that one does.
    """

    sample: Sample = Sample()
    lenience_se: float = Field(
        1.0, ge=0, description="standard errors: costs must be lower by so many, and requirements may lack so many"
    )


class StageSettings(StudyPart):
    """One search for each group of states."""

    name: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    group_by: tuple[AxisName, ...] = Field((), description="axes whose levels have a search each; none: one for all")
    held_from: dict[str, str] = Field({}, description="parameters that are not searched, by the stage they come from")
    candidates_from: tuple[str, ...] = Field(
        (), description="`defaults` or earlier stages, whose points are evaluated, too; the first is the baseline"
    )
    neighbours: int = Field(0, ge=0, description="levels of the first axis on each side whose points are candidates")
    scales: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (), description="candidates of the single set again, the parameters with a range of their class times these"
    )
    search: SearchSettings | None = Field(None, description="none: the study's")
    sample: Sample = Sample()
    margin_se: float | None = Field(None, description="instead of the objective's")
    confirm: ConfirmSettings | None = None


class TrackingSettings(StudyPart):
    """How flows track the target of their class (kmod/core/tracking.h)."""

    gain_permille: int = Field(1000, ge=1, description="how strongly a flow follows its share of late packets")
    least_pct: int = Field(50, description="least share of its row's delay parameter that a flow goes down to")
    most_pct: int = Field(200, description="largest multiple of it that a flow goes up to")

    def columns(self) -> dict[str, int]:
        """As parameters of the algorithm."""
        return {f"tracking_{name}": value for name, value in self.model_dump().items()}


class StudySettings(StudyPart):
    """One search over all states of one algorithm."""

    schema_: Literal["ccatune-study/2"] = Field(alias="schema")
    cca: str = Field(description="an algorithm of kmod/core with tuned parameters")
    seed: int = Field(1, ge=0, lt=2**64)
    axes: AxesSettings
    clock: ClockSettings = ClockSettings()
    workload: WorkloadSettings
    objective: ObjectiveSettings
    ranges: dict[str, tuple[int, int]] = Field({}, description="search ranges within params.def")
    fixed: dict[str, int] = Field(
        {},
        exclude_if=lambda values: not values,
        description="values of parameters that tables may contain and searches do not set",
    )
    search: SearchSettings = DdsChoice()
    stages: tuple[StageSettings, ...] = Field((), description="none: a single set for all states, then each state")
    rounds: tuple[float, ...] = Field(
        (0.125, 0.25, 0.5, 1.0), description="shares of the cases after which hopeless points stop"
    )
    tracking: TrackingSettings | None = Field(None, description="flows track their target; none: they do not")
    verify: VerifySettings | None = Field(None, description="runs on a real kernel after the search; none: no such run")
    executor: ExecutorName = Field(
        "threads", exclude=True, description="where searches run, unless the command says it; no part of the digest"
    )
    datasets: tuple[str, ...] = Field((), description="only recordings of these datasets train; empty: of all")

    @model_validator(mode="after")
    def _known(self) -> StudySettings:
        if self.cca not in ALGORITHMS:
            raise ValueError(f"expected an algorithm among {', '.join(ALGORITHMS)}, got {self.cca!r}")
        self.workload.check(self.levels)
        self._check_tracking()
        try:
            spaces = [self.space(delay_class) for delay_class in range(self.n_classes)]
        except TrainingError as error:
            raise ValueError(str(error)) from error
        if self.verify is not None:
            self.verify.check(workload=self.workload.kind, states=self.states, n_classes=self.n_classes)
        seen: list[StageSettings] = []
        for stage in self.all_stages:
            self._check_stage(stage, seen)
            seen.append(stage)
        if seen[-1].group_by != tuple(self.levels):
            raise ValueError(f"expected a last stage grouped by {', '.join(self.levels)}, got {seen[-1].group_by}")
        if not any(not stage.group_by for stage in seen):
            raise ValueError("expected a stage without group_by: the single set, which learning is compared with")
        uses_defaults = any(DEFAULTS in stage.candidates_from for stage in seen)
        for d in spaces[0].dimensions if self.n_classes == 1 and uses_defaults else ():
            if not d.low <= ALGORITHMS[self.cca].param(d.name).default <= d.high:
                raise ValueError(f"expected a range of {d.name} with its default "
                                 f"{ALGORITHMS[self.cca].param(d.name).default}, got {d.low} to {d.high}")  # fmt: skip
        return self

    def _check_tracking(self) -> None:
        if self.tracking is None:
            return
        specs = {spec.name: spec for spec in ALGORITHMS[self.cca].columns}
        for name, value in self.tracking.columns().items():
            if name not in specs:
                raise ValueError(f"tracking: expected an algorithm whose flows can track a target, got {self.cca}, "
                                 f"which has no parameter {name}")  # fmt: skip
            if not specs[name].minimum <= value <= specs[name].maximum:
                raise ValueError(f"tracking: expected {name} from {specs[name].minimum} to {specs[name].maximum}, "
                                 f"got {value}")  # fmt: skip
        if not self.delay_classes:
            raise ValueError("tracking: expected an objective with delay classes, whose targets flows track")

    def _check_stage(self, stage: StageSettings, earlier: list[StageSettings]) -> None:
        known = {one.name: one for one in earlier}
        at = f"stage {stage.name}:"
        if stage.name == "verify":
            raise ValueError(f"{at} expected another name, which parts of the verification have in the journal")
        if stage.name in known:
            raise ValueError(f"{at} expected a name of its own, got it twice")
        if stage.group_by != tuple(name for name in self.levels if name in stage.group_by):
            raise ValueError(f"{at} expected axes among {', '.join(self.levels)} in that order, got {stage.group_by}")
        fitting = [name for name, one in known.items() if set(one.group_by) <= set(stage.group_by)]
        for name in [*stage.held_from.values(), *(one for one in stage.candidates_from if one != DEFAULTS)]:
            if name not in fitting:
                raise ValueError(f"{at} expected an earlier stage that is grouped by no other axes "
                                 f"({', '.join(fitting) or 'none'}), got {name!r}")  # fmt: skip
        if held := set(stage.held_from) - set(self.names):
            raise ValueError(f"{at} expected held parameters among {', '.join(self.names)}, got {', '.join(held)}")
        search = self.search_of(stage)
        if search.kind == "local" and not stage.candidates_from:
            raise ValueError(f"{at} expected candidates_from with a local search, got none")
        if search.aim and not self.objective.has_boundary:
            raise ValueError(f"{at} expected a search without aim: its objective has no boundary of delay")
        if stage.confirm is not None and not stage.candidates_from:
            raise ValueError(f"{at} expected candidates_from with confirm, got none")

    @cached_property
    def levels(self) -> dict[str, Axis]:
        """The axes by name, in the order of a state's levels."""
        return self.axes.of(ALGORITHMS[self.cca])

    @property
    def all_stages(self) -> tuple[StageSettings, ...]:
        """The stages, in order."""
        default = (StageSettings(name="single"), StageSettings(name="state", group_by=tuple(self.levels)))
        return self.stages or default

    def search_of(self, stage: StageSettings) -> SearchSettings:
        """A stage's search: its own, or the study's."""
        return stage.search or self.search

    @property
    def registered(self) -> dict[str, str]:
        """The packages and files outside ccatune that define its objective and searches.

        Packages have their versions, by kind. Files have their digests, by class.

        Raises:
            TrainingError: see RayChoice.versions.
        """
        searches = [self.search_of(stage) for stage in self.all_stages]
        found: dict[str, str | None] = {choice.kind: package_of(SEARCHES, choice) for choice in searches}
        found |= {name: number for choice in searches for name, number in choice.versions().items()}
        found |= {self.objective.kind: package_of(OBJECTIVES, self.objective)}
        return {kind: package for kind, package in found.items() if package is not None}

    @property
    def uses_models(self) -> bool:
        """Whether a search takes its points from a model of another package, whose version matters then."""
        return any(self.search_of(stage).kind in {"ray", "botorch", "surrogate"} for stage in self.all_stages)

    @property
    def single(self) -> StageSettings:
        """The stage that searches one set for all states."""
        return next(stage for stage in self.all_stages if not stage.group_by)

    @property
    def states(self) -> list[State]:
        """All states, in the order of an ensemble's rows."""
        return list(product(*(range(axis.count) for axis in self.levels.values())))

    @property
    def delay_classes(self) -> tuple[DelayClass, ...]:
        """The ensemble's classes; none of an objective without delay targets."""
        return self.objective.delay_classes

    @property
    def n_classes(self) -> int:
        """Searches of each group; 1 without delay classes."""
        return max(len(self.delay_classes), 1)

    @property
    def names(self) -> tuple[str, ...]:
        """The tuned parameters and then the fixed ones, in the order of a point's values."""
        return (*(spec.name for spec in ALGORITHMS[self.cca].tuned), *self.fixed)

    def space(self, delay_class: int) -> Space:
        """The box that the searches of a class move in."""
        ranges = {**self.ranges, **self.objective.ranges(delay_class)}
        return space_of(ALGORITHMS[self.cca], ranges, self.fixed)

    @property
    def digest(self) -> str:
        """sha256 (hex) over the canonical form of all settings."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json", by_alias=True))).hexdigest()


def study_of(ensemble: Ensemble) -> StudySettings:
    """The study in the provenance of an ensemble.

    Raises:
        TrainingError: its provenance holds none, or one of another version.
    """
    found = ensemble.provenance.get("study")
    try:
        return StudySettings.model_validate(found)
    except ValidationError as error:
        fault = "got none" if found is None else f"got one of another version ({first_fault(error)})"
        raise TrainingError(
            f"ensemble {ensemble.digest}: expected the study in its provenance, {fault}; train it with this version"
        ) from error


def load_study(path: str | Path, *, family: str | None = None, cca: str | None = None) -> StudySettings:
    """Read a study's YAML file. family: its algorithm is this one, or this one built on another. cca: replaces it.

    Raises:
        TrainingError: it cannot be read, is no YAML, or does not fit the model; with the field's name.
    """
    path = Path(path)
    try:
        data = read_document(path, what="a study", holding="schema, cca and the choices of training")
    except EmulationError as error:
        raise TrainingError(str(error)) from error
    if family is not None and "cca" in data and str(data["cca"]).partition("_")[0] != family:
        raise TrainingError(f"{path}: expected a study of {family}, got one of {data['cca']!r}")
    if cca is not None:
        data["cca"] = cca
    names = [field.alias or name for name, field in StudySettings.model_fields.items()]
    try:
        return StudySettings.model_validate(data)
    except ValidationError as error:
        raise TrainingError(f"{path}: {first_fault(error, known=lambda at: () if at[:-1] else names)}") from error
