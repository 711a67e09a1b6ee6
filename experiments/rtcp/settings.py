# SPDX-License-Identifier: MIT
"""The settings of `python -m experiments rtcp`, checked.

They describe operators with and without a limit, files, downloads, patterns of objects, and clients.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulation.scenario.files import read_settings
from emulation.scenario.model import MSS_BYTES, LinkSpec, Transfer
from emulation.scenario.path import Frozen, Policer, RateStep, SteppedPolicer
from emulation.scenario.video import Abr, VideoSpec
from experiments.figures import Seeds, SettingsPath
from training.intervals import LEAST_SEEDS

Megabits = Annotated[float, Field(gt=0, le=1e4)]
Milliseconds = Annotated[float, Field(gt=0, le=10_000)]
Bytes = Annotated[int, Field(ge=1500, lt=2**32)]
Size = Annotated[int, Field(ge=MSS_BYTES, le=10**9)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+$", max_length=32)]


class Limited(Frozen):
    """An operator with a policer of rate R and bucket B."""

    rate_mbps: Megabits
    bucket_bytes: Bytes
    rtt_ms: Milliseconds

    @property
    def policer(self) -> Policer:
        """The policer as an element of the path."""
        return Policer(rate_mbps=self.rate_mbps, bucket_bytes=self.bucket_bytes)


class Policing(Frozen):
    """Files of unmodified algorithms behind the first operator's policer, at all access rates."""

    longer_rtts_ms: tuple[Milliseconds, ...] = Field(min_length=2, description="of Appendix B, besides the operator's")
    seeds: Seeds = Field(description="at most so many of the runs of each file")


class Unlimited(Frozen):
    """An operator without a limit. Its link follows traces.

    dataset: the beginning of the names of its datasets. recording: a part of the names of its recordings. model: the
    model that makes traces if there are no recordings.
    """

    dataset: str
    recording: str = ""
    model: SettingsPath
    rtt_ms: Milliseconds
    moving: bool = Field(default=False, description="the client rides along")


class Disturbed(Frozen):
    """Downloads without a limit over paths that bunch packets or ACKs, or lose packets.

    paths: for each path the fields of the scenario's link that differ from those of the trace's link alone.
    """

    download_s: float = Field(gt=1, le=3600)
    runs: int = Field(ge=1, le=10_000, description="of each path and algorithm over each link")
    links: dict[Name, Unlimited] = Field(min_length=1)
    paths: dict[Name, dict[str, Any]] = Field(min_length=1)

    @model_validator(mode="after")
    def _valid(self) -> Disturbed:
        for path in self.paths.values():
            LinkSpec.model_validate({"rate_mbps": 1, **path})
        return self


class Burst(Frozen):
    """Loss in bursts (emulation/scenario/path.py, GilbertElliott)."""

    to_bad: float = Field(gt=0, le=1)
    to_good: float = Field(gt=0, le=1)
    loss_bad: float = Field(gt=0, le=1)


class Map(Frozen):
    """Token buckets over B and R, on the same path."""

    rates_mbps: tuple[Megabits, ...] = Field(min_length=1)
    buckets_bytes: tuple[Bytes, ...] = Field(min_length=1)
    rtt_ms: Milliseconds
    runs: int = Field(ge=1, le=10_000)


class Pattern(Frozen):
    """Data objects on one connection behind one of the limited operators."""

    limited: str
    transfers: tuple[Transfer, ...] = Field(min_length=1)


class Second(Frozen):
    """Two consecutive connections to one client behind a limited operator."""

    limited: str
    idle_s: float = Field(ge=0, le=3600, description="from the last ACK of the first to the second's start")


class Connection(Frozen):
    """Data objects on one of several connections."""

    start_s: float = Field(0.0, ge=0, le=3600)
    transfers: tuple[Transfer, ...] = Field(min_length=1)


class Connections(Frozen):
    """Concurrent connections to one client behind a limited operator."""

    limited: str
    flows: tuple[Connection, ...] = Field(min_length=2)


class LiftedGrid(Frozen):
    """The limits and RTTs for which the report shows that a flow regains the new rate."""

    rates_mbps: tuple[Megabits, ...] = Field(min_length=1)
    rtts_ms: tuple[Milliseconds, ...] = Field(min_length=1)
    at_s: float = Field(gt=0, le=3600)
    for_s: float = Field(gt=10, le=3600, description="how long a run is watched after the limit was lifted")
    runs: Seeds


class Freed(Frozen):
    """A connection behind a limit, and then a connection to the same client without a limit."""

    rates_mbps: tuple[Megabits, ...] = Field(min_length=1)
    rtts_ms: tuple[Milliseconds, ...] = Field(min_length=1)
    bucket_bytes: Bytes
    size_bytes: Size = Field(description="of the second connection")
    limited_s: float = Field(gt=0, le=3600, description="what the first sends after the bucket, in seconds of R")
    access_mbps: Megabits
    runs: Seeds


class Lifted(Frozen):
    """A policer whose rate is raised during a download; without and with random loss."""

    from_mbps: Megabits
    to_mbps: Megabits
    at_s: float = Field(gt=0, le=3600)
    bucket_bytes: Bytes
    rtt_ms: Milliseconds
    access_mbps: Megabits
    losses: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field(min_length=1)
    grid: LiftedGrid

    def at(self, rate_mbps: float, rtt_ms: float) -> Lifted:
        """The same settings at a place of the grid."""
        update = {"from_mbps": rate_mbps, "rtt_ms": rtt_ms, "at_s": self.grid.at_s}
        return self.model_copy(update=update)

    @property
    def policer(self) -> SteppedPolicer:
        """The policer as an element of the path."""
        steps = (RateStep(at_s=0, rate_mbps=self.from_mbps), RateStep(at_s=self.at_s, rate_mbps=self.to_mbps))
        return SteppedPolicer(steps=steps, bucket_bytes=self.bucket_bytes)


