# SPDX-License-Identifier: MIT
"""The cases on which advice is judged: links, paths and policers that nothing was tuned on.

recorded   a minute of a validation recording, with a path drawn from configs/paths
constant   a link of a constant rate, with a path drawn from configs/paths
policed    a policer of R and B in front of an access link, as R-TCP's study draws them
real       the same three on this machine's kernel over Mahimahi
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.mahimahi.path import HOPS
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import MSS_BYTES, WIRE, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Clock, Jitter, Policer
from emulation.traces import Recording, Trace, read_split, require_part
from training.observed.flow import SEND, STEP, Flow
from training.observed.seen import Limit, SeenLink
from training.observed.simulated import observed_run
from training.observed.sources import links_of
from training.workloads.paths import drawn, read_paths

COUNTS = {"recorded": 23, "constant": 14, "policed": 20}
TODAY = ("cubic", "bbr")
OBSERVED_S, REAL_S, SAMPLE_S = 60.0, 20.0, 0.2
PATHS = {"recorded": ("cellular", "wifi"), "constant": ("wired", "satellite", "wifi")}
RATES_MBPS, LIMITS_MBPS = (2.0, 100.0), (0.5, 12.0)
BUCKETS_BYTES, ACCESS_OVER_LIMIT, RTTS_MS = (60e3, 1e6), (2.0, 30.0), (20.0, 200.0)
LEAST_PKTS = 20  # a second


@dataclass(frozen=True)
class Case:
    """A true link. scenario: the observed flow on it. true: the same as it would be known perfectly.

    sample_s: between two samples of the flow, as in a log; None: a row an ACK, as in a capture.
    """

    name: str
    kind: str
    scenario: Scenario
    true: SeenLink
    sample_s: float | None

    @property
    def is_real(self) -> bool:
        """Whether it runs on this machine's kernel."""
        return self.kind == "real"


def cases_of(paths: Sequence[Path], *, seed: int) -> list[Case]:
    """All cases. paths: of recordings; none: the default ones."""
    recordings = require_part(read_split(list(paths) or None, part="validation"), part="validation")
    by_dataset = {r.dataset: [one for one in recordings if one.dataset == r.dataset] for r in recordings}
    found: list[Case] = []
    for kind, count in COUNTS.items():
        for number in range(count):
            rng = np.random.default_rng((seed, len(found)))
            today, name = TODAY[number % 2], f"{kind} {number}"
            if kind == "policed":
                link = _policed(rng)
            else:
                drawn_path = read_paths(PATHS[kind][number % len(PATHS[kind])])
                fields: dict[str, Any] = drawn_path.draw(name, seed=seed, duration_s=OBSERVED_S)
                if kind == "recorded":
                    recording, start_ms = _place(list(by_dataset.values())[number % len(by_dataset)], rng)
                    fields |= {"trace": recording.trace, "start_ms": start_ms}
                    name += f" {recording.dataset.removesuffix('-validation')}"
                else:
                    fields["rate_mbps"] = round(drawn(rng, RATES_MBPS), 2)
                link = LinkSpec(**fields)
                name += f" {drawn_path.name}"
            found.append(_case(name, kind, link, today, seed=len(found)))
    return [*found, *_real(recordings[0].trace)]


def _place(recordings: Sequence[Recording], rng: np.random.Generator) -> tuple[Recording, int]:
    """A minute that begins with a link that carries anything; nobody opens a connection during an outage."""
    length_ms = round(OBSERVED_S * 1000)
    while True:
        recording = recordings[int(rng.integers(len(recordings)))]
        start_ms = int(rng.integers(max(recording.trace.period_ms - length_ms, 1)))
        end_ms = min(start_ms + length_ms, recording.trace.period_ms)
        if not recording.trace.capacity_bytes(start_ms, end_ms):
            continue
        rates = recording.trace.slice(start_ms, end_ms).bin_counts(1000)
        if len(rates) >= OBSERVED_S and rates[0] >= LEAST_PKTS and rates.mean() >= LEAST_PKTS:
            return recording, start_ms


def _policed(rng: np.random.Generator) -> LinkSpec:
    limit_mbps = round(drawn(rng, LIMITS_MBPS), 2)
    access_mbps = min(limit_mbps * drawn(rng, ACCESS_OVER_LIMIT), 200.0)
    policer = Policer(rate_mbps=limit_mbps, bucket_bytes=round(drawn(rng, BUCKETS_BYTES)))
    return LinkSpec(rate_mbps=access_mbps, rtt_ms=drawn(rng, RTTS_MS), buffer_pkts=1000, before=(policer,),
                    behind=(Jitter(max_ms=2), *HOPS["mahimahi"]))  # fmt: skip


