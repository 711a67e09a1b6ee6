# SPDX-License-Identifier: MIT
"""CUBIC, BBRv1 and BBRv3 in the simulator, on a link of 20 Mbit/s and 40 ms: 67 packets are in flight there."""

from __future__ import annotations

import statistics

import pytest

from emulation import FlowSpec, LinkSpec
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


def test_a_parameter_changes_what_an_algorithm_does() -> None:
    gentle = FlowSpec(cca="cubic", params={"beta_permille": 900})
    deep, shallow = (
        run(flow, link=link(1), duration_s=60, warmup_s=10).mean_queueing_delay_ms
        for flow in (gentle, FlowSpec(cca="cubic", params={"beta_permille": 500}))
    )
    assert deep > shallow + 3
