# SPDX-License-Identifier: MIT
"""Links and flows that the engine's tests share. 20 Mbit/s carries a 1500-byte packet in 0.6 ms."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulation import FlowSpec, LinkSpec, QoS, Scenario, simulate
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
