# SPDX-License-Identifier: MIT
"""Delays over time against their closed form: a packet leaves at max(entry + delay, when the one before it left)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation import BaseDelay, DelayStep, FlowSpec, LinkSpec, ReceiverSpec, Scenario, simulate
from tests.emulation.engine.links import departures_ms, fixed, run


def delays(*steps: tuple[float, float], period_s: float | None = None) -> BaseDelay:
    """Delays of (at_s, rtt_ms)."""
    return BaseDelay(steps=tuple(DelayStep(at_s=at_s, rtt_ms=rtt_ms) for at_s, rtt_ms in steps), period_s=period_s)


# 1000 Mbit/s carry a packet in 0.012 ms, which does not matter in windows of 1 ms that packets enter in their middle.
def paced_departures_ms(of: BaseDelay, *, until_ms: int) -> list[int]:
    flow = fixed(10_000, pacing_bytes_per_s=1_448_000, start_s=0.0005)
    link = LinkSpec(rate_mbps=1000, delays=of)
    return departures_ms(run(flow, link=link, duration_s=until_ms / 1000, window_s=0.001))


def closed_form_ms(of: BaseDelay, *, until_ms: int) -> list[int]:
    # Ten packets that are not paced, and then pairs, one every 2 ms; all from 0.5 ms on.
    enters_ms = np.append(np.zeros(10), np.arange(until_ms) // 2 * 2) + 0.5
    period_ms = np.inf if of.period_s is None else of.period_s * 1000
    at_ms = np.array([step.at_s * 1000 for step in of.steps])
    one_way_ms = np.array([step.rtt_ms / 2 for step in of.steps])
    delay_ms = one_way_ms[np.searchsorted(at_ms, enters_ms % period_ms, side="right") - 1]
    leaves_ms = np.maximum.accumulate(enters_ms + delay_ms)
    return [int(at) for at in leaves_ms + 0.024 if at < until_ms]


def test_a_packet_is_delayed_by_what_holds_when_it_enters_and_stays_in_order() -> None:
    steps = delays((0, 50), (0.1, 120), (0.3, 50))
    expected = closed_form_ms(steps, until_ms=500)
    # After the fall by 35 ms in one direction, the packets of 35 ms leave with the last ones of the longer delay.
    assert max(np.bincount(expected)) == 2 + 34
    assert paced_departures_ms(steps, until_ms=500) == expected


def test_delays_repeat_with_their_period() -> None:
    steps = delays((0, 20), (0.04, 60), period_s=0.1)
    assert paced_departures_ms(steps, until_ms=450) == closed_form_ms(steps, until_ms=450)


def test_a_round_trip_is_both_directions_and_the_transmission() -> None:
    # One packet at a time over 1 ms of transmission: 40 round trips of 25 ms, and then those of 61 ms. With a rise
    # 13 ms later, one round trip has half of each delay.
    flow = fixed(1, receiver=ReceiverSpec(ack_every=1))
    for rise_s, expected_ms in ((1, [25, 61]), (1.013, [25, 43, 61])):
        qos = run(flow, link=LinkSpec(rate_mbps=12, delays=delays((0, 24), (rise_s, 60))), duration_s=2)
        rtt = qos.flows[0].rtt
        assert (rtt.edges_us[rtt.counts > 0] / 1000).tolist() == pytest.approx(expected_ms, rel=0.02)
        assert qos.elements[0].name == "delay"


def test_one_step_is_a_constant_delay() -> None:
    flow = fixed(10)
    plain = run(flow, link=LinkSpec(rate_mbps=12, rtt_ms=40), duration_s=10, warmup_s=1)
    stepped = run(flow, link=LinkSpec(rate_mbps=12, delays=delays((0, 40))), duration_s=10, warmup_s=1)
    assert stepped.flows[0].rtt.percentile_ms(50) == plain.flows[0].rtt.percentile_ms(50)
    assert stepped.throughput_mbps == pytest.approx(plain.throughput_mbps, rel=5e-3)


STEPS = st.lists(st.floats(0.5, 300), min_size=1, max_size=8).map(
    lambda rtts: delays(*((0.2 * k, rtt) for k, rtt in enumerate(rtts)), period_s=0.2 * len(rtts))
)
FLOWS = (FlowSpec(cca="reno"), FlowSpec(), FlowSpec(cca="cubic", size_bytes=200_000))


@given(of=STEPS, rate_mbps=st.floats(0.5, 50), loss=st.sampled_from([0.0, 0.02]), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_packets_acks_and_the_clock_add_up_under_any_delays(
    of: BaseDelay, rate_mbps: float, loss: float, seed: int
) -> None:
    link = LinkSpec(rate_mbps=rate_mbps, delays=of, loss=loss, buffer_pkts=50)
    simulate(Scenario(link=link, flows=FLOWS, duration_s=3, seed=seed), audit=True)
