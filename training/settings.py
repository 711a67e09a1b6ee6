# SPDX-License-Identifier: MIT
"""A study as its YAML file states it: every choice of training, by name.

Everything here is part of the study's digest, and so of what a journal may be
resumed with; how a study is run (threads, paths) is not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from emulation.errors import EmulationError
from emulation.files import first_fault, read_document
from kmod.abi import ALGORITHMS
from kmod.ensemble import Ensemble, canonical_json
from training.dds import DdsSearch, DdsSettings
from training.errors import TrainingError
from training.grid import GridSearch
from training.search import Search
from training.space import Point, Space, space_of

__all__ = [
    "ClassSettings",
    "DdsChoice",
    "EpochSettings",
    "GridChoice",
    "LinkSettings",
    "ObjectiveSettings",
    "RttSettings",
    "StudyPart",
    "StudySettings",
    "load_study",
    "make_search",
    "of_provenance",
    "read_study",
    "study_of",
]

MOST_RTTS = 8  # levels of the second axis

Rival = Literal["bbr", "bbr3", "cubic", "reno", "roccet"]
Model = TypeVar("Model", bound=BaseModel)


class StudyPart(BaseModel):
    """Any part of a study: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClassSettings(StudyPart):
    """A delay class (rho, Q)."""

    goal: Literal["throughput", "delay"] = Field(
        "throughput", description="most throughput with the delay at most Q; or least delay with goodput_share"
    )
    goodput_share: float = Field(0.95, gt=0, le=1, description="goal delay: of what the rival delivers, at least")
    rival: Rival | None = Field(None, description="goal delay: whose goodput is asked for; none: the objective's")
    percentile: int = Field(95, ge=1, le=99, description="rho: percentile of the queueing delay")
    queueing_delay_ms: int = Field(gt=0, description="Q: what the percentile may be; goal delay: names the class alone")
    aim: float = Field(1.0, gt=0, le=1, description="training asks for this share of Q: epochs not seen do worse")
    ranges: dict[str, tuple[int, int]] = Field({}, description="search ranges of this class, before the study's")

    @property
    def aim_us(self) -> int:
        """The delay that training asks for."""
        return round(self.queueing_delay_ms * 1000 * self.aim)


class LevelSettings(StudyPart):
    """The throughput axis (eq. 2)."""

    count: int = Field(40, ge=1, le=64, description="N: levels")
    step_kbps: int = Field(1000, ge=8, description="omega: width of a level")

    @property
    def step_bytes_per_s(self) -> int:
        """The width in the unit of the core's axis."""
        return self.step_kbps * 125


class EpochSettings(StudyPart):
    """Epochs, how they are measured, and how many a state trains on."""

    epoch_s: int = Field(30, ge=1, description="P")
    estimate_ms: int = Field(250, ge=1, description="gamma P: window in which a flow measures its level")
    epsilon_pct: int = Field(25, ge=0, le=1000, description="epsilon: delay band in which a row is kept")
    warmup_s: float = Field(3.0, ge=0, description="a flow runs this long before an epoch is measured")
    shortest_s: float = Field(10.0, gt=0, description="what is left of a recording trains from here on")
    least_capacity_kbps: float = Field(
        20.0, ge=0, description="an epoch with less capacity is an outage and teaches nothing"
    )
    minimum: int = Field(5, ge=1, description="a state with fewer epochs borrows from its neighbours")
    maximum: int = Field(24, ge=1, description="of more, this many are chosen, spread over time")
    borrow_levels: int = Field(3, ge=0, description="how far neighbours may be; beyond, a row is copied")

    @model_validator(mode="after")
    def _consistent(self) -> EpochSettings:
        if self.estimate_ms > self.epoch_s * 1000:
            raise ValueError("expected estimate_ms of at most an epoch")
        if self.minimum > self.maximum:
            raise ValueError("expected a minimum of at most the maximum")
        return self


class RttSettings(StudyPart):
    """The second axis, of minimum RTTs: octaves from the shortest on, each in equal parts (kmod.ensemble.Axis)."""

    shortest_ms: int = Field(20, ge=1, le=10_000, description="an octave begins here; below is the first level")
    per_octave: int = Field(1, ge=1, le=8)
    count: int = Field(4, ge=1, le=MOST_RTTS, description="levels; what is longer belongs to the last one")

    @property
    def paths_ms(self) -> tuple[float, ...]:
        """The RTT that each level trains on: its middle, by ratio."""
        return tuple(self.shortest_ms * 2 ** ((level + 0.5) / self.per_octave) for level in range(self.count))