class Probing(Frozen):
    """A file behind some limited operators, by how often (eta) and how high (gamma) R-TCP probes the cap."""

    limited: tuple[str, ...] = Field(min_length=1)
    size_bytes: Size
    every_rounds: tuple[Annotated[int, Field(ge=2, le=1000)], ...] = Field(min_length=2, description="eta")
    gains_permille: tuple[Annotated[int, Field(ge=10, le=2000)], ...] = Field(min_length=2, description="gamma")
    runs: Seeds

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """The rows of a table: eta in rounds, and gamma in permille."""
        return tuple(product(self.every_rounds, self.gains_permille))


class Fairness(Frozen):
    """Two files to one client behind a limited operator. The second one starts during the first."""

    limited: str
    size_bytes: Size
    joins_s: float = Field(gt=5, le=3600)


class VideoSettings(Frozen):
    """The videos, and the ABRs that choose their bitrates. The ABR of `video` itself is not used."""

    abrs: tuple[Abr, ...] = Field(min_length=1)
    sessions: int = Field(ge=2, le=100)
    idle_s: float = Field(ge=0, le=3600, description="from the last chunk of a session to the next one's start")
    spread: float = Field(ge=0, lt=1, description="sizes are within 1 +- this of bitrate x duration, evenly")
    video: VideoSpec

    @model_validator(mode="after")
    def _playable(self) -> VideoSettings:
        for abr in self.abrs:
            self.chosen_by(abr)
        return self

    def chosen_by(self, abr: str) -> VideoSpec:
        """The video with that ABR.

        Raises:
            ValueError: the video does not suit the ABR.
        """
        return VideoSpec.model_validate({**self.video.model_dump(), "abr": abr})


class Baseline(Frozen):
    """The runs that another detector observes."""

    runs: int = Field(ge=1, le=1_000_000, description="of each cell; of patterns as many as seeds")


class RtcpSettings(Frozen):
    """All settings. configs/reports/rtcp.yaml says which are the paper's, and which this project's."""

    seeds: Seeds = Field(description=f"of each file and pattern, at least {LEAST_SEEDS}")
    runs: int = Field(ge=1, le=1_000_000, description="of each cell of detection")
    sizes_bytes: tuple[Size, ...] = Field(min_length=2)
    access_mbps: tuple[Megabits, ...] = Field(min_length=1)
    buffer_pkts: int = Field(ge=1, lt=2**32)
    jitter_ms: float = Field(gt=0, le=100)
    download_s: float = Field(gt=1, le=3600)
    limited: dict[Name, Limited] = Field(min_length=1)
    policing: Policing
    policer: Literal["before", "behind"] = Field("before", description="of policing, seen from the access link")
    rules: Literal["own", "paper"] = Field("own", description="R-TCP's probing in all parts, except `probing`")
    unlimited: dict[Name, Unlimited] = Field(min_length=1)
    buffers_pkts: tuple[Annotated[int, Field(ge=1, lt=2**32)], ...] = Field(min_length=1)
    burst: Burst
    disturbed: Disturbed
    map: Map
    patterns: dict[Name, Pattern] = Field(min_length=1)
    second: Second
    concurrent: dict[Name, Connections] = Field(min_length=1)
    lifted: Lifted
    freed: Freed
    probing: Probing
    fairness: Fairness
    baseline: Baseline
    video: VideoSettings

    @model_validator(mode="after")
    def _known(self) -> RtcpSettings:
        ascending = {"sizes_bytes": self.sizes_bytes, "probing.every_rounds": self.probing.every_rounds,
                     "probing.gains_permille": self.probing.gains_permille,
                     "policing.longer_rtts_ms": self.policing.longer_rtts_ms}  # fmt: skip
        for where, values in ascending.items():
            if list(values) != sorted(set(values)):
                raise ValueError(f"expected {where} ascending, each once, got {list(values)}")
        named = [(f"patterns.{name}", pattern.limited) for name, pattern in self.patterns.items()]
        named += [(f"concurrent.{name}", connections.limited) for name, connections in self.concurrent.items()]
        named += [("probing", limited) for limited in self.probing.limited]
        named += [("second", self.second.limited), ("fairness", self.fairness.limited)]
        for where, limited in named:
            if limited not in self.limited:
                raise ValueError(f"expected {where}.limited among {', '.join(self.limited)}, got {limited}")
        return self

    @property
    def traced(self) -> dict[str, Unlimited]:
        """All links that follow traces, by their names."""
        return {**self.unlimited, **self.disturbed.links}

    @property
    def policed(self) -> Limited:
        """The operator of `policing`: the first one."""
        return next(iter(self.limited.values()))

    @property
    def policed_rtts_ms(self) -> tuple[float, ...]:
        """The RTTs of `policing`, each once."""
        return tuple(dict.fromkeys((self.policed.rtt_ms, *self.policing.longer_rtts_ms)))


load_settings = partial(read_settings, model=RtcpSettings)
