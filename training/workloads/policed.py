# SPDX-License-Identifier: MIT
"""The workload `policed`: files and downloads through token buckets, and over links without a limit.

    limited     sender -> policer (R, B) -> access link -> jitter: a file of B + R x some time; every other one is
                two halves, each on a connection of its own, so that the second knows what the first has found
    lifted      the same, a download without end. At some time the policer's rate is raised; goodput counts from then on
    unlimited   sender -> a recorded link -> jitter -> (bursts of loss, every other time that all buffers were used):
                a download

R, RTT, B, access rate and times are drawn evenly on a logarithmic scale, R and RTT within the levels of a state. R
belongs to the axis of limits, or of throughput where the algorithm has none. Each case is drawn by itself from the
study's seed, its purpose, its state and its number. Further cases of a state therefore leave the others as they are,
and no case that confirms or validates was drawn for training.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from emulation.run.jobs import BYTES_PER_S
from emulation.scenario.model import WIRE, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import GilbertElliott, Jitter, Policer, RateStep, SteppedPolicer
from emulation.traces import Recording, place_of
from kmod.ensemble import Axis
from training.fields import StudyPart
from training.workloads.axes import level_bounds
from training.workloads.case import Case, Purpose, Sample, Setting, State, Workload
from training.workloads.paths import Drawn, drawn

Kind = Literal["limited", "lifted", "unlimited"]
KINDS: tuple[Kind, ...] = ("limited", "lifted", "unlimited")
PURPOSES: tuple[Purpose, ...] = ("training", "validation", "confirming")
MOST_TIMES = 4.0  # a file that takes so many times as long as R takes for it is not waited for


class Burst(StudyPart):
    """Loss in bursts (emulation/scenario/path.py, GilbertElliott)."""

    to_bad: float = Field(gt=0, le=1)
    to_good: float = Field(gt=0, le=1)
    loss_bad: float = Field(gt=0, le=1)


class LiftedSettings(StudyPart):
    """A download through a limit that is raised; goodput counts from then on."""

    over_limit: Drawn = Field((4.0, 20.0), description="the new limit over the old one")
    most_mbps: float = Field(40.0, gt=0, le=1e4, description="and at most this")
    access_mbps: float = Field(100.0, gt=0, le=1e4)
    at_s: float = Field(20.0, gt=0, le=3600)
    for_s: float = Field(20.0, gt=0, le=3600)


class UnlimitedSettings(StudyPart):
    """Downloads over recorded links without a limit: a client that is taken for limited there is so falsely."""

    download_s: float = Field(30.0, gt=1, le=3600)
    buffers_pkts: tuple[Annotated[int, Field(ge=1, lt=2**32)], ...] = Field((30, 100, 300, 1000), min_length=1)
    burst: Burst = Field(
        Burst(to_bad=0.0005, to_good=0.02, loss_bad=0.6), description="loss in bursts after every other link"
    )


class CaseCounts(StudyPart):
    """How many cases of each kind."""

    limited: int = Field(24, ge=2, le=10_000, description="of each state")
    lifted: int = Field(0, ge=0, le=10_000, description="of each state")
    unlimited: int = Field(0, ge=0, le=100_000, description="of each level of the round trip")


class PolicedSettings(StudyPart):
    """The distributions that cases are drawn from; configs/studies/rtcp.yaml gives the reasons."""

    kind: Literal["policed"]
    cases: CaseCounts = CaseCounts()
    rtt_ms: Drawn = Field((20.0, 160.0), description="round trips, where no axis gives them")
    bucket_bytes: Drawn = Field((60_000.0, 1_000_000.0), description="B")
    access_over_limit: Drawn = Field((2.0, 30.0), description="the access link's rate over R")
    limited_s: Drawn = Field((20.0, 90.0), description="how long R carries the file, once the bucket is empty")
    idle_s: float = Field(5.0, ge=0, le=3600, description="every other file is two, on connections so far apart")
    buffer_pkts: int = Field(1000, ge=1, lt=2**32, description="of the access link")
    jitter_ms: float = Field(2.0, gt=0, le=100)
    lifted: LiftedSettings = LiftedSettings()
    unlimited: UnlimitedSettings = UnlimitedSettings()

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse axes without a rate.

        Raises:
            ValueError: neither limits nor throughput.
        """
        if not {"limit", "throughput"} & set(axes):
            raise ValueError(f"expected an axis limit or throughput with the workload policed, got {', '.join(axes)}")

    @property
    def needs_recordings(self) -> bool:
        """Downloads without a limit run over recorded links."""
        return self.cases.unlimited > 0

    def open(self, setting: Setting) -> Policed:
        """The workload."""
        return Policed(self, setting)


