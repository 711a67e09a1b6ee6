# SPDX-License-Identifier: MIT
"""TCP Vegas in the simulator: what Brakmo and Peterson 1995, section III, say of slow start and of the queue."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from emulation import FlowSpec, LinkSpec, QoS, Scenario, simulate
from tests.emulation.engine.links import run

RATE_MBPS = 12.0
PACKET_MS = 1.0


def link(rtt_ms: float = 50, *, buffer_pkts: int = 100) -> LinkSpec:
    """A link that carries a packet in 1 ms. As many packets as its RTT has ms are in flight there."""
    return LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=rtt_ms, buffer_pkts=buffer_pkts)


def vegas(alpha_pkts: int = 1, beta_pkts: int = 3, **more: float) -> FlowSpec:
    """A flow with these thresholds."""
    return FlowSpec.model_validate(
        {"cca": "vegas", "params": {"alpha_pkts": alpha_pkts, "beta_pkts": beta_pkts}, **more}
    )


def windows(qos: QoS, start_s: float = 0.0) -> list[int]:
    """The windows from a time on, each once as long as it stays."""
    found = qos.series["cwnd_pkts"][qos.series["time_s"] > start_s].astype(int).tolist()
    return [window for last, window in pairwise([0, *found]) if window != last]


@pytest.mark.parametrize("rtt_ms", [20, 50, 200])
@pytest.mark.parametrize(("alpha_pkts", "beta_pkts"), [(1, 3), (2, 4), (10, 14)])
def test_the_standing_queue_is_between_alpha_and_beta(rtt_ms: float, alpha_pkts: int, beta_pkts: int) -> None:
    flow = vegas(alpha_pkts, beta_pkts)
    qos = run(flow, link=link(rtt_ms, buffer_pkts=1000), duration_s=120, warmup_s=90)
    assert qos.utilization > 0.999
    assert qos.retransmission_rate == 0
    # A delayed ACK sends two packets at once, the second of which waits for the first.
    assert alpha_pkts * PACKET_MS <= qos.mean_queueing_delay_ms <= (beta_pkts + 1) * PACKET_MS


def test_slow_start_doubles_in_every_other_round_trip_until_gamma_is_queued() -> None:
    scenario = Scenario(link=link(200, buffer_pkts=1000), flows=(vegas(),), duration_s=4)
    qos = simulate(scenario, series_every_s=0.02)
    time_s, cwnd_pkts = qos.series["time_s"], qos.series["cwnd_pkts"]
    # Round trips of 0.2 s end at 0.2, 0.4 ... s; the handshake is over at the start. 320 exceeds what the path holds.
    for doublings, at_s in enumerate((0.1, 0.45, 0.85, 1.25, 1.7)):
        fixed = cwnd_pkts[np.abs(time_s - at_s).argmin()]
        assert fixed == pytest.approx(10 * 2**doublings, rel=0.05), at_s
    last = windows(qos, 2.5)
    assert all(now == before - 1 for before, now in pairwise(last))
    assert qos.retransmission_rate == 0


def test_equal_flows_share_a_link_with_a_few_packets_each() -> None:
    qos = run(*(vegas(start_s=0.1 * number) for number in range(4)), link=link(), duration_s=60, warmup_s=20)
    assert qos.utilization > 0.999
    assert qos.fairness > 0.8
    assert qos.retransmission_rate == 0


def test_cubic_pushes_it_out_of_a_deep_buffer() -> None:
    flows = (vegas(), FlowSpec(cca="cubic", start_s=1))
    qos = run(*flows, link=link(buffer_pkts=200), duration_s=60, warmup_s=10)
    assert qos.flows[0].goodput_mbps < 0.1 * qos.flows[1].goodput_mbps
