# SPDX-License-Identifier: MIT
"""What Mahimahi makes of a path, for the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from emulation.fidelity.path import EXTRA_RTT_MS, HOPS, path_of_mahimahi
from emulation.path import Jitter, Policer
from emulation.scenario import FlowSpec, LinkSpec, Scenario
from emulation.simulator import simulate
from emulation.traces import Trace


def test_a_constant_rate_is_served_at_whole_ms() -> None:
    even = Scenario(link=LinkSpec(rate_mbps=18, rtt_ms=40), duration_s=2)
    link = path_of_mahimahi(even, runner="mahimahi").link
    assert link.trace is not None
    assert link.rate_mbps is None
    # 1.5 packets a ms: the n-th at ceil(n / 1.5).
    assert link.trace.opportunities_ms[:6].tolist() == [1, 2, 2, 3, 4, 4]
    assert link.trace.mean_rate_mbps == pytest.approx(18, rel=1e-3)
    assert link.trace.period_ms > 2000
    assert link.rtt_ms == 40 + EXTRA_RTT_MS


def test_a_trace_stays_as_it_is() -> None:
    trace = Trace("it", np.asarray([3, 7], dtype=np.uint32), 10)
    asked = Scenario(link=LinkSpec(trace=trace, start_ms=4, buffer_pkts=9, loss=0.01))
    link = path_of_mahimahi(asked, runner="vm").link
    assert (link.trace, link.start_ms, link.buffer_pkts, link.loss) == (trace, 4, 9, 0.01)


@pytest.mark.parametrize("runner", ["mahimahi", "vm"])
def test_each_hop_goes_by_whole_ms_behind_all_else(runner: str) -> None:
    policer = Policer(rate_mbps=2, bucket_bytes=30_000)
    asked = Scenario(link=LinkSpec(rate_mbps=18, behind=(policer,)))
    behind = path_of_mahimahi(asked, runner=runner).link.behind  # type: ignore[arg-type]
    assert behind == (policer, *[Jitter(max_ms=1.0)] * HOPS[runner])


def test_bbr_keeps_a_queue_that_it_has_not_on_an_even_link() -> None:
    even = Scenario(link=LinkSpec(rate_mbps=20, rtt_ms=50, buffer_pkts=83), flows=(FlowSpec(cca="bbr"),), duration_s=10)
    plain_ms = simulate(even).queueing_delay.percentile_ms(50)
    assert simulate(path_of_mahimahi(even, runner="mahimahi")).queueing_delay.percentile_ms(50) > plain_ms + 15
