# SPDX-License-Identifier: MIT
"""Connections that a proxy splits."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from emulation import FlowSpec, LinkSpec, ProxySpec, Scenario, simulate
from tests.emulation.engine.links import PACKET_MS, fixed

FAST = LinkSpec(rate_mbps=100, rtt_ms=20)


def split(*flows: FlowSpec, buffer_bytes: int = 1_000_000, server: LinkSpec = FAST, cca: str = "cubic") -> Scenario:
    """Over 20 Mbit/s with 50 ms."""
    return Scenario(
        link=LinkSpec(rate_mbps=20, rtt_ms=50),
        flows=flows,
        duration_s=20,
        proxy=ProxySpec(link=server, cca=cca, buffer_bytes=buffer_bytes),
    )


def test_the_proxy_holds_what_the_client_has_not_acknowledged_up_to_its_buffer() -> None:
    """A window of 50 packets in 50 ms is a packet per ms, so the credit for 20 packets and an ACK is under way."""
    qos = simulate(split(fixed(50), buffer_bytes=200 * 1448), series_every_s=0.1, audit=True)
    assert qos.servers is not None
    assert qos.buffered_bytes is not None
    held_pkts = qos.buffered_bytes[20:] / 1448
    assert 200 - 20 - 16 <= held_pkts.min() <= held_pkts.max() <= 200
    assert qos.throughput_mbps == pytest.approx(50 * 1500 * 8e-3 / (50 + PACKET_MS), rel=0.05)
    assert qos.servers.throughput_mbps == pytest.approx(qos.throughput_mbps, rel=0.05)


def test_a_buffer_below_the_window_limits_the_flow() -> None:
    """30 packets in the sum of both round trips."""
    qos = simulate(split(fixed(50), buffer_bytes=30 * 1448), audit=True)
    assert qos.throughput_mbps == pytest.approx(30 * 1500 * 8e-3 / (50 + 20), rel=0.1)


def test_a_file_arrives_whole_whichever_side_is_slower() -> None:
    slow = LinkSpec(rate_mbps=5, rtt_ms=200, loss=0.001)
    for server, least_s in ((FAST, 5e6 * 8 / 20e6), (slow, 5e6 * 8 / 5e6)):
        qos = simulate(split(FlowSpec(cca="gr", size_bytes=5_000_000), server=server), audit=True)
        (flow,) = qos.flows
        assert flow.complete_s is not None
        assert least_s < flow.complete_s < least_s + 2


def test_a_lossy_link_hurts_a_short_round_trip_less_than_a_long_one() -> None:
    """What a proxy is for: the square-root law, with the same loss on 25 ms instead of 225 ms."""
    lossy = LinkSpec(rate_mbps=20, rtt_ms=25, loss=0.001)
    far = LinkSpec(rate_mbps=100, rtt_ms=200)
    whole = Scenario(link=lossy.model_copy(update={"rtt_ms": 225.0}), flows=(FlowSpec(cca="reno"),), duration_s=60)
    parts = whole.model_copy(update={"link": lossy, "proxy": ProxySpec(link=far, buffer_bytes=4_000_000)})
    assert simulate(parts).goodput_mbps > 3 * simulate(whole).goodput_mbps


def test_what_a_proxy_does_not_take_is_refused() -> None:
    with pytest.raises(ValidationError, match="without transfers, video and after"):
        split(FlowSpec(transfers=({"size_bytes": 1, "count": 2},)))  # type: ignore[arg-type]