class _Draw:
    """The random numbers of one case."""

    def __init__(self, seed: int, purpose: Purpose, kind: Kind, state: State, number: int):
        place = (seed, PURPOSES.index(purpose), KINDS.index(kind), *state, number)
        self._rng = np.random.default_rng(place)
        self.number = number
        self.key = hashlib.sha256(" ".join(map(str, place)).encode()).hexdigest()

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.key[:12], 16)

    def share(self) -> float:
        """From 0 to 1."""
        return float(self._rng.random())

    def between(self, ends: tuple[float, float]) -> float:
        return drawn(self._rng, ends)


class Policed(Workload):
    """Cases with and without rate limits."""

    def __init__(self, settings: PolicedSettings, setting: Setting) -> None:
        self._settings = settings
        self._setting = setting
        names = list(setting.axes)
        self._rate_at = names.index("limit" if "limit" in names else "throughput")
        self._rtt_at = names.index("min_rtt") if "min_rtt" in names else None
        self._flow = FlowSpec(cca=setting.cca)

    def cases(self, states: Sequence[State], purpose: Purpose, sample: Sample) -> list[Case]:
        """See Workload. Each level of the round trip has its share of downloads without a limit."""
        counts = self._settings.cases
        limited, lifted = (max(round(sample.share * n), min(n, 1)) for n in (counts.limited, counts.lifted))
        found = [case for state in states
                 for case in self.with_limit(state, limited=limited, lifted=lifted, purpose=purpose)]  # fmt: skip
        share = sample.unlimited_share
        for rtt in sorted({self._rtt_level(state) for state in states}):
            count = counts.unlimited if share else 0
            its = self.without_limit(rtt, count=count, purpose=purpose)
            found += [case for n, case in enumerate(its) if math.floor((n + 1) * share) > math.floor(n * share)]
        return found

    def with_limit(self, state: State, *, limited: int, lifted: int, purpose: Purpose) -> list[Case]:
        """So many cases of a state with a limit that stays, and with one that is raised."""
        seed = self._setting.seed
        return [
            *(self._limited(state, _Draw(seed, purpose, "limited", state, n)) for n in range(limited)),
            *(self._lifted(state, _Draw(seed, purpose, "lifted", state, n)) for n in range(lifted)),
        ]

    def without_limit(self, rtt: int, *, count: int, purpose: Purpose) -> list[Case]:
        """Downloads, equally many over each dataset. Their places are spread evenly over its recorded time."""
        if not count:
            return []
        recordings = sorted(self._setting.recordings, key=lambda recording: (recording.name, recording.trace.digest))
        datasets = sorted({recording.dataset for recording in recordings})
        parts = -(-count // len(datasets))
        found = []
        for number in range(count):
            dataset = datasets[number % len(datasets)]
            its = [recording for recording in recordings if recording.dataset == dataset]
            turn = number // len(datasets)
            draw = _Draw(self._setting.seed, purpose, "unlimited", (rtt, 0), number)
            place = place_of(its, share=(turn + draw.share()) / parts)
            found.append(self._unlimited(rtt, *place, draw, turn=turn))
        return found

    def _rtt_level(self, state: State) -> int:
        return 0 if self._rtt_at is None else state[self._rtt_at]

    def _rtt_ms(self, level: int, draw: _Draw) -> float:
        if self._rtt_at is None:
            return draw.between(self._settings.rtt_ms)
        axis = list(self._setting.axes.values())[self._rtt_at]
        return draw.between(level_bounds(axis, level)) / 1000

    def _path(self, state: State, draw: _Draw) -> tuple[float, float, int]:
        """R in Mbit/s, RTT in ms, B in bytes."""
        rtt_ms = self._rtt_ms(self._rtt_level(state), draw)
        axis = list(self._setting.axes.values())[self._rate_at]
        limit_mbps = draw.between(level_bounds(axis, state[self._rate_at])) * WIRE / BYTES_PER_S
        return limit_mbps, rtt_ms, round(draw.between(self._settings.bucket_bytes))

    def _limited(self, state: State, draw: _Draw) -> Case:
        s = self._settings
        limit_mbps, rtt_ms, bucket_bytes = self._path(state, draw)
        link = LinkSpec(
            rate_mbps=limit_mbps * draw.between(s.access_over_limit),
            rtt_ms=rtt_ms,
            buffer_pkts=s.buffer_pkts,
            before=(Policer(rate_mbps=limit_mbps, bucket_bytes=bucket_bytes),),
            behind=(Jitter(max_ms=s.jitter_ms),),
        )
        size_bytes = round(bucket_bytes + draw.between(s.limited_s) * limit_mbps * BYTES_PER_S)
        halves = 1 + draw.number % 2
        first = FlowSpec(cca=self._setting.cca, size_bytes=size_bytes // halves)
        second = FlowSpec(cca=self._setting.cca, size_bytes=size_bytes // halves, after=0, start_s=s.idle_s)
        most_s = MOST_TIMES * size_bytes / (limit_mbps * BYTES_PER_S) + 30 + s.idle_s
        scenario = Scenario(
            name="limited", link=link, flows=(first, second)[:halves], duration_s=most_s, seed=draw.seed
        )
        return Case(draw.key, scenario, state, "limited", size_bytes, limit_mbps, order=0)

    def _lifted(self, state: State, draw: _Draw) -> Case:
        s, lifted = self._settings, self._settings.lifted
        limit_mbps, rtt_ms, bucket_bytes = self._path(state, draw)
        new_mbps = max(min(limit_mbps * draw.between(lifted.over_limit), lifted.most_mbps), limit_mbps)
        steps = (RateStep(at_s=0, rate_mbps=limit_mbps), RateStep(at_s=lifted.at_s, rate_mbps=new_mbps))
        link = LinkSpec(
            rate_mbps=lifted.access_mbps,
            rtt_ms=rtt_ms,
            buffer_pkts=s.buffer_pkts,
            before=(SteppedPolicer(steps=steps, bucket_bytes=bucket_bytes),),
            behind=(Jitter(max_ms=s.jitter_ms),),
        )
        scenario = Scenario(
            name="lifted",
            link=link,
            flows=(self._flow,),
            duration_s=lifted.at_s + lifted.for_s,
            warmup_s=lifted.at_s,
            seed=draw.seed,
        )
        carried = bucket_bytes + (limit_mbps * lifted.at_s + new_mbps * lifted.for_s) * BYTES_PER_S
        return Case(draw.key, scenario, state, "lifted", round(carried), limit_mbps, order=1)

    def _unlimited(self, rtt: int, recording: Recording, start_ms: int, draw: _Draw, *, turn: int) -> Case:
        unlimited = self._settings.unlimited
        buffers = unlimited.buffers_pkts
        lossy = turn // len(buffers) % 2 == 1
        burst = (GilbertElliott(**unlimited.burst.model_dump()),) if lossy else ()
        link = LinkSpec(
            trace=recording.trace,
            start_ms=start_ms,
            rtt_ms=self._rtt_ms(rtt, draw),
            buffer_pkts=buffers[turn % len(buffers)],
            behind=(Jitter(max_ms=self._settings.jitter_ms), *burst),
        )
        duration_s = unlimited.download_s
        scenario = Scenario(name="unlimited", link=link, flows=(self._flow,), duration_s=duration_s, seed=draw.seed)
        text = f"{draw.key}:{recording.trace.digest}:{start_ms}"
        carried = round(recording.trace.mean_rate_mbps * BYTES_PER_S * duration_s)
        state = tuple(rtt if at == self._rtt_at else 0 for at in range(len(self._setting.axes)))
        return Case(hashlib.sha256(text.encode()).hexdigest(), scenario, state, "unlimited", carried, order=2)
