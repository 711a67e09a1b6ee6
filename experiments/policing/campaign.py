# SPDX-License-Identifier: MIT
"""Runs files through a policer, for each algorithm, access rate, RTT and size, with many seeds.

    sender -> policer (R, B) -> access link -> jitter -> receiver

In section 3.1 of R-TCP 2026 the server is on a fast network, and the policer drops packets before the mobile link. Each
file has its own connection and a full bucket. The paper achieves this with 15 s of silence, which bring more than four
times B. The seed determines the jitter and where the cycles of BBR begin.

    retransmission rate   retransmitted segments over sent segments
    goodput               the file's size over the time to its last ACK

A file that is not complete after 4 size / R + 30 s counts with that time.

Moments (Appendix A) come from a time series of the largest file:

    loss         time of the policer's first drop
    window       cwnd two RTTs after that drop, over cwnd at the drop, and over R RTT. The two RTTs are as measured at
                 the drop and include the access link's queue. The sender learns of a drop after one of them
    detection    time from which BBRv1's pacing rate stays constant for 12 RTTs. Its cycle alone changes the rate within
                 6 RTTs
    pacing       mean pacing rate from 5 s on, in wire bytes, which the policer counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emulation.errors import EmulationError
from emulation.run.qos import QoS
from emulation.run.simulator import simulate, simulate_many
from emulation.scenario.files import read_settings
from emulation.scenario.model import MSS_BYTES, WIRE, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Frozen, Jitter, Policer
from experiments.figures import Seeds
from training.intervals import LEAST_SEEDS

__all__ = ["CCAS", "Case", "Moments", "PolicingSettings", "Results", "load_settings", "run_campaign", "scenario_of"]

Cca = Literal["cubic", "bbr", "bbr3"]
Values = NDArray[np.float64]
Megabits = Annotated[float, Field(gt=0, le=1e4)]
Milliseconds = Annotated[float, Field(gt=0, le=10_000)]

CCAS: tuple[Cca, ...] = ("cubic", "bbr", "bbr3")
MOMENT_CCAS: tuple[Cca, ...] = ("bbr", "bbr3")
SERIES_EVERY_S = 0.01
SERIES_S = 20.0
STEADY_FROM_S = 5.0
CONSTANT_RTTS = 12


class PolicingSettings(Frozen):
    """The policer, the path around it, and the number of runs."""

    rate_mbps: Megabits = Field(description="R")
    bucket_bytes: int = Field(ge=1500, lt=2**32, description="B")
    rtt_ms: Milliseconds = Field(description="of the operator")
    longer_rtts_ms: tuple[Milliseconds, ...] = Field(min_length=2, description="of Appendix B, ascending")
    sizes_bytes: tuple[Annotated[int, Field(ge=MSS_BYTES, le=10**9)], ...] = Field(min_length=4)
    access_mbps: tuple[Megabits, ...] = Field(min_length=1)
    buffer_pkts: int = Field(ge=1, lt=2**32, description="most in the access link's queue")
    jitter_ms: float = Field(gt=0, le=100, description="each packet waits up to this, in order")
    policer: Literal["before", "behind"] = Field("before", description="where it is, seen from the access link")
    seeds: Seeds = Field(20, description=f"of each case, at least {LEAST_SEEDS}")

    @model_validator(mode="after")
    def _in_order(self) -> PolicingSettings:
        for name in ("longer_rtts_ms", "sizes_bytes", "access_mbps"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)):
                raise ValueError(f"expected {name} ascending, each once, got {list(values)}")
        if not self.sizes_bytes[0] < self.bucket_bytes < self.sizes_bytes[1]:
            raise ValueError(f"expected the first size alone below the bucket of {self.bucket_bytes} bytes")
        return self

    @property
    def all_rtts_ms(self) -> tuple[float, ...]:
        """The operator's RTT and the longer ones, each once."""
        return tuple(dict.fromkeys((self.rtt_ms, *self.longer_rtts_ms)))


@dataclass(frozen=True)
class Case:
    """A set of values that is run with every seed."""

    cca: Cca
    access_mbps: float
    rtt_ms: float
    size_bytes: int