class LinkSettings(StudyPart):
    """The emulated path, beside the recorded link."""

    rtt_ms: float = Field(100.0, gt=0, description="propagation delay, both ways together; not used with `rtts`")
    buffer_pkts: int = Field(1000, ge=1, description="drop-tail buffer")
    loss: float = Field(0.0, ge=0, lt=1, description="share of packets lost at random")


class ObjectiveSettings(StudyPart):
    """How the target is asked of a state's epochs (objective.py)."""

    rival: Rival = Field("bbr", description="whose goodput, with its defaults, the goal delay asks for")
    margin_se: float = Field(
        0.0, ge=0, description="standard errors over the epochs that the share within the target has to spare"
    )


class SingleSettings(StudyPart):
    """The search of the best single set of each target, which runs on the epochs of all levels."""

    steps: int | None = Field(None, ge=0, description="annealing evaluations; none: as many as a level's")


class FinalsSettings(StudyPart):
    """The second search of a level, on more of its epochs, among what the first ones found (finals.py)."""

    neighbours: int = Field(2, ge=0, description="levels on each side whose points take part")
    steps: int = Field(12, ge=0, description="annealing evaluations behind the points that take part")
    reach: float = Field(0.1, gt=0, le=0.5, description="half width of the box, as a share of each range's logarithm")
    minimum: int = Field(1, ge=1, description="a level with fewer epochs takes in its neighbours' until it has so many")
    maximum: int = Field(100, ge=1, description="epochs of a level at most")
    borrow_levels: int = Field(3, ge=0, description="how far these neighbours may be")
    scales: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (), description="the single set also takes part with the parameters of the class's own ranges times these"
    )
    margin_se: float | None = Field(None, ge=0, description="the objective's in the finals; none: as in the searches")

    @model_validator(mode="after")
    def _consistent(self) -> FinalsSettings:
        if self.minimum > self.maximum:
            raise ValueError("expected a minimum of at most the maximum")
        return self


class DdsChoice(DdsSettings):
    """DDS with its settings."""

    kind: Literal["dds"] = "dds"


class GridChoice(StudyPart):
    """Brute force."""

    kind: Literal["grid"] = "grid"
    counts: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        (12, 8, 12), description="values of each parameter, log-spaced"
    )


SearchChoice = Annotated[DdsChoice | GridChoice, Field(discriminator="kind")]


