# SPDX-License-Identifier: MIT
"""A study of R-TCP as its YAML file states it: states, traffic, and how they are searched.

states    round trip x rate limit, both in octaves (kmod/core/rtcp_ensemble.h)
traffic   what each state trains on, drawn anew for each case (cases.py)

Everything here is part of the study's digest, and so of what a journal may be resumed with.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, Ensemble, canonical_json
from training.dds import DdsSettings
from training.errors import TrainingError
from training.settings import RttSettings, StudyPart, of_provenance, read_study
from training.space import Space, space_of

__all__ = ["DEFAULT", "RtcpCca", "RtcpStudySettings", "load_rtcp_study", "rtcp_study_of"]

RtcpCca = Literal["rtcp_cubic", "rtcp_bbr", "rtcp_bbr3"]
UNMODIFIED: dict[str, Literal["cubic", "bbr", "bbr3"]] = {"rtcp_cubic": "cubic", "rtcp_bbr": "bbr", "rtcp_bbr3": "bbr3"}
DEFAULT = {"reduction_permille": 600, "probe_every_rounds": 20, "probe_gain_permille": 200}  # the paper's, section 6
THETA = "reduction_permille"


def _ascending(ends: tuple[float, float]) -> tuple[float, float]:
    if not 0 < ends[0] <= ends[1]:
        raise ValueError(f"expected two ends above 0, the lower one first, got {list(ends)}")
    return ends


# The ends of what is drawn evenly on a logarithmic scale.
Drawn = Annotated[tuple[float, float], AfterValidator(_ascending)]


class Burst(StudyPart):
    """Loss in bursts (emulation/path.py, GilbertElliott)."""

    to_bad: float = Field(gt=0, le=1)
    to_good: float = Field(gt=0, le=1)
    loss_bad: float = Field(gt=0, le=1)


class LimitSettings(StudyPart):
    """The axis of estimated rate limits: octaves from the lowest on; below it, and not limited, is the first level."""

    lowest_kbps: int = Field(250, ge=8, le=1_000_000, description="of payload, as R-TCP counts; an octave begins here")
    per_octave: int = Field(1, ge=1, le=8)
    count: int = Field(5, ge=1, le=16, description="levels; what is higher belongs to the last one")


class LiftedSettings(StudyPart):
    """A download behind a limit that is raised; goodput counts from then on."""

    over_limit: Drawn = Field((4.0, 20.0), description="the new limit over the old one")
    most_mbps: float = Field(40.0, gt=0, le=1e4, description="and at most this")
    access_mbps: float = Field(100.0, gt=0, le=1e4)
    at_s: float = Field(20.0, gt=0, le=3600)
    for_s: float = Field(20.0, gt=0, le=3600)


class UnlimitedSettings(StudyPart):
    """Downloads over recorded links without a limit: where a client is taken for limited, that is false."""

    download_s: float = Field(30.0, gt=1, le=3600)
    buffers_pkts: tuple[Annotated[int, Field(ge=1, lt=2**32)], ...] = Field((30, 100, 300, 1000), min_length=1)
    burst: Burst = Field(
        Burst(to_bad=0.0005, to_good=0.02, loss_bad=0.6), description="loss in bursts behind every other link"
    )


class TrafficSettings(StudyPart):
    """What cases are drawn from; configs/studies/rtcp.yaml says why."""

    bucket_bytes: Drawn = Field((60_000.0, 1_000_000.0), description="B")
    access_over_limit: Drawn = Field((2.0, 30.0), description="the access link's rate over R")
    limited_s: Drawn = Field((20.0, 90.0), description="how long R carries the file, once the bucket is empty")
    idle_s: float = Field(5.0, ge=0, le=3600, description="every other file is two, on connections so far apart")
    buffer_pkts: int = Field(1000, ge=1, lt=2**32, description="of the access link")
    jitter_ms: float = Field(2.0, gt=0, le=100)
    lifted: LiftedSettings = LiftedSettings()
    unlimited: UnlimitedSettings = UnlimitedSettings()


class CaseSettings(StudyPart):
    """How many cases of each kind."""

    limited: int = Field(24, ge=2, le=10_000, description="of each state")
    lifted: int = Field(12, ge=2, le=10_000, description="of each state")
    unlimited: int = Field(300, ge=1, le=100_000, description="of each level of the round trip")


class AskedSettings(StudyPart):
    """What is asked beside fewest retransmissions (objective.py)."""

    goodput_share: float = Field(0.95, gt=0, le=1, description="of the unmodified algorithm's, at least, of each kind")
    paper_share: float = Field(0.999, gt=0, le=1, description="of the paper's setting's goodput, at least, of files")
    most_false: float = Field(0.005, gt=0, le=1, description="share of the clients without a limit taken for limited")
    margin_se: float = Field(0.5, ge=0, description="standard errors over the cases that the goodput has to spare")
    lenience_se: float = Field(
        1.0, ge=0, description="where a search is confirmed: that goodput may lack, and retransmissions be fewer by"
    )


class RtcpSearchSettings(StudyPart):
    """The three searches, each among what the one before found, and how they are confirmed (study.py)."""

    single: DdsSettings = DdsSettings(intervals=8, steps=10, box="follow")
    rtt: DdsSettings = DdsSettings(intervals=8, steps=12, box="follow")
    state: DdsSettings = DdsSettings(intervals=8, steps=14, box="follow")
    single_share: float = Field(
        0.25,
        gt=0,
        le=1,
        description="of the cases: the single set trains on it, and round trips on it of those behind a limit",
    )
    confirmed_on: float = Field(
        1.0, gt=0, le=100, description="cases drawn anew that confirm a search, over those that it trained on"
    )

    @model_validator(mode="after")
    def _without_aim(self) -> RtcpSearchSettings:
        if any(one.aim > 0 for one in (self.single, self.rtt, self.state)):
            raise ValueError("expected searches without aim: the goal has no boundary of delay")
        return self


class RtcpStudySettings(StudyPart):
    """One search over all states of R-TCP over one base algorithm."""

    schema_: Literal["ccatune-study/1"] = Field(alias="schema")
    cca: RtcpCca
    seed: int = Field(1, ge=0, lt=2**64)
    rtts: RttSettings = RttSettings(shortest_ms=10, count=5)
    limits: LimitSettings = LimitSettings()
    epoch_s: int = Field(30, ge=1, le=3600, description="a flow looks its row up that often at least")
    traffic: TrafficSettings = TrafficSettings()
    cases: CaseSettings = CaseSettings()
    objective: AskedSettings = AskedSettings()
    ranges: dict[str, tuple[int, int]] = Field({}, description="search ranges within params.def")
    search: RtcpSearchSettings = RtcpSearchSettings()
    datasets: tuple[str, ...] = Field((), description="only recordings of these datasets train; empty: of all")

    @model_validator(mode="after")
    def _holds_the_default(self) -> RtcpStudySettings:
        try:
            space = self.space
        except TrainingError as error:
            raise ValueError(str(error)) from error
        for d in space.dimensions:
            if not d.low <= DEFAULT[d.name] <= d.high:
                raise ValueError(f"expected a range of {d.name} with the paper's {DEFAULT[d.name]} in it, "
                                 f"got {d.low} to {d.high}")  # fmt: skip
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The tuned parameters, theta first, in the order of a point's values."""
        return tuple(spec.name for spec in ALGORITHMS[self.cca].tuned)

    @property
    def space(self) -> Space:
        """The box of theta, eta and gamma."""
        return space_of(ALGORITHMS[self.cca], self.ranges)

    @property
    def state_space(self) -> Space:
        """The box of eta and gamma alone."""
        return Space(tuple(d for d in self.space.dimensions if d.name != THETA))

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Least round trip and estimated rate limit."""
        rtt, limit = ALGORITHMS[self.cca].axes
        return (
            Axis(rtt.name, "log", self.rtts.shortest_ms * 1000, self.rtts.count, self.rtts.per_octave),
            Axis(limit.name, "log", self.limits.lowest_kbps * 125, self.limits.count, self.limits.per_octave),
        )

    @property
    def digest(self) -> str:
        """sha256 (hex) over the canonical form of all settings."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json", by_alias=True))).hexdigest()


def load_rtcp_study(path: Path) -> RtcpStudySettings:
    """Read a study's YAML file.

    Raises:
        TrainingError: it cannot be read, is no YAML, or does not fit the model; with the field's name.
    """
    return read_study(path, RtcpStudySettings)


def rtcp_study_of(ensemble: Ensemble) -> RtcpStudySettings:
    """The study that an ensemble of R-TCP says it came from.

    Raises:
        TrainingError: its provenance holds none, or one of another version.
    """
    return of_provenance(ensemble, RtcpStudySettings)


def is_rtcp(cca: str) -> bool:
    """Whether it is R-TCP, over whatever it is."""
    return cca in get_args(RtcpCca)