@dataclass(frozen=True, eq=False)
class Files:
    """The runs of a case, one for each seed: float [seeds]. incomplete: the number of incomplete files."""

    retransmission_rate: Values
    goodput_mbps: Values
    incomplete: int


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of the largest file, one for each seed: float [seeds]. NaN: the event did not happen."""

    loss_s: Values
    window_share: Values
    window_bdps: Values
    detection_s: Values
    pacing_mbps: Values


@dataclass(frozen=True, eq=False)
class Results:
    """All runs. moments: by (algorithm, access rate, RTT)."""

    settings: PolicingSettings
    files: dict[Case, Files]
    moments: dict[tuple[Cca, float, float], Moments]


def load_settings(path: Path) -> PolicingSettings:
    """Read a file of settings.

    Raises:
        EmulationError: the file cannot be read, or has unexpected content.
    """
    return read_settings(path, PolicingSettings)


def scenario_of(settings: PolicingSettings, case: Case, *, seed: int, duration_s: float | None = None) -> Scenario:
    """The scenario of one file. duration_s: the longest time; None: 4 size / R + 30 s."""
    policer = Policer(rate_mbps=settings.rate_mbps, bucket_bytes=settings.bucket_bytes)
    is_before = settings.policer == "before"
    link = LinkSpec(
        rate_mbps=case.access_mbps,
        rtt_ms=case.rtt_ms,
        buffer_pkts=settings.buffer_pkts,
        before=(policer,) if is_before else (),
        behind=(*(() if is_before else (policer,)), Jitter(max_ms=settings.jitter_ms)),
    )
    most_s = 4 * case.size_bytes * 8e-6 / settings.rate_mbps + 30
    return Scenario(
        name=f"{case.cca}-{case.access_mbps:g}mbps-{case.rtt_ms:g}ms-{case.size_bytes}",
        link=link,
        flows=(FlowSpec(cca=case.cca, size_bytes=case.size_bytes),),
        duration_s=duration_s or most_s,
        seed=seed,
    )


def cases_of(settings: PolicingSettings) -> list[Case]:
    """All algorithms and sizes, at every access rate and RTT.

    The statements use the longer RTTs for BBRv1 only, but the picture shows all algorithms.
    """
    return [
        Case(cca, access, rtt_ms, size)
        for access in settings.access_mbps
        for rtt_ms in settings.all_rtts_ms
        for cca in CCAS
        for size in settings.sizes_bytes
    ]


def run_campaign(
    settings: PolicingSettings, *, threads: int | None = None, advance: Callable[[float], None] = lambda _share: None
) -> Results:
    """Run every case with every seed. advance: called with the number of runs since the previous call."""
    files = {}
    for case in cases_of(settings):
        scenarios = [scenario_of(settings, case, seed=seed) for seed in range(settings.seeds)]
        files[case] = _files_of(scenarios, simulate_many(scenarios, threads=threads))
        advance(float(settings.seeds))
    moments = {}
    for cca, access, rtt_ms in moment_keys(settings):
        moments[cca, access, rtt_ms] = _moments_of(settings, Case(cca, access, rtt_ms, settings.sizes_bytes[-1]))
        advance(float(settings.seeds))
    return Results(settings, files, moments)


def moment_keys(settings: PolicingSettings) -> list[tuple[Cca, float, float]]:
    """Both versions of BBR at the operator's RTT, and BBRv1 at the longer ones."""
    own = [(cca, access, settings.rtt_ms) for cca in MOMENT_CCAS for access in settings.access_mbps]
    longer: Iterable[tuple[Cca, float, float]] = (
        ("bbr", access, rtt_ms) for access in settings.access_mbps for rtt_ms in settings.longer_rtts_ms
    )
    return list(dict.fromkeys([*own, *longer]))


def _files_of(scenarios: list[Scenario], results: list[QoS]) -> Files:
    rates, goodputs, incomplete = [], [], 0
    for scenario, qos in zip(scenarios, results, strict=True):
        flow, size_bytes = qos.flows[0], scenario.flows[0].size_bytes or 0
        incomplete += flow.complete_s is None
        rates.append(flow.retransmission_rate)
        goodputs.append(size_bytes * 8e-6 / (flow.complete_s or scenario.duration_s))
    return Files(np.array(rates), np.array(goodputs), incomplete)


def _moments_of(settings: PolicingSettings, case: Case) -> Moments:
    rows = []
    for seed in range(settings.seeds):
        scenario = scenario_of(settings, case, seed=seed, duration_s=SERIES_S)
        qos = simulate(scenario, series_every_s=SERIES_EVERY_S)
        rows.append(_moments(settings, case, qos))
    return Moments(*np.array(rows).T)


def _moments(settings: PolicingSettings, case: Case, qos: QoS) -> tuple[float, float, float, float, float]:
    names = ("time_s", "cwnd_pkts", "pacing_mbps", "rtt_ms")
    time_s, cwnd_pkts, pacing_mbps, rtt_ms = (qos.series[name] for name in names)
    at = np.flatnonzero(_policed(qos))
    loss_s = window_share = window_bdps = np.nan
    if len(at):
        loss_s = float(time_s[at[0]])
        behind = min(int(np.searchsorted(time_s, loss_s + 2 * rtt_ms[at[0]] / 1000)), len(time_s) - 1)
        window_share = float(cwnd_pkts[behind] / cwnd_pkts[at[0]])
        window_bdps = float(cwnd_pkts[behind] * MSS_BYTES * WIRE * 8e-3 / (settings.rate_mbps * case.rtt_ms))
    detection_s = first_constant_s(time_s, pacing_mbps, least_s=CONSTANT_RTTS * case.rtt_ms / 1000, from_s=loss_s)
    return loss_s, window_share, window_bdps, detection_s, float(pacing_mbps[time_s >= STEADY_FROM_S].mean()) * WIRE


def _policed(qos: QoS) -> NDArray[np.uint64]:
    """The number of packets that the policer dropped since the previous point: uint64 [points]."""
    if qos.element_series is None:
        raise EmulationError(f"{qos.scenario}: expected a run with points over time, got none")
    return qos.element_series.dropped[:, [element.name for element in qos.elements].index("policer")]


def first_constant_s(time_s: Values, values: Values, *, least_s: float, from_s: float) -> float:
    """The first time from from_s on at which values [n] begin to stay constant for least_s.

    NaN: this never happens.
    """
    if not np.isfinite(from_s):
        return float("nan")
    begin = int(np.searchsorted(time_s, from_s))
    changes = [begin, *(begin + 1 + np.flatnonzero(np.diff(values[begin:]))), len(values) - 1]
    for first, end in pairwise(changes):
        if time_s[end] - time_s[first] >= least_s:
            return float(time_s[first])
    return float("nan")
