# SPDX-License-Identifier: MIT
"""SIRA and SIRA-H in the simulator: the paper's sections III and IV, and the paths on which its rule alone fails.

Links are 8 Mbit/s, below X (12 Mbit/s), unless a test says otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest

from emulation import AckPath, FlowSpec, Jitter, LinkSpec, QoS, RateStep
from tests.emulation.engine.links import run


def sira(link: LinkSpec, *, duration_s: float = 30.0, **params: int) -> QoS:
    """One greedy flow."""
    return run(FlowSpec(cca="sira", params=params), link=link, duration_s=duration_s, seed=3)


def outage(length_s: float, **more: Any) -> LinkSpec:
    """The link is down for a time from 10 s on."""
    steps = tuple(RateStep(at_s=at, rate_mbps=rate) for at, rate in ((0, 8), (10, 0), (10 + length_s, 8)))
    return LinkSpec(steps=steps, **more)


def test_sira_fills_the_link_and_keeps_the_queue_of_its_startup() -> None:
    """Section III: (X RTT + (X - C) M Delta / 2) / C, without the RTT of 50 ms itself, which is no queue.

    X is 12.43 Mbit/s on the wire, where packets have 1500 bytes, and the first ACK comes after 52 ms: 81 + 138 - 50 ms.
    """
    qos = sira(LinkSpec(rate_mbps=8, rtt_ms=50), compensation=0, probing=0)
    assert qos.utilization > 0.999
    assert qos.queueing_delay.percentile_ms(50) == pytest.approx(169, rel=0.1)


def test_sira_h_uses_the_link_without_this_queue() -> None:
    """Section V: 17.8 ms of queueing delay on average, where SIRA has 203.7 ms."""
    link = LinkSpec(rate_mbps=8, rtt_ms=50)
    reduced, filled = sira(link), sira(link, compensation=0)
    assert reduced.utilization > 0.99
    assert reduced.mean_queueing_delay_ms < 0.2 * filled.mean_queueing_delay_ms


PATHS = {
    "undisturbed": {},
    "ACKs every 10 ms": {"acks": AckPath(interval_ms=10)},
    "ACKs every 40 ms": {"acks": AckPath(interval_ms=40)},
    "jitter of 30 ms": {"behind": (Jitter(max_ms=30),)},
    "loss of 1 %": {"loss": 0.01},
}


@pytest.mark.parametrize("compensation", [0, 1, 2])
@pytest.mark.parametrize("rtt_ms", [20, 50, 250])
@pytest.mark.parametrize("path", PATHS)
def test_disturbed_paths_are_used(path: str, rtt_ms: float, compensation: int) -> None:
    """T is above what the path adds to the delay."""
    link = LinkSpec(rate_mbps=8, rtt_ms=rtt_ms, **PATHS[path])
    qos = sira(link, compensation=compensation, delay_threshold_us=40_000)
    assert qos.utilization > 0.95
    assert qos.queueing_delay.percentile_ms(95) < (160 if compensation else 600)


@pytest.mark.parametrize("buffer_pkts", [100, 1000])
@pytest.mark.parametrize("rtt_ms", [20, 50, 250])
@pytest.mark.parametrize("length_s", [0.3, 2])
def test_a_flow_comes_back_after_an_outage(length_s: float, rtt_ms: float, buffer_pkts: int) -> None:
    """Without a floor R_i = 0 would last for ever (eq. 3), with or without the loss of all that was in flight."""
    qos = sira(outage(length_s, rtt_ms=rtt_ms, buffer_pkts=buffer_pkts))
    assert qos.utilization > 0.9


def test_a_link_above_x_is_found_by_probing_alone() -> None:
    link = LinkSpec(rate_mbps=50, rtt_ms=50)
    assert sira(link).utilization > 0.95
    assert sira(link, probing=0).utilization == pytest.approx(12 * 1500 / 1448 / 50, rel=0.05)
