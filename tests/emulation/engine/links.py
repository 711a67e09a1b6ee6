# SPDX-License-Identifier: MIT
"""Links and flows that the engine's tests share. 20 Mbit/s carries a 1500-byte packet in 0.6 ms."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulation import ElementQoS, FlowSpec, LinkSpec, QoS, Scenario, simulate
from emulation.traces import Trace

RATE_MBPS = 20.0
PACKET_MS = 0.6
MSS_BITS = 1448 * 8


def trace(times_ms: list[int], period_ms: int) -> Trace:
    """A trace of these opportunities."""
    return Trace("test", np.asarray(times_ms, dtype=np.uint32), period_ms)


def fixed(cwnd_pkts: int, *, pacing_bytes_per_s: int = 0, **more: Any) -> FlowSpec:
    """A flow whose window never changes."""
    return FlowSpec(cca="fixed", params={"cwnd_pkts": cwnd_pkts, "pacing_bytes_per_s": pacing_bytes_per_s}, **more)


def run(*flows: FlowSpec, link: LinkSpec | None = None, duration_s: float = 30.0, **more: Any) -> QoS:
    """Run flows over a link, 20 Mbit/s with 100 ms unless another is given."""
    return simulate(Scenario(link=link or LinkSpec(rate_mbps=RATE_MBPS), flows=flows, duration_s=duration_s, **more))


def departures_ms(qos: QoS) -> list[int]:
    """When packets left, from a run measured in windows of 1 ms."""
    return np.repeat(qos.windows.start_ms, qos.windows.packets.astype(int)).tolist()


def element(qos: QoS, name: str) -> ElementQoS:
    return next(row for row in qos.elements if row.name == name)


def assert_balanced(qos: QoS) -> None:
    """No element loses a packet, what one passed has entered the next, and no figure is beyond its range."""
    assert qos.elements[0].entered == qos.sent
    for row in qos.elements:
        assert row.entered == row.passed + row.dropped + row.inside
        assert 0 <= row.codel_dropped <= row.dropped
    for row, following in zip(qos.elements, qos.elements[1:], strict=False):
        assert following.entered == row.passed
    link = element(qos, "link")
    assert (link.passed, link.dropped, link.inside) == (qos.simulated_packets, qos.dropped, qos.queued)
    assert qos.lost_at_random <= qos.simulated_packets
    assert qos.queueing_delay.total == qos.packets == qos.windows.packets.sum() <= qos.simulated_packets
    assert 0 <= qos.retransmission_rate <= 1
    if qos.acks is not None:
        assert qos.acks.entered == qos.acks.passed + qos.acks.inside
