# SPDX-License-Identifier: MIT
"""The unit of evaluation: one link, or a part of one, that flows run over; and the contract of a workload.

A case is plain data that can be sent to another process. It holds its piece of a recording, not the recording.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, model_validator

from emulation.scenario.model import Scenario
from emulation.traces import Recording
from kmod.ensemble import Axis
from training.fields import StudyPart
from training.progress import Progress

Purpose = Literal["training", "confirming", "validation"]
"""Data that train, data that confirm the result of a search, and data on which an ensemble is validated."""

State = tuple[int, ...]
"""A network state: its level on each axis."""


@dataclass(frozen=True, eq=False)
class Case:
    """A scenario. An algorithm is assigned to its flows when it runs (emulation.run.measures.Trial).

    key: names the content; equal keys, equal runs. state: the network state that it belongs to. group: its kind, for
    objectives that distinguish kinds. capacity_bytes: the most that its link carries; a run's cost is proportional to
    it. limit_mbps: the rate of its policer; not a number without one. order: cases with a lower number run first, so
    that an objective can stop a point that these alone show to be hopeless.
    """

    key: str
    scenario: Scenario
    state: State
    group: str
    capacity_bytes: int
    limit_mbps: float = math.nan
    order: int = 0

    @property
    def measured_s(self) -> float:
        """The time that counts: without the warm-up."""
        return self.scenario.duration_s - self.scenario.warmup_s

    @property
    def is_transfer(self) -> bool:
        """All flows are files; goodput is measured over the time that they take."""
        return all(flow.size_bytes is not None for flow in self.scenario.flows)


class ClockSettings(StudyPart):
    """The epochs of the flows that follow the ensemble (kmod/core/epoch.h)."""

    epoch_s: int = Field(30, ge=1, le=3600, description="P: length of an epoch")
    estimate_ms: int = Field(250, ge=1, description="gamma P: a flow measures its state over this window")
    epsilon_pct: int = Field(25, ge=0, le=1000, description="epsilon: band around the target in which a row is kept")

    @model_validator(mode="after")
    def _consistent(self) -> ClockSettings:
        if self.estimate_ms > self.epoch_s * 1000:
            raise ValueError("expected estimate_ms of at most an epoch")
        return self


class Sample(StudyPart):
    """A stage's choice of the cases of its states."""

    share: float = Field(1.0, gt=0, le=100, description="policed: of the cases with a limit; above 1: further cases")
    unlimited_share: float = Field(1.0, ge=0, le=1, description="policed: of the cases without a limit")
    maximum: int | None = Field(None, ge=1, description="epochs: of a state at most; none: the workload's")
    minimum: int = Field(1, ge=1, description="epochs: with a maximum; a state with fewer takes in its neighbours'")
    borrow_levels: int = Field(3, ge=0, description="epochs: with a maximum; how far these neighbours may be")

    @model_validator(mode="after")
    def _consistent(self) -> Sample:
        if self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("expected a minimum of at most the maximum")
        return self


@dataclass(frozen=True)
class Setting:
    """The study around a workload. axes: in the order of a state's levels, by name (workloads/axes.py)."""

    cca: str
    axes: Mapping[str, Axis]
    seed: int = 1
    clock: ClockSettings = field(default_factory=ClockSettings)
    recordings: Sequence[Recording] = ()
    unseen: Sequence[Recording] = ()
    threads: int = 1
    progress: Progress = field(default_factory=Progress)


class Workload(ABC):
    """The traffic and links that a study trains on, by network state."""

    def source(self, state: State) -> State:
        """The state whose row a state takes: itself, or another one where it has too little training data."""
        return state

    @abstractmethod
    def cases(self, states: Sequence[State], purpose: Purpose, sample: Sample) -> list[Case]:
        """The cases of these states together; none where there are none. sample: a stage's choice of them."""

    def of_state(self, state: State) -> dict[str, Any]:
        """JSON data for the provenance of a state."""
        del state
        return {}

    def provenance(self) -> dict[str, Any]:
        """JSON data for the provenance of all states."""
        return {}
