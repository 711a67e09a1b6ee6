# SPDX-License-Identifier: MIT
"""What R-TCP trains and is judged on: cases behind token buckets, and over links without a limit.

    limited     sender -> policer (R, B) -> access link -> jitter: a file of B + R x some time; every other one is
                two halves, each on a connection of its own, so that the second knows what the first has found
    lifted      the same, a download without end; at some time the policer's rate is raised, from when on it counts
    unlimited   sender -> a recorded link -> jitter -> (bursts of loss, every other time that all buffers had a turn):
                a download

R, RTT, B, access rate and times are drawn evenly on a logarithmic scale, R and RTT within the levels of a state. Each
case is drawn by itself, from the study's seed, what it is for, its state and its number: so many more cases of a state
leave the others as they are, and neither what confirms a search nor what judges was drawn for training.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from emulation.path import GilbertElliott, Jitter, Policer, RateStep, SteppedPolicer
from emulation.scenario import WIRE, FlowSpec, LinkSpec, Scenario
from emulation.simulator import BYTES_PER_S
from emulation.traces import Recording, place_of
from kmod.ensemble import Axis
from training.cases import Case
from training.rtcp.settings import UNMODIFIED, RtcpStudySettings

__all__ = ["KINDS", "PURPOSES", "Kind", "Purpose", "bounds_of", "cases_of", "unlimited_cases"]

Kind = Literal["limited", "lifted", "unlimited"]
Purpose = Literal["training", "judging", "confirming"]
KINDS: tuple[Kind, ...] = ("limited", "lifted", "unlimited")
PURPOSES: tuple[Purpose, ...] = ("training", "judging", "confirming")
MOST_TIMES = 4.0  # a file that takes so many times as long as R takes for it is not waited for


def bounds_of(axis: Axis, level: int) -> tuple[float, float]:
    """From where to where a level of an axis in octaves reaches; the last one as far as if another followed."""
    octave, part = divmod(level, axis.per_octave)
    low, high = (axis.step * 2**octave * (1 + p / axis.per_octave) for p in (part, part + 1))
    return low, high


class _Draw:
    """The random numbers of one case."""

    def __init__(self, study: RtcpStudySettings, purpose: Purpose, kind: Kind, state: tuple[int, int], number: int):
        place = (study.seed, PURPOSES.index(purpose), KINDS.index(kind), *state, number)
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
        low, high = ends
        return float(low * math.exp(self._rng.random() * math.log(high / low)))


def cases_of(
    study: RtcpStudySettings, state: tuple[int, int], *, limited: int, lifted: int, purpose: Purpose = "training"
) -> list[Case]:
    """So many cases of a state behind a limit that stays, and behind one that is lifted."""
    files = [_limited(study, state, _Draw(study, purpose, "limited", state, n)) for n in range(limited)]
    return files + [_lifted(study, state, _Draw(study, purpose, "lifted", state, n)) for n in range(lifted)]


def _path(study: RtcpStudySettings, state: tuple[int, int], draw: _Draw) -> tuple[float, float, int]:
    """R in Mbit/s, RTT in ms, B in bytes."""
    rtt_axis, limit_axis = study.axes
    rtt_ms = draw.between(bounds_of(rtt_axis, state[0])) / 1000
    limit_mbps = draw.between(bounds_of(limit_axis, state[1])) * WIRE / BYTES_PER_S
    return limit_mbps, rtt_ms, round(draw.between(study.traffic.bucket_bytes))


def _limited(study: RtcpStudySettings, state: tuple[int, int], draw: _Draw) -> Case:
    traffic = study.traffic
    limit_mbps, rtt_ms, bucket_bytes = _path(study, state, draw)
    link = LinkSpec(
        rate_mbps=limit_mbps * draw.between(traffic.access_over_limit),
        rtt_ms=rtt_ms,
        buffer_pkts=traffic.buffer_pkts,
        before=(Policer(rate_mbps=limit_mbps, bucket_bytes=bucket_bytes),),
        behind=(Jitter(max_ms=traffic.jitter_ms),),
    )
    size_bytes = round(bucket_bytes + draw.between(traffic.limited_s) * limit_mbps * BYTES_PER_S)
    cca = UNMODIFIED[study.cca]
    halves = 1 + draw.number % 2
    first = FlowSpec(cca=cca, size_bytes=size_bytes // halves)
    flows = (first, FlowSpec(cca=cca, size_bytes=size_bytes // halves, after=0, start_s=traffic.idle_s))[:halves]
    most_s = MOST_TIMES * size_bytes / (limit_mbps * BYTES_PER_S) + 30 + traffic.idle_s
    scenario = Scenario(name="limited", link=link, flows=flows, duration_s=most_s, seed=draw.seed)
    return Case(draw.key, scenario, state, "limited", size_bytes, limit_mbps)


def _lifted(study: RtcpStudySettings, state: tuple[int, int], draw: _Draw) -> Case:
    traffic, lifted = study.traffic, study.traffic.lifted
    limit_mbps, rtt_ms, bucket_bytes = _path(study, state, draw)
    new_mbps = max(min(limit_mbps * draw.between(lifted.over_limit), lifted.most_mbps), limit_mbps)
    steps = (RateStep(at_s=0, rate_mbps=limit_mbps), RateStep(at_s=lifted.at_s, rate_mbps=new_mbps))
    link = LinkSpec(
        rate_mbps=lifted.access_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=traffic.buffer_pkts,
        before=(SteppedPolicer(steps=steps, bucket_bytes=bucket_bytes),),
        behind=(Jitter(max_ms=traffic.jitter_ms),),
    )
    scenario = Scenario(
        name="lifted",
        link=link,
        flows=(FlowSpec(cca=UNMODIFIED[study.cca]),),
        duration_s=lifted.at_s + lifted.for_s,
        warmup_s=lifted.at_s,
        seed=draw.seed,
    )
    carried = bucket_bytes + (limit_mbps * lifted.at_s + new_mbps * lifted.for_s) * BYTES_PER_S
    return Case(draw.key, scenario, state, "lifted", round(carried), limit_mbps)


def unlimited_cases(
    study: RtcpStudySettings, rtt: int, recordings: Sequence[Recording], *, count: int, purpose: Purpose = "training"
) -> list[Case]:
    """Downloads, each dataset the same number of them: one somewhere in each of as many equal parts of its time."""
    recordings = sorted(recordings, key=lambda recording: (recording.name, recording.trace.digest))
    datasets = sorted({recording.dataset for recording in recordings})
    parts = -(-count // len(datasets))
    found = []
    for number in range(count):
        dataset = datasets[number % len(datasets)]
        its = [recording for recording in recordings if recording.dataset == dataset]
        turn = number // len(datasets)
        draw = _Draw(study, purpose, "unlimited", (rtt, 0), number)
        place = place_of(its, share=(turn + draw.share()) / parts)
        found.append(_unlimited(study, rtt, *place, draw, turn=turn))
    return found


def _unlimited(
    study: RtcpStudySettings, rtt: int, recording: Recording, start_ms: int, draw: _Draw, *, turn: int
) -> Case:
    traffic, unlimited = study.traffic, study.traffic.unlimited
    buffers = unlimited.buffers_pkts
    lossy = turn // len(buffers) % 2 == 1
    burst = (GilbertElliott(**unlimited.burst.model_dump()),) if lossy else ()
    link = LinkSpec(
        trace=recording.trace,
        start_ms=start_ms,
        rtt_ms=draw.between(bounds_of(study.axes[0], rtt)) / 1000,
        buffer_pkts=buffers[turn % len(buffers)],
        behind=(Jitter(max_ms=traffic.jitter_ms), *burst),
    )
    flows = (FlowSpec(cca=UNMODIFIED[study.cca]),)
    duration_s = unlimited.download_s
    scenario = Scenario(name="unlimited", link=link, flows=flows, duration_s=duration_s, seed=draw.seed)
    text = f"{draw.key}:{recording.trace.digest}:{start_ms}"
    carried = round(recording.trace.mean_rate_mbps * BYTES_PER_S * duration_s)
    return Case(hashlib.sha256(text.encode()).hexdigest(), scenario, (rtt, 0), "unlimited", carried)
