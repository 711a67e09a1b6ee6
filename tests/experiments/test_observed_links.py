# SPDX-License-Identifier: MIT
"""The experiment about rebuilt links: its figures on made links."""

from __future__ import annotations

import numpy as np
import pytest

from emulation import FlowSpec, LinkSpec, Scenario
from emulation.traces import Trace
from experiments.observed_links.judge import judge
from experiments.observed_links.runs import DURATION_S, simulated


@pytest.mark.parametrize("cca", ["cubic", "bbr"])
def test_links_that_step_are_rebuilt_and_another_algorithm_does_the_same_on_them(cca: str) -> None:
    rng = np.random.default_rng(5)
    runs = []
    for number in range(5):
        rates = np.repeat(rng.uniform(0.2, 1.5, 5), 5000)  # packets a ms
        times_ms = np.interp(np.arange(1, rates.sum()), np.cumsum(rates), np.arange(25_000)).astype(np.uint32)
        link = LinkSpec(trace=Trace(f"{number}", times_ms, 25_000), rtt_ms=40, buffer_pkts=200)
        scenario = Scenario(name=f"{number}", link=link, flows=(FlowSpec(cca=cca),), duration_s=DURATION_S)
        runs.append(simulated(scenario, sample_s=0.2))
    figures = judge(runs)
    assert figures["known_seconds"]["share"] >= 0.9
    assert figures["busy_seconds"]["share"] >= 0.8
    assert 0.8 < figures["bias"]["mean"] < 1.1
    first = next(iter(figures["resimulated"].values()))
    assert first["throughput"]["median"] < 0.05
    assert first["p95_delay"]["median"] < 0.13
