# SPDX-License-Identifier: MIT
"""The settings of `python -m experiments pqsa`, read from configs/reports/pqsa.yaml and checked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from emulation.scenario.files import read_settings
from emulation.scenario.model import Cca
from emulation.scenario.path import Frozen
from experiments.figures import Seeds, SettingsPath

Times = tuple[Annotated[float, Field(gt=0, le=3600)], ...]
Counts = tuple[Annotated[int, Field(ge=1, le=100_000)], ...]
Bounds = tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(gt=0)]]


class PathSettings(Frozen):
    """The path around the links."""

    rtt_ms: float = Field(gt=0, le=10_000)
    buffer_pkts: int = Field(ge=1, lt=2**32)


class Varied(Frozen):
    """Values that are changed one at a time: figures 2, 3 and 12."""

    rtt_ms: Times = Field(min_length=2)
    buffer_pkts: Counts = Field(min_length=2)
    duration_s: Times = Field(min_length=2, description="of a run")


class Epochs(Frozen):
    """Table V: long flows with other epochs and estimation windows."""

    duration_s: float = Field(gt=0, le=3600, description="of a run, and the length of an epoch that never ends")
    runs: Seeds = Field(description="of each case at most")
    epoch_s: Times = Field(min_length=2)
    estimate_ms: Counts = Field(min_length=2, description="windows of eq. 1; the paper's gamma P")


class Fairness(Frozen):
    """Flows with one algorithm over a link of a constant rate."""

    rate_mbps: float = Field(gt=0, le=10_000)
    rtt_ms: Times = Field(min_length=1)
    flows: Counts = Field(min_length=1)
    later_s: float = Field(ge=0, description="time between the starts of two flows")
    together_s: float = Field(gt=0, description="the measured time, after the last start")
    jitter_ms: float = Field(gt=0, le=100, description="each packet waits up to this, in order")
    seeds: Seeds
    shared: dict[str, int] = Field(description="parameters of GR with which shares become equal")


class Dds(Frozen):
    """DDS as section IV prints it beside the default search."""

    study: SettingsPath = Field(description="of the default search, and of the number of points that both evaluate")
    states: int = Field(ge=1, description="spread over those with enough epochs")
    seeds: int = Field(ge=2)
    cases: int = Field(ge=1, description="epochs of each half at most")


class Paths(Frozen):
    """Single flows over disturbed paths, with a share gain and without one."""

    conditions: tuple[str, ...] = Field(min_length=1, description="of training/reports/conditions.py")
    flows: int = Field(ge=2, description="of each dataset")
    threshold_us: int = Field(ge=1000, description="T without a share gain")
    shared_us: Counts = Field(min_length=2, description="values of T with it, whose delays enclose that without it")


class PqsaSettings(Frozen):
    """All settings of the report."""

    ensemble: Path = Field(Path("report-pqsa.parts/ensemble.json"), description="trained if it does not exist")
    study: SettingsPath
    models: dict[str, SettingsPath] = Field(description="of stand-ins for the recordings, by place")
    datasets: dict[str, str] = Field(description="by place; without the suffix of its part")
    runs: Seeds
    duration_s: float = Field(gt=0, le=3600)
    path: PathSettings
    delay_class: int = Field(ge=0, le=7)
    rivals: tuple[Cca, ...] = Field(min_length=1)
    varied: Varied
    levels_mbps: dict[Literal["low", "high"], Bounds] = Field(
        min_length=2, description="mean rates of figures 13 and 14"
    )
    epochs: Epochs
    fairness: Fairness
    dds: Dds
    cost_rounds: Seeds
    paths: Paths


load_settings = partial(read_settings, model=PqsaSettings)
