# SPDX-License-Identifier: MIT
"""GR on paths that are not quiet: ACKs in bursts, one ACK for each segment, a slow head, and outages."""

from __future__ import annotations

import pytest

from emulation import AckPath, FlowSpec, LinkSpec, QoS, RateStep, ReceiverSpec
from tests.emulation.engine.links import run

GR = {"bandwidth_window_us": 15758, "adaptation_interval_us": 1675, "delay_threshold_us": 57425}


def gr(**more: object) -> FlowSpec:
    return FlowSpec.model_validate({"cca": "gr", "params": GR, **more})


def with_outage(begin_s: float, end_s: float, *, duration_s: float, **link: object) -> QoS:
    """A run over 12 Mbit/s that delivers nothing for a while."""
    steps = [{"at_s": 0, "rate_mbps": 12}, {"at_s": begin_s, "rate_mbps": 0}, {"at_s": end_s, "rate_mbps": 12}]
    path = LinkSpec.model_validate({"steps": steps, "rtt_ms": 60, **link})
    return run(gr(), link=path, duration_s=duration_s, window_s=1)


@pytest.mark.parametrize("ack_every", [1, 2])
@pytest.mark.parametrize("interval_ms", [None, 5, 10, 20, 40])
def test_gr_fills_the_link_however_acks_are_bunched(interval_ms: float | None, ack_every: int) -> None:
    link = LinkSpec(rate_mbps=12, rtt_ms=80, acks=AckPath(interval_ms=interval_ms))
    qos = run(gr(receiver=ReceiverSpec(ack_every=ack_every)), link=link, duration_s=30)
    assert qos.utilization > 0.9


@pytest.mark.parametrize("ack_every", [1, 2])
def test_gr_leaves_its_lowest_rate_behind_a_slow_head(ack_every: int) -> None:
    steps = (RateStep(at_s=0, rate_mbps=0.12), RateStep(at_s=5, rate_mbps=2.64))
    link = LinkSpec(steps=steps, rtt_ms=176, buffer_pkts=130)
    flow = gr(receiver=ReceiverSpec(ack_every=ack_every))
    assert run(flow, link=link, duration_s=60, warmup_s=40).utilization > 0.95


def test_gr_is_back_at_once_after_an_outage_that_makes_the_minimum_rtt_old() -> None:
    assert with_outage(45, 65, duration_s=110).packets > 0.97 * 90 * 1000


def test_gr_does_not_wait_for_the_probe_of_a_tail_that_an_outage_lost() -> None:
    qos = with_outage(30, 72, duration_s=90, buffer_pkts=100)
    assert qos.windows.packets.ravel()[74:].min() > 900
