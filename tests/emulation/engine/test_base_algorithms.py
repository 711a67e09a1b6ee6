# SPDX-License-Identifier: MIT
"""CUBIC, BBRv1 and BBRv3 in the simulator, on a link of 20 Mbit/s and 40 ms: 67 packets are in flight there."""

from __future__ import annotations

import itertools
import statistics

import pytest

from emulation import FlowSpec, LinkSpec, Scenario, simulate
from emulation.scenario.model import Cca
from tests.emulation.engine.links import PACKET_MS, RATE_MBPS, run

PRODUCT_PKTS = 67
CCAS: tuple[Cca, ...] = ("cubic", "bbr", "bbr3")


def link(products: float, *, loss: float = 0.0) -> LinkSpec:
    """The link, with a buffer of that many bandwidth-delay products."""
    return LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=40, buffer_pkts=round(products * PRODUCT_PKTS), loss=loss)


@pytest.mark.parametrize("products", [1, 4])
@pytest.mark.parametrize("cca", CCAS)
def test_a_flow_fills_the_link(cca: Cca, products: float) -> None:
    qos = run(FlowSpec(cca=cca), link=link(products), duration_s=40, warmup_s=5)
    assert qos.utilization > {"cubic": 0.99, "bbr": 0.97, "bbr3": 0.94}[cca]
    assert qos.retransmission_rate < 0.002
    assert qos.flows[0].timeouts == 0


@pytest.mark.parametrize("products", [1, 4])
def test_cubic_fills_the_buffer_and_bbr_does_not(products: int) -> None:
    buffer_ms = products * PRODUCT_PKTS * PACKET_MS
    for cca in CCAS:
        qos = run(FlowSpec(cca=cca), link=link(products), duration_s=40, warmup_s=5)
        if cca == "cubic":
            # Of a window of product and buffer a loss leaves 70 %: the queue swings from there to full.
            assert 0.6 * buffer_ms < qos.mean_queueing_delay_ms < buffer_ms
            assert qos.queueing_delay.percentile_ms(95) > 0.95 * buffer_ms
        else:
            # A quarter of the product while it probes, for an eighth of the time and less.
            assert qos.mean_queueing_delay_ms < 8
            assert qos.queueing_delay.percentile_ms(95) < 25


def test_a_loss_leaves_cubic_70_percent() -> None:
    # One packet in flight more than path and buffer hold is lost; the queue then stands at 0.7 of both less the path.
    scenario = Scenario(link=link(4), flows=(FlowSpec(cca="cubic"),), duration_s=60, warmup_s=10)
    qos = simulate(scenario, series_every_s=0.02)
    windows = [w for t, w, mode in zip(qos.series["time_s"], qos.series["cwnd_pkts"], qos.series["mode"], strict=True)
               if t > 10 and mode == 1]  # fmt: skip
    assert max(windows) == pytest.approx(5 * PRODUCT_PKTS, rel=0.03)
    assert min(windows) == pytest.approx(0.7 * 5 * PRODUCT_PKTS, rel=0.05)


@pytest.mark.parametrize("cca", CCAS)
def test_two_equal_flows_share_a_link(cca: Cca) -> None:
    """Over some beginnings: by their phases a full queue drops more of one of them (Floyd and Jacobson 1992)."""
    first = FlowSpec(cca=cca)
    seconds = [first.model_copy(update={"start_s": start_s}) for start_s in (1.6, 1.8, 2.0, 2.2, 2.4)]
    runs = [run(first, second, link=link(2), duration_s=120, warmup_s=20, seed=3) for second in seconds]
    assert min(qos.utilization for qos in runs) > 0.95
    assert statistics.median(qos.fairness for qos in runs) > 0.95
    assert min(qos.fairness for qos in runs) > 0.9


def test_random_losses_stop_cubic_and_not_bbr() -> None:
    shares = {
        cca: run(FlowSpec(cca=cca), link=link(2, loss=0.01), duration_s=60, warmup_s=5).utilization for cca in CCAS
    }
    assert shares["bbr"] > 0.95
    assert shares["bbr3"] > 0.8
    # RFC 9438 section 4.3: as Reno, for which the square-root law gives 3.6 Mbit/s.
    assert 0.1 < shares["cubic"] < 0.25


def test_bbr_leaves_four_packets_in_flight_every_ten_seconds() -> None:
    qos = simulate(Scenario(link=link(4), flows=(FlowSpec(cca="bbr"),), duration_s=35), series_every_s=0.01)
    probing = [t for t, mode in zip(qos.series["time_s"], qos.series["mode"], strict=True) if mode == 3]
    starts = [t for i, t in enumerate(probing) if i == 0 or t - probing[i - 1] > 1]
    assert len(starts) == 3
    assert all(9.9 < later - earlier < 10.6 for earlier, later in itertools.pairwise(starts))
    assert 0.2 <= len(probing) * 0.01 / 3 < 0.4


@pytest.mark.parametrize("cca", CCAS)
def test_a_file_arrives_whole(cca: Cca) -> None:
    flow = FlowSpec(cca=cca, size_bytes=3_000_000)
    qos = run(flow, link=link(0.5, loss=0.01), duration_s=60)
    assert qos.flows[0].complete_s is not None


def test_a_parameter_changes_what_an_algorithm_does() -> None:
    gentle = FlowSpec(cca="cubic", params={"beta_permille": 900})
    deep, shallow = (
        run(flow, link=link(1), duration_s=60, warmup_s=10).mean_queueing_delay_ms
        for flow in (gentle, FlowSpec(cca="cubic", params={"beta_permille": 500}))
    )
    assert deep > shallow + 3
