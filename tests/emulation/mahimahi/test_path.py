# SPDX-License-Identifier: MIT
"""What Mahimahi makes of a path, for the simulator."""

from __future__ import annotations

import statistics
from typing import Literal

import numpy as np
import pytest

from emulation.mahimahi.path import EXTRA_RTT_MS, HOPS, path_of_mahimahi
from emulation.run.simulator import simulate
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath, LinkRate, Policer, RateStep, Reorder
from emulation.traces import Trace


def test_a_constant_rate_is_served_at_whole_ms() -> None:
    even = Scenario(link=LinkSpec(rate_mbps=18, rtt_ms=40), flows=(FlowSpec(cca="cubic"),), duration_s=2)
    link = path_of_mahimahi(even, runner="mahimahi").link
    assert link.trace is not None
    assert link.rate_mbps is None
    # 1.5 packets a ms: the n-th at ceil(n / 1.5).
    assert link.trace.opportunities_ms[:6].tolist() == [1, 2, 2, 3, 4, 4]
    assert link.trace.mean_rate_mbps == pytest.approx(18, rel=1e-3)
    assert link.trace.period_ms > 2000


@pytest.mark.parametrize("runner", ["mahimahi", "vm"])
def test_half_of_the_round_trip_is_in_front_of_all_else(runner: Literal["mahimahi", "vm"]) -> None:
    policer = Policer(rate_mbps=2, bucket_bytes=30_000)
    link = path_of_mahimahi(Scenario(link=LinkSpec(rate_mbps=18, rtt_ms=40, before=(policer,))), runner=runner).link
    assert link.before == (Reorder(share=1.0, delay_ms=20), policer)
    assert link.rtt_ms == 20 + EXTRA_RTT_MS


def test_a_flow_meets_the_part_of_a_trace_that_it_meets_over_mahimahi() -> None:
    # The only opportunities of the first 200 ms come before the first packet can be there.
    times_ms = np.concatenate([np.arange(1, 45), np.arange(200, 400)]).astype(np.uint32)
    link = LinkSpec(trace=Trace("late", times_ms, 400), rtt_ms=100)
    asked = Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=0.3)
    qos = simulate(path_of_mahimahi(asked, runner="vm"))
    assert qos.queueing_delay.percentile_ms(50) == pytest.approx(150, abs=15)


@pytest.mark.parametrize("cca", ["bbr", "gr"])
def test_a_handshake_does_not_meet_a_slow_link(cca: Cca) -> None:
    asked = Scenario(link=LinkSpec(rate_mbps=1, rtt_ms=100, buffer_pkts=50), flows=(FlowSpec(cca=cca),), duration_s=5)
    for runner, at_ms in (("mahimahi", 2), ("vm", 1)):
        trace = path_of_mahimahi(asked, runner=runner).link.trace  # type: ignore[arg-type]
        assert trace is not None
        assert trace.opportunities_ms[:3].tolist() == [at_ms, 12, 24]


def test_a_trace_has_the_opportunities_that_mahimahi_gets() -> None:
    trace = Trace("it", np.asarray([3, 7], dtype=np.uint32), 10)
    asked = Scenario(
        link=LinkSpec(trace=trace, start_ms=4, buffer_pkts=9, loss=0.01), flows=(FlowSpec(cca="reno"),), duration_s=1
    )
    link = path_of_mahimahi(asked, runner="vm").link
    assert link.trace is not None
    assert link.trace.opportunities_ms[:4].tolist() == [3, 9, 13, 19]
    assert (link.start_ms, link.buffer_pkts, link.loss) == (0, 9, 0.01)


@pytest.mark.parametrize("runner", ["mahimahi", "vm"])
def test_the_hops_are_behind_all_else(runner: str) -> None:
    policer = Policer(rate_mbps=2, bucket_bytes=30_000)
    asked = Scenario(link=LinkSpec(rate_mbps=18, behind=(policer,)))
    behind = path_of_mahimahi(asked, runner=runner).link.behind  # type: ignore[arg-type]
    assert behind == (policer, *HOPS[runner])


def test_acks_over_an_uplink_meet_what_mahimahi_gives_it() -> None:
    acks = AckPath(uplink=LinkRate(steps=(RateStep(at_s=0, rate_mbps=4), RateStep(at_s=0.006, rate_mbps=12))))
    steps = RateStep(at_s=0, rate_mbps=6), RateStep(at_s=1, rate_mbps=12)
    asked = Scenario(link=LinkSpec(steps=steps, acks=acks), flows=(FlowSpec(cca="reno"),), duration_s=2)
    link = path_of_mahimahi(asked, runner="mahimahi").link
    assert link.behind == HOPS["mahimahi"][:1]
    assert link.steps == ()
    assert link.trace is not None
    assert link.trace.opportunities_ms[:3].tolist() == [2, 4, 6]
    uplink = link.acks.uplink
    assert uplink is not None
    assert uplink.trace is not None
    assert uplink.trace.opportunities_ms[:4].tolist() == [3, 6, 7, 8]
    # mm-link carries 1504 / 56 ACKs with an opportunity.
    assert uplink.opportunity_bytes / 52 == pytest.approx(1504 / 56, rel=1e-3)


def test_bbr_keeps_a_queue_that_it_has_not_on_an_even_link() -> None:
    even = Scenario(link=LinkSpec(rate_mbps=20, rtt_ms=50, buffer_pkts=83), flows=(FlowSpec(cca="bbr"),), duration_s=10)
    plain_ms = simulate(even).queueing_delay.percentile_ms(50)
    assert simulate(path_of_mahimahi(even, runner="mahimahi")).queueing_delay.percentile_ms(50) > plain_ms + 15


def test_acks_come_in_bursts_as_they_do_over_mahimahi() -> None:
    """CUBIC over the path of the guest finds a train of ACKs and leaves slow start by it; in Mahimahi's it does not."""
    link = LinkSpec(rate_mbps=50, rtt_ms=100, buffer_pkts=208)
    even = Scenario(link=link, flows=(FlowSpec(cca="cubic"),), duration_s=2)

    def resent_pkts(runner: Literal["mahimahi", "vm"]) -> float:
        runs = [simulate(path_of_mahimahi(even.model_copy(update={"seed": n}), runner=runner)) for n in range(9)]
        return statistics.median(qos.retransmission_rate * qos.sent for qos in runs)

    # Twice the path's 417 packets and a buffer of 208 overshoot by some hundred; a train of half a round trip does not.
    assert resent_pkts("vm") < 50
    assert resent_pkts("mahimahi") > 150
