# SPDX-License-Identifier: MIT
"""What theory gives: fixed windows, pacing, delayed ACKs, Reno's laws, sharing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emulation import FlowSpec, LinkSpec, Scenario, simulate_many
from tests.emulation.engine.links import MSS_BITS, PACKET_MS, RATE_MBPS, fixed, run


@pytest.mark.parametrize("cwnd_pkts", [2, 10, 40, 100])
def test_a_window_below_the_bandwidth_delay_product_gives_window_over_rtt(cwnd_pkts: int) -> None:
    qos = run(fixed(cwnd_pkts), duration_s=60, warmup_s=10)
    # An ACK answers two packets: the round trip holds the transmission of both.
    rtt_ms = 100 + 2 * PACKET_MS
    assert qos.throughput_mbps == pytest.approx(cwnd_pkts * 1500 * 8e-3 / rtt_ms, rel=2e-3)
    assert qos.goodput_mbps == pytest.approx(qos.throughput_mbps * 1448 / 1500, rel=2e-3)


@pytest.mark.parametrize("cwnd_pkts", [200, 300, 1000])
def test_a_window_above_it_fills_the_link_and_stands_in_the_queue(cwnd_pkts: int) -> None:
    qos = run(fixed(cwnd_pkts), duration_s=60, warmup_s=10)
    assert qos.utilization == pytest.approx(1.0, abs=1e-4)
    standing_ms = cwnd_pkts * PACKET_MS - 100
    # Packets come in pairs: the first of each waits for one packet less.
    assert qos.mean_queueing_delay_ms == pytest.approx(standing_ms - PACKET_MS / 2, abs=0.05)
    assert qos.queueing_delay.percentile_ms(95) == pytest.approx(standing_ms, abs=0.11)
    assert qos.flows[0].rtt.percentile_ms(50) == pytest.approx(100 + standing_ms, rel=0.02)


def test_pacing_spaces_payload() -> None:
    qos = run(fixed(400, pacing_bytes_per_s=1_000_000), duration_s=30, warmup_s=2)
    assert qos.throughput_mbps == pytest.approx(8 * 1500 / 1448, rel=1e-3)
    # Pairs: the second of each waits for the first.
    assert qos.mean_queueing_delay_ms == pytest.approx(1.5 * PACKET_MS, abs=0.01)


def test_a_file_takes_its_rounds_of_windows() -> None:
    # 100 segments at 10 a round trip: ten rounds, of 100 ms and the transmission of two packets.
    qos = run(fixed(10, size_bytes=100 * 1448), duration_s=5)
    assert qos.flows[0].complete_s == pytest.approx(1.012 + 8 * PACKET_MS / 1000, abs=0.002)
    assert qos.packets == 100


@pytest.mark.parametrize("loss", [0.0005, 0.002, 0.005, 0.01])
def test_reno_follows_the_square_root_law(loss: float) -> None:
    # Mathis et al. 1997: rate = MSS / RTT x sqrt(3 / (2 p)), with every ACKed packet counted.
    link = LinkSpec(rate_mbps=500, rtt_ms=50, buffer_pkts=None, loss=loss)
    runs = simulate_many(
        [Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=200, warmup_s=10, seed=s) for s in range(4)],
        threads=2,
    )
    goodput_mbps = float(np.mean([qos.goodput_mbps for qos in runs]))
    assert goodput_mbps == pytest.approx(MSS_BITS / 0.050 * math.sqrt(1.5 / loss) * 1e-6, rel=0.12)


def test_reno_with_a_buffer_of_the_product_fills_the_link() -> None:
    # The window swings between the product and twice that: the queue runs empty at its lowest.
    qos = run(FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=RATE_MBPS, buffer_pkts=167), duration_s=120, warmup_s=20)
    assert qos.utilization > 0.98
    assert qos.queueing_delay.percentile_ms(100) == pytest.approx(167 * PACKET_MS, rel=0.02)
    assert qos.mean_queueing_delay_ms == pytest.approx(0.5 * 167 * PACKET_MS, rel=0.25)


def test_reno_without_a_buffer_keeps_three_quarters() -> None:
    # The window swings between half the product and the product.
    qos = run(FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=RATE_MBPS, buffer_pkts=4), duration_s=200, warmup_s=40)
    assert qos.utilization == pytest.approx(0.75, abs=0.06)


def test_windows_share_a_link_as_they_are_sized() -> None:
    qos = run(fixed(300), fixed(100), duration_s=60, warmup_s=10)
    first, second = (flow.throughput_mbps for flow in qos.flows)
    assert first + second == pytest.approx(RATE_MBPS, rel=1e-3)
    assert first / second == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("cca", ["reno", "gr"])
def test_two_equal_flows_share_a_link(cca: str) -> None:
    link = LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=40, buffer_pkts=100)
    # A threshold well within the buffer: GR leaves the queue before it overflows.
    flow = FlowSpec(params={"delay_threshold_us": 20_000}) if cca == "gr" else FlowSpec(cca="reno")
    # How two GR flows share depends on when the second joins: the mean over a second of starts.
    runs = [
        run(flow, flow.model_copy(update={"start_s": 3.0 + k / 8}), link=link, duration_s=150, warmup_s=50)
        for k in range(8)
    ]
    assert min(qos.utilization for qos in runs) > 0.95
    assert np.mean([qos.fairness for qos in runs]) > 0.75


def test_flows_run_from_their_start_to_their_stop() -> None:
    qos = run(fixed(200, stop_s=4.0), fixed(200, start_s=6.0), duration_s=10, window_s=1.0)
    mbps = qos.windows.delivered_bytes * 8e-6
    assert mbps[1:4] == pytest.approx(20.0, rel=1e-3)
    assert mbps[5] == 0
    assert mbps[7:] == pytest.approx(20.0, rel=1e-3)


def test_a_thousand_flows_share_a_link() -> None:
    # A window of ten over 0.6 s of queue: each gets a thousandth. One of the ten may wait for the delayed ACK.
    qos = run(
        *[fixed(10) for _ in range(1000)],
        link=LinkSpec(rate_mbps=200, rtt_ms=20, buffer_pkts=None),
        duration_s=8,
        warmup_s=3,  # the first round trip, 30 times that of the handshake, brings probes and timeouts
    )
    assert qos.utilization == pytest.approx(1.0, abs=1e-3)
    # That one costs some flows up to 40 ms of 600.
    assert qos.fairness == pytest.approx(1.0, abs=5e-3)
    assert qos.mean_queueing_delay_ms == pytest.approx(10_000 * 0.06 - 20, rel=0.02)
