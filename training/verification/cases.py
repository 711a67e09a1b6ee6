# SPDX-License-Identifier: MIT
"""The cases on which a state is verified, in a form that Mahimahi can run.

epochs    pieces of recordings that did not train, and training ones if these are too few; RTTs are even whole ms
policed   a file behind a policer, in one connection, drawn for confirming. Once the bucket is empty, R carries the rest
          in at most the settings' duration. delay-shell delays each direction of the path by half of the RTT and half
          of a jitter, which changes every ms. DEVIATION: the access link has at most MOST_ACCESS_MBPS, because several
          runs share a machine
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emulation.mahimahi.path import path_of_mahimahi
from emulation.run.jobs import BYTES_PER_S
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.model import LinkSpec
from emulation.scenario.path import Jitter, Policer
from training.workloads import Case, Sample, State, Workload
from training.workloads.policed import Policed

MOST_ACCESS_MBPS = 40.0
JITTER_PERIOD_S = 5.0
LONGEST, SETTLING_S = 1.6, 3.0  # most time of a run: LONGEST times the time that R takes for the file, plus SETTLING_S


def kernel_cases(workload: Workload, state: State, *, runs: int, duration_s: float) -> list[Case]:
    """A case for each run. duration_s: measured time of a run, or the time for which R carries a file, at most."""
    if isinstance(workload, Policed):
        # Every other one has a second file that starts after the first. Flows over Mahimahi start at fixed times.
        found = workload.with_limit(state, limited=2 * runs, lifted=0, purpose="confirming")[::2]
        return [_file(case, duration_s=duration_s) for case in found]
    found = workload.cases([state], "confirming", Sample(maximum=runs))
    trained = workload.cases([state], "training", Sample())
    lacking = min(max(runs - len(found), 0), len(trained))
    found += [trained[(2 * i + 1) * len(trained) // (2 * lacking)] for i in range(lacking)]
    return [_epoch(found[n % len(found)], duration_s=duration_s) for n in range(runs)]


def as_simulated(case: Case) -> Case:
    """The case, behind a policer with the path that Mahimahi provides: its details decide how slow start ends."""
    if case.group != "limited":
        return case
    return replace(case, scenario=path_of_mahimahi(case.scenario, runner="mahimahi"))


def _epoch(case: Case, *, duration_s: float) -> Case:
    scenario = case.scenario
    rtt_ms = max(2 * round(scenario.link.rtt_ms / 2), 2)
    duration_s = min(scenario.duration_s, scenario.warmup_s + duration_s)
    link = scenario.link.model_copy(update={"rtt_ms": float(rtt_ms)})
    shorter = scenario.model_copy(update={"link": link, "duration_s": duration_s})
    return replace(case, key=f"{case.key}:{duration_s}:{rtt_ms}", scenario=shorter)


def _file(case: Case, *, duration_s: float) -> Case:
    scenario, link = case.scenario, case.scenario.link
    bucket_bytes = sum(element.bucket_bytes for element in link.before if isinstance(element, Policer))
    jitter_ms = sum(element.max_ms for element in link.behind if isinstance(element, Jitter))
    limit_bytes_per_s = case.limit_mbps * BYTES_PER_S
    limited_s = min((case.capacity_bytes - bucket_bytes) / limit_bytes_per_s, duration_s)
    size_bytes = round(bucket_bytes + limited_s * limit_bytes_per_s)
    path = LinkSpec(
        rate_mbps=min(float(link.rate_mbps or 0), MOST_ACCESS_MBPS), buffer_pkts=link.buffer_pkts, before=link.before,
        delays=_jittered(link.rtt_ms, jitter_ms, seed=scenario.seed),
    )  # fmt: skip
    [flow] = scenario.flows
    shorter = scenario.model_copy(update={
        "link": path, "flows": (flow.model_copy(update={"size_bytes": size_bytes}),),
        "duration_s": round(LONGEST * limited_s + SETTLING_S, 1),
    })  # fmt: skip
    return replace(case, key=f"{case.key}:{duration_s}:file", scenario=shorter, capacity_bytes=size_bytes)


def _jittered(rtt_ms: float, jitter_ms: float, *, seed: int) -> BaseDelay:
    """The round trip, and a jitter that is uniform from 0 to jitter_ms, new in each ms."""
    times_s = np.arange(round(JITTER_PERIOD_S * 1000)) / 1000
    more_ms = np.random.default_rng(seed).uniform(0, jitter_ms, len(times_s))
    steps = [DelayStep(at_s=at_s, rtt_ms=round(rtt_ms + more, 3))
             for at_s, more in zip(times_s.tolist(), more_ms.tolist(), strict=True)]  # fmt: skip
    return BaseDelay(steps=tuple(steps), period_s=JITTER_PERIOD_S)
