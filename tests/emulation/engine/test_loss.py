# SPDX-License-Identifier: MIT
"""Under loss: nothing leaves the accounting, every file arrives, recovery is prompt and undone when wrong."""

from __future__ import annotations

import numpy as np
import pytest

from emulation import FlowSpec, LinkSpec, Scenario, _engine, simulate
from tests.emulation.engine.links import PACKET_MS, RATE_MBPS, fixed, run, trace
from tests.emulation.engine.path import Path


def test_a_fixed_window_keeps_the_link_full_under_loss() -> None:
    # Every loss is sent again within a round trip: what arrives is what was not lost.
    qos = run(fixed(400), link=LinkSpec(rate_mbps=RATE_MBPS, loss=0.02), duration_s=60, warmup_s=5)
    assert qos.utilization > 0.999
    assert qos.goodput_mbps == pytest.approx(0.98 * RATE_MBPS * 1448 / 1500, rel=0.01)
    assert qos.retransmission_rate == pytest.approx(0.02, rel=0.1)
    assert qos.flows[0].timeouts == 0


def test_what_is_sent_again_is_what_was_lost() -> None:
    qos = run(FlowSpec(cca="reno", size_bytes=20_000_000), link=LinkSpec(rate_mbps=5, loss=0.01), duration_s=500)
    flow = qos.flows[0]
    assert flow.timeouts == flow.undone == 0
    assert qos.retransmission_rate * qos.sent == pytest.approx(qos.lost_at_random + qos.dropped)


def test_loss_does_not_depend_on_the_other_flow() -> None:
    link = LinkSpec(rate_mbps=100, buffer_pkts=None, loss=0.01)
    alone = run(fixed(20), link=link, duration_s=20, seed=5)
    beside = run(fixed(20), fixed(30), link=link, duration_s=20, seed=5)
    assert alone.flows[0].retransmission_rate == pytest.approx(beside.flows[0].retransmission_rate, rel=0.05)
    assert alone.lost_at_random != run(fixed(20), link=link, duration_s=20, seed=6).lost_at_random


def sampled(link: LinkSpec, *, duration_s: float) -> dict[str, np.ndarray]:
    """A Reno flow's series, a point each millisecond."""
    scenario = Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=duration_s)
    return simulate(scenario, series_every_s=0.001).series


def test_reno_halves_its_window_in_proportion() -> None:
    series = sampled(LinkSpec(rate_mbps=RATE_MBPS, buffer_pkts=167), duration_s=60)
    mode, cwnd = series["mode"], series["cwnd_pkts"]
    starts = np.flatnonzero((mode[1:] == 2) & (mode[:-1] != 2)) + 1
    assert len(starts) >= 3
    # What slow start leaves is over; then one packet is lost at the top of each swing, at a round trip of 200 ms.
    for start in starts[2:]:
        top = cwnd[start - 1]
        assert top == pytest.approx(167 + 100 / PACKET_MS, abs=3)
        assert cwnd[start + 100] == pytest.approx(0.75 * top, abs=4)
        assert cwnd[start + 200 : start + 290] == pytest.approx(top / 2, abs=2)
        assert mode[start + 250] == 2
        assert mode[start + 400] == 1
        assert cwnd[start + 400] == pytest.approx(top / 2, abs=3)


def test_a_filled_hole_is_acknowledged_at_once() -> None:
    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(quick_acks=0))
    path = Path(fixed(5), 40, meets=lambda p, _now: None if p.tx == 30 else 0.0, receiver=receiver, rtt_ms=100).start()
    path.run(3000)
    ((retransmitted_ms, seq),) = path.retransmitted()
    assert seq == 30
    filled_ms = next(at_ms for at_ms, ack in path.acks if ack.cumulative > 30)
    # Not 40 ms later.
    assert filled_ms - retransmitted_ms == pytest.approx(PACKET_MS + 100)


def outage_link() -> LinkSpec:
    """20 Mbit/s for 10 s, an outage of 3 s, 20 Mbit/s again."""
    times = [round(k * PACKET_MS) for k in range(int(10_000 / PACKET_MS))]
    again = [13_000 + t for t in times]
    return LinkSpec(trace=trace(times + again, 33_000), rtt_ms=100, buffer_pkts=1000)


@pytest.mark.parametrize("cca", ["reno", "gr"])
def test_a_timeout_in_an_outage_without_loss_is_undone(cca: str) -> None:
    flow = FlowSpec(cca="gr") if cca == "gr" else FlowSpec(cca="reno")
    qos = run(flow, link=outage_link(), duration_s=23, window_s=1.0, warmup_s=9.0)
    # Several in a row are one episode: what is undone is what was before the first.
    assert qos.flows[0].timeouts >= 2
    assert qos.flows[0].undone == 1
    # Little is sent twice. Reno fills the link right away; GR has seen an RTT of 3 s and slowed down by its rule.
    assert qos.retransmission_rate * qos.packets < 10
    used = qos.windows.delivered_bytes / np.maximum(qos.windows.capacity_bytes, 1)
    full_from_ms = 13_000 if cca == "reno" else 16_000
    assert used[(qos.windows.start_ms >= full_from_ms) & (qos.windows.start_ms < 22_000)].min() > 0.9


def test_an_undone_timeout_gives_the_window_back() -> None:
    series = sampled(outage_link(), duration_s=14)
    before, during, after = (series["cwnd_pkts"][round(at_s * 1000)] for at_s in (10.0, 12.5, 13.3))
    assert during == 1
    assert before <= after <= before + 2


def test_an_undone_timeout_gives_slow_start_back() -> None:
    # 40 Mbit/s, an outage after three round trips of slow start.
    times_ms = [t for t in range(350) for _ in range(3)]
    link = LinkSpec(trace=trace(times_ms + [2000 + t for t in times_ms], 2400), rtt_ms=100)
    series = sampled(link, duration_s=2.3)
    assert series["mode"][[340, 1900, 2250]].tolist() == [0, 0, 0]
    before, during, after = series["cwnd_pkts"][[340, 1900, 2250]]
    assert during == 1
    assert after > 1.5 * before


@pytest.mark.parametrize("cca", ["reno", "gr"])
def test_a_link_that_becomes_slow_teaches_the_timeout_its_round_trip(cca: str) -> None:
    # 20 Mbit/s, then a packet a second: hundreds are queued, so every original comes behind a timeout at first.
    fast = [round(k * PACKET_MS) for k in range(int(5_000 / PACKET_MS))]
    link = LinkSpec(trace=trace(fast + [5_000 + 1_000 * k for k in range(1, 41)], 45_000), buffer_pkts=1000)
    flow = FlowSpec(cca="gr") if cca == "gr" else FlowSpec(cca="reno")
    qos = run(flow, link=link, duration_s=45, warmup_s=5)
    # Without those samples there is a timeout, and a packet sent again, for nearly each of the 40 packets.
    assert qos.flows[0].rtt.percentile_ms(100) > 30_000
    assert qos.flows[0].timeouts < 4
    assert qos.flows[0].undone < 4