class StudySettings(StudyPart):
    """One search over all states of one algorithm."""

    schema_: Literal["ccatune-study/1"] = Field(alias="schema")
    cca: str = Field(description="an algorithm of kmod/core with tuned parameters")
    seed: int = Field(1, ge=0, lt=2**64)
    classes: tuple[ClassSettings, ...] = Field(min_length=1, max_length=8)
    levels: LevelSettings = LevelSettings()
    rtts: RttSettings | None = Field(None, description="none: one path, link.rtt_ms")
    epochs: EpochSettings = EpochSettings()
    link: LinkSettings = LinkSettings()
    ranges: dict[str, tuple[int, int]] = Field({}, description="search ranges within params.def")
    objective: ObjectiveSettings = ObjectiveSettings()
    search: SearchChoice = DdsChoice()
    single: SingleSettings = SingleSettings()
    finals: FinalsSettings | None = Field(None, description="none: a level keeps what its search found")
    rounds: tuple[float, ...] = Field(
        (0.125, 0.25, 0.5, 1.0), description="shares of the epochs after which hopeless points stop"
    )
    datasets: tuple[str, ...] = Field((), description="only recordings of these datasets train; empty: of all")

    @model_validator(mode="after")
    def _known(self) -> StudySettings:
        if self.cca not in ALGORITHMS:
            raise ValueError(f"expected an algorithm among {', '.join(ALGORITHMS)}, got {self.cca!r}")
        try:
            for delay_class in range(len(self.classes)):
                self.space(delay_class)
        except TrainingError as error:
            raise ValueError(str(error)) from error
        return self

    @model_validator(mode="after")
    def _goals_and_axes(self) -> StudySettings:
        if self.rtts is not None and len(ALGORITHMS[self.cca].axes) < 2:
            raise ValueError(f"expected rtts of an algorithm with two axes, got them for {self.cca}")
        aims = isinstance(self.search, DdsChoice) and self.search.aim > 0
        if aims and any(one.goal == "delay" for one in self.classes):
            raise ValueError("expected a search without aim where the goal is delay: it has no boundary of delay")
        return self

    @property
    def paths_ms(self) -> tuple[float, ...]:
        """The RTTs that train, one a level of the second axis; of one path where there is none."""
        return (self.link.rtt_ms,) if self.rtts is None else self.rtts.paths_ms

    def rival_of(self, asked: ClassSettings) -> str | None:
        """Whose goodput a class asks for; None: of goal throughput."""
        return None if asked.goal == "throughput" else asked.rival or self.objective.rival

    def defaults_of(self, delay_class: int) -> list[Point]:
        """The algorithm's defaults, within the class's ranges, where it asks for the goodput that they have."""
        if self.rival_of(self.classes[delay_class]) != self.cca:
            return []
        defaults = (spec.default for spec in ALGORITHMS[self.cca].tuned)
        return [self.space(delay_class).nearest(tuple(defaults))]

    @property
    def names(self) -> tuple[str, ...]:
        """The tuned parameters, in the order of a point's values."""
        return tuple(spec.name for spec in ALGORITHMS[self.cca].tuned)

    def space(self, delay_class: int) -> Space:
        """The box that the searches of a class move in."""
        return space_of(ALGORITHMS[self.cca], {**self.ranges, **self.classes[delay_class].ranges})

    @property
    def digest(self) -> str:
        """sha256 (hex) over the canonical form of all settings."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json", by_alias=True))).hexdigest()


def make_search(
    study: StudySettings, *, state: int, delay_class: int, seed: int | None = None, steps: int | None = None
) -> Search:
    """The study's search for one state and class.

    Classes of a state share their initial samples, so also the runs of these where their ranges are the same. Where a
    class asks for the goodput of the algorithm's own defaults, these are among DDS's samples.
    state: the level, or any other number of its own. seed, steps: instead of the study's.
    """
    choice = study.search
    if isinstance(choice, GridChoice):
        return GridSearch(study.space(delay_class), counts=choice.counts)
    if steps is not None:
        choice = choice.model_copy(update={"steps": steps})
    root = study.seed if seed is None else seed
    return DdsSearch(
        study.space(delay_class),
        settings=choice,
        samples_seed=(root, state),
        steps_seed=(root, state, delay_class + 1),
        known=study.defaults_of(delay_class),
    )


def of_provenance(ensemble: Ensemble, model: type[Model]) -> Model:
    """The study, as this model has it, that an ensemble says it came from.

    Raises:
        TrainingError: its provenance holds none, or one of another version.
    """
    try:
        return model.model_validate(ensemble.provenance.get("study"))
    except ValidationError as error:
        raise TrainingError(
            f"ensemble {ensemble.digest}: expected the study in its provenance, got {error.errors()[0]['msg']}; "
            "train it with this version"
        ) from error


def study_of(ensemble: Ensemble) -> StudySettings:
    """The study that an ensemble says it came from.

    Raises:
        TrainingError: its provenance holds none, or one of another version.
    """
    return of_provenance(ensemble, StudySettings)


def read_study(path: Path, model: type[Model], *, cca: str | None = None) -> Model:
    """Read the YAML file of a study that this model describes; cca: of this algorithm (None: of any).

    Raises:
        TrainingError: it cannot be read, is no YAML, or does not fit the model; with the field's name.
    """
    try:
        data = read_document(path, what="a study", holding="schema, cca and the choices of training")
    except EmulationError as error:
        raise TrainingError(str(error)) from error
    if cca is not None and data.get("cca", cca) != cca:
        raise TrainingError(f"{path}: expected a study of {cca}, got one of {data['cca']!r}")
    names = [field.alias or name for name, field in model.model_fields.items()]
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise TrainingError(f"{path}: {first_fault(error, known=lambda at: () if at[:-1] else names)}") from error


def load_study(path: Path, *, cca: str | None = None) -> StudySettings:
    """Read a study's YAML file; cca: of this algorithm (None: of any).

    Raises:
        TrainingError: it cannot be read, is no YAML, or does not fit the model; with the field's name.
    """
    return read_study(path, StudySettings, cca=cca)
