# SPDX-License-Identifier: MIT
"""Connections that HAProxy splits, over real links."""

from __future__ import annotations

import shutil

import pytest

from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.process import SYSTEM_PATH
from emulation.mahimahi.runner import emulate_many
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, ProxySpec, Scenario
from tests.emulation.mahimahi.test_in_bpf import program  # noqa: F401 (a fixture)
from tests.emulation.real_links.quiet import least_disturbed

BUFFER_BYTES = 600_000
SPLIT = Scenario(
    name="split",
    link=LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=400),
    flows=(FlowSpec(cca="gr", params={"delay_threshold_us": 30_000}),),
    duration_s=6,
    warmup_s=2,
    proxy=ProxySpec(link=LinkSpec(rate_mbps=50, rtt_ms=20, buffer_pkts=500), cca="cubic", buffer_bytes=BUFFER_BYTES),
)


@pytest.fixture
def needs_haproxy() -> None:
    if shutil.which("haproxy", path=SYSTEM_PATH) is None:
        pytest.skip("not installed: haproxy")


@pytest.mark.bpf
@pytest.mark.mahimahi
@pytest.mark.usefixtures("program", "needs_haproxy")
def test_a_proxy_with_gr_keeps_the_queue_short_that_the_servers_cubic_would_fill() -> None:
    real = least_disturbed(SPLIT, series_every_s=0.1)
    (qos,) = real.qos
    simulated = simulate(path_of_mahimahi(SPLIT, runner="mahimahi"))
    p95_ms, simulated_p95_ms = (each.queueing_delay.percentile_ms(95) for each in (qos, simulated))
    assert p95_ms == pytest.approx(simulated_p95_ms, abs=15 * real.slack)
    # A full queue takes 400 ms.
    assert p95_ms < 200
    assert qos.throughput_mbps == pytest.approx(simulated.throughput_mbps, rel=0.05 * real.slack)
    assert qos.servers is not None
    assert qos.servers.throughput_mbps == pytest.approx(qos.throughput_mbps, rel=0.1)
    assert qos.buffered_bytes is not None
    assert 0.75 * BUFFER_BYTES < qos.buffered_bytes[20:].mean() < 1.25 * BUFFER_BYTES


@pytest.mark.mahimahi
@pytest.mark.usefixtures("needs_haproxy")
def test_a_file_through_a_proxy_is_complete_when_the_client_has_it() -> None:
    flows = FlowSpec(cca="reno", size_bytes=1_000_000), FlowSpec(cca="bbr", start_s=2.5)
    (qos,) = emulate_many([SPLIT.model_copy(update={"flows": flows, "duration_s": 3.0, "warmup_s": 0.0})])
    file, late = qos.flows
    # 1 MB at 12 Mbit/s takes 0.69 s, and the proxy has it from the server in a third of that.
    assert file.complete_s is not None
    assert 0.69 < file.complete_s < 2
    assert file.goodput_mbps == pytest.approx(8 / 3, rel=0.01)
    # Its mean rate in the half second that it has.
    assert 0.5 < late.goodput_mbps * 3 / 0.5 < 12