def _real(trace: Trace) -> list[Case]:
    start_ms = trace.period_ms // 2
    links = {
        "recorded": LinkSpec(trace=trace, start_ms=start_ms, rtt_ms=60, buffer_pkts=400),
        "constant": LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=300),
        "policed": LinkSpec(rate_mbps=20, rtt_ms=40, buffer_pkts=1000,
                            before=(Policer(rate_mbps=4, bucket_bytes=400_000),)),
    }  # fmt: skip
    return [_case(f"real {name}", "real", link, "cubic", seed=1, duration_s=REAL_S) for name, link in links.items()]


def _case(name: str, kind: str, link: LinkSpec, today: str, *, seed: int, duration_s: float = OBSERVED_S) -> Case:
    scenario = Scenario(name=name, link=link, flows=(FlowSpec(cca=today),), duration_s=duration_s, seed=seed)
    policer = next((element for element in link.before if isinstance(element, Policer)), None)
    limit = None if policer is None else Limit(policer.rate_mbps, policer.bucket_bytes)
    # A sender sees data that is held by its ACKs, which then come together, too.
    held_ms = sum((element.least_ms + element.most_ms) / 2 for element in link.behind if isinstance(element, Clock))
    interval_ms = max(link.acks.interval_ms or 0.0, held_ms) or None
    true = SeenLink(name, duration_s, link.rtt_ms, trace=link.trace, rate_mbps=link.rate_mbps, loss=link.loss,
                    buffer_pkts=link.buffer_pkts or 1000, ack_interval_ms=interval_ms, limit=limit,
                    algorithm=today)  # fmt: skip
    return Case(name, kind, scenario, true, SAMPLE_S if seed // 2 % 2 else None)


def links_seen(case: Case, run: QoS | None) -> list[SeenLink]:
    """The links that the observed flow shows. run: of the real flow; None: it is simulated."""
    if run is not None:
        return links_of([_flow_of(case, run)])
    flow = observed_run(case.scenario, sample_s=case.sample_s)
    return links_of(
        [flow if case.sample_s or case.kind != "policed" else replace(flow, sends=_sends_of(case.scenario))]
    )


def _sends_of(scenario: Scenario) -> NDArray[np.void]:
    """The packets that a capture of a policed flow holds, to the ms: those that passed the policer, then those lost."""
    qos = simulate(scenario, series_every_s=1e-3)
    assert qos.element_series is not None  # noqa: S101 (a series was requested)
    at = [element.name for element in qos.elements].index("link")
    dropped, waiting = (getattr(qos.element_series, name).astype(np.int64) for name in ("dropped", "inside"))
    left = np.round(qos.series["rate_mbps"] / 12).astype(np.int64)  # packets of 1500 bytes in a ms
    passed = np.maximum(left + np.diff(waiting[:, at], prepend=0) + dropped[:, at], 0)
    counts = np.stack([passed, dropped[:, 0]], axis=1).ravel()
    rows = np.zeros(int(counts.sum()), SEND)
    rows["time_us"] = np.repeat(np.repeat(np.round(qos.series["time_s"] * 1e6), 2), counts)
    rows["lost"] = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    rows["bytes"] = MSS_BYTES
    return rows


def _flow_of(case: Case, run: QoS) -> Flow:
    """The flow of a real run, from the series that the runner samples of it."""
    series, mss_bytes = run.series, MSS_BYTES
    steps = np.zeros(len(series["time_s"]), STEP)
    seconds = np.diff(series["time_s"], prepend=0.0)
    steps["time_us"] = np.round(series["time_s"] * 1e6)
    steps["delivered_bytes"] = np.cumsum(np.nan_to_num(series["rate_mbps"]) * seconds * 1e6 / 8 / WIRE)
    steps["lost_pkts"] = np.cumsum(np.nan_to_num(series["retransmitted_pkts"]))
    steps["rtt_us"] = np.round(np.nan_to_num(series["rtt_ms"]) * 1000)
    steps["inflight_bytes"] = np.nan_to_num(series["cwnd_pkts"]) * mss_bytes
    return Flow(case.name, "mahimahi", "observe", steps, algorithm=case.scenario.flows[0].cca, mss_bytes=mss_bytes)
