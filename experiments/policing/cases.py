# SPDX-License-Identifier: MIT
"""Files through a policer, for each algorithm, access rate, RTT and size, with many seeds.

    sender -> policer (R, B) -> access link -> jitter -> receiver

In section 3.1 of R-TCP 2026 the server is on a fast network, and the policer drops packets before the mobile link. Each
file has its own connection and a full bucket. The paper achieves this with 15 s of silence, which bring more than four
times B. The seed determines the jitter and where the cycles of BBR begin.

    retransmission_rate   retransmitted segments over sent segments
    goodput_mbps          the file's size over the time to its last ACK
    complete              1: the file was acknowledged

A file that is not complete after 4 size / R + 30 s counts with that time.

Moments (Appendix A) come from a time series of the largest file:

    loss_s         time of the policer's first drop
    window_share   cwnd two RTTs after that drop over cwnd at the drop. The two RTTs are as measured at the drop and
                   include the access link's queue. The sender learns of a drop after one of them
    window_bdps    the same cwnd over R RTT
    detection_s    time from which BBRv1's pacing rate stays constant for 12 RTTs. Its cycle alone changes the rate
                   within 6 RTTs
    pacing_mbps    mean pacing rate from 5 s on, in wire bytes, which the policer counts
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emulation.errors import EmulationError
from emulation.run.qos import QoS
from emulation.scenario.model import MSS_BYTES, WIRE, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Frozen, Jitter, Policer
from experiments.campaign import Case, Key, Links, Values
from experiments.figures import Seeds
from training.intervals import LEAST_SEEDS

Cca = Literal["cubic", "bbr", "bbr3"]
Megabits = Annotated[float, Field(gt=0, le=1e4)]
Milliseconds = Annotated[float, Field(gt=0, le=10_000)]

CCAS: tuple[Cca, ...] = ("cubic", "bbr", "bbr3")
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


def file_key(cca: str, access_mbps: float, rtt_ms: float, size_bytes: int) -> Key:
    """The key of the case of a file."""
    return ("file", cca, f"{access_mbps:g}", f"{rtt_ms:g}", str(size_bytes))


def moment_key(cca: str, access_mbps: float, rtt_ms: float) -> Key:
    """The key of the case of the largest file's moments."""
    return ("moments", cca, f"{access_mbps:g}", f"{rtt_ms:g}")


def cases_of(settings: PolicingSettings, _links: Links | None = None) -> Iterator[Case]:
    """All algorithms and sizes, at every access rate and RTT; and the moments of the algorithms that have them.

    The statements use the longer RTTs for BBRv1 only, but the picture shows all algorithms.
    """
    last_bytes = settings.sizes_bytes[-1]
    for access_mbps in settings.access_mbps:
        for rtt_ms in settings.all_rtts_ms:
            for cca in CCAS:
                for size in settings.sizes_bytes:
                    runs = partial(scenarios_of, settings, cca, access_mbps, rtt_ms, size)
                    yield Case(file_key(cca, access_mbps, rtt_ms, size), runs, _file_figures)
                if cca == "bbr" or (cca == "bbr3" and rtt_ms == settings.rtt_ms):
                    runs = partial(scenarios_of, settings, cca, access_mbps, rtt_ms, last_bytes, duration_s=SERIES_S)
                    measure = partial(_moments, settings, rtt_ms)
                    yield Case(moment_key(cca, access_mbps, rtt_ms), runs, measure, SERIES_EVERY_S)


def scenarios_of(
    settings: PolicingSettings, cca: Cca, access_mbps: float, rtt_ms: float, size_bytes: int,
    *, duration_s: float | None = None,
) -> list[Scenario]:  # fmt: skip
    """One file, for each seed. duration_s: the longest time; None: 4 size / R + 30 s."""
    policer = Policer(rate_mbps=settings.rate_mbps, bucket_bytes=settings.bucket_bytes)
    is_before = settings.policer == "before"
    link = LinkSpec(
        rate_mbps=access_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=settings.buffer_pkts,
        before=(policer,) if is_before else (),
        behind=(*(() if is_before else (policer,)), Jitter(max_ms=settings.jitter_ms)),
    )
    most_s = 4 * size_bytes * 8e-6 / settings.rate_mbps + 30
    flows = (FlowSpec(cca=cca, size_bytes=size_bytes),)
    name = "-".join(file_key(cca, access_mbps, rtt_ms, size_bytes))
    return [
        Scenario(name=name, link=link, flows=flows, duration_s=duration_s or most_s, seed=seed)
        for seed in range(settings.seeds)
    ]


def _file_figures(scenario: Scenario, qos: QoS) -> dict[str, float]:
    flow, size_bytes = qos.flows[0], scenario.flows[0].size_bytes or 0
    return {
        "retransmission_rate": flow.retransmission_rate,
        "goodput_mbps": size_bytes * 8e-6 / (flow.complete_s or scenario.duration_s),
        "complete": float(flow.complete_s is not None),
    }


def _moments(settings: PolicingSettings, rtt_ms: float, _scenario: Scenario, qos: QoS) -> dict[str, float]:
    names = ("time_s", "cwnd_pkts", "pacing_mbps", "rtt_ms")
    time_s, cwnd_pkts, pacing_mbps, rtts_ms = (qos.series[name] for name in names)
    at = np.flatnonzero(_policed(qos))
    loss_s = window_share = window_bdps = np.nan
    if len(at):
        loss_s = float(time_s[at[0]])
        behind = min(int(np.searchsorted(time_s, loss_s + 2 * rtts_ms[at[0]] / 1000)), len(time_s) - 1)
        window_share = float(cwnd_pkts[behind] / cwnd_pkts[at[0]])
        window_bdps = float(cwnd_pkts[behind] * MSS_BYTES * WIRE * 8e-3 / (settings.rate_mbps * rtt_ms))
    return {
        "loss_s": loss_s,
        "window_share": window_share,
        "window_bdps": window_bdps,
        "detection_s": first_constant_s(time_s, pacing_mbps, least_s=CONSTANT_RTTS * rtt_ms / 1000, from_s=loss_s),
        "pacing_mbps": float(pacing_mbps[time_s >= STEADY_FROM_S].mean()) * WIRE,
    }


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
