# SPDX-License-Identifier: MIT
"""Elements of the path against their closed forms, and the books: no packet is lost from any element's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emulation import (
    AckPath,
    Clock,
    Codel,
    Delays,
    FlowSpec,
    GilbertElliott,
    Jitter,
    LinkRate,
    LinkSpec,
    PathElement,
    Policer,
    RandomLoss,
    RateStep,
    Reorder,
    Scenario,
    Shaper,
    SteppedPolicer,
    Transfer,
    simulate,
)
from tests.emulation.engine.links import RATE_MBPS, assert_balanced, departures_ms, element, fixed, run, trace

WIRE_BYTES = 1500


# --- token buckets


@pytest.mark.parametrize(("rate_mbps", "bucket_bytes"), [(2.07, 733_000), (1.3, 385_000), (1.04, 223_000)])
@pytest.mark.parametrize("access_mbps", [20, 50, 100])
def test_policer_passes_bucket_and_rate_and_not_one_packet_more(
    rate_mbps: float, bucket_bytes: int, access_mbps: float
) -> None:
    policer = Policer(rate_mbps=rate_mbps, bucket_bytes=bucket_bytes)
    link = LinkSpec(rate_mbps=access_mbps, rtt_ms=40, buffer_pkts=None, behind=(policer,))
    # A paced flow that is never short of packets: one is there whenever the bucket has its tokens again.
    flow = fixed(20_000, pacing_bytes_per_s=int(access_mbps * 125_000))
    for duration_s in (3.0, 7.77):
        qos = run(flow, link=link, duration_s=duration_s)
        most = (bucket_bytes + rate_mbps * 125_000 * duration_s) / WIRE_BYTES
        passed = element(qos, "policer").passed
        assert passed <= most
        # Packets come every 1500 bytes of the access rate: tokens wait for at most that long, once.
        assert passed == pytest.approx(math.floor(most), abs=1 + rate_mbps / access_mbps)
        assert_balanced(qos)


def test_policer_passes_its_whole_bucket_at_once_and_then_by_the_rate() -> None:
    # 10 packets fit the bucket; then one each 12 ms at 1 Mbit/s. 40 arrive in the instant 0 and 1 ms apart behind.
    link = LinkSpec(rate_mbps=12, rtt_ms=2000, before=(Policer(rate_mbps=1, bucket_bytes=15_000),))
    qos = run(fixed(40), link=link, duration_s=0.5)
    assert (element(qos, "policer").passed, element(qos, "policer").dropped) == (10, 30)
    paced = run(fixed(400, pacing_bytes_per_s=1_448_000), link=link, duration_s=0.2405)
    # 15000 bytes at first and 125 a ms: 10 + 20 packets up to 240 ms.
    assert element(paced, "policer").passed == 30


def test_bucket_is_full_again_after_its_size_over_its_rate() -> None:
    # 15000 bytes at 1 Mbit/s: 120 ms. A packet less when the second burst comes 0.1 ms too early.
    for gap_s, passed in ((0.120, 20), (0.1199, 19), (3.0, 20)):
        link = LinkSpec(rate_mbps=1000, rtt_ms=5000, before=(Policer(rate_mbps=1, bucket_bytes=15_000),))
        qos = run(fixed(20), fixed(20, start_s=gap_s), link=link, duration_s=gap_s + 0.5)
        assert element(qos, "policer").passed == passed


def test_a_policers_rate_changes_at_its_steps_and_its_tokens_stay() -> None:
    # 15000 bytes at first, 125 a ms up to 120 ms and 500 from then on: 10 + 10 + 40 packets up to 240 ms.
    steps = (RateStep(at_s=0, rate_mbps=1), RateStep(at_s=0.12, rate_mbps=4))
    link = LinkSpec(rate_mbps=12, rtt_ms=2000, before=(SteppedPolicer(steps=steps, bucket_bytes=15_000),))
    paced = run(fixed(400, pacing_bytes_per_s=1_448_000), link=link, duration_s=0.2405)
    assert element(paced, "stepped_policer").passed == 60
    # Nothing is sent between 0 and 110 or 120 ms, nor at the step: 10 and 9 packets' tokens came at the rate before.
    wide = link.model_copy(update={"rate_mbps": 1000.0, "rtt_ms": 5000.0})
    for gap_s, passed in ((0.1199, 19), (0.1201, 20)):
        qos = run(fixed(20), fixed(20, start_s=gap_s), link=wide, duration_s=gap_s + 0.001)
        assert element(qos, "stepped_policer").passed == passed


def test_flows_of_a_client_share_a_bucket_and_others_have_their_own() -> None:
    def passed(per: str, *clients: str) -> int:
        policer = Policer.model_validate({"rate_mbps": 1, "bucket_bytes": 15_000, "per": per})
        link = LinkSpec(rate_mbps=1000, rtt_ms=5000, before=(policer,))
        qos = run(*[fixed(20, client=client) for client in clients], link=link, duration_s=0.001)
        return element(qos, "policer").passed

    assert passed("client", "a", "a", "a") == 10
    assert passed("client", "a", "b", "a") == 20
    assert passed("flow", "a", "a", "a") == 30


def test_shaper_holds_each_packet_until_its_tokens_are_there() -> None:
    # A bucket of two packets; the k-th of a burst of 12 waits for (k - 2) x 12 ms at 1 Mbit/s.
    shaper = Shaper(rate_mbps=1, bucket_bytes=3000, queue_bytes=15_000)
    qos = run(fixed(14), link=LinkSpec(rate_mbps=1000, rtt_ms=5000, before=(shaper,)), duration_s=1)
    row = element(qos, "shaper")
    assert (row.passed, row.dropped, row.inside) == (12, 2, 0)
    held_ms = np.repeat(row.delay.edges_us, row.delay.counts.astype(int)) / 1000
    assert held_ms[2:] == pytest.approx([12.0 * k for k in range(1, 11)], rel=0.02)


def test_shaper_gives_a_long_flow_its_rate_and_its_queue_as_delay() -> None:
    shaper = Shaper(rate_mbps=2, bucket_bytes=30_000, queue_bytes=60_000)
    link = LinkSpec(rate_mbps=50, rtt_ms=40, behind=(shaper,))
    qos = run(fixed(45), link=link, duration_s=60, warmup_s=10)
    assert qos.throughput_mbps == pytest.approx(2, rel=2e-3)
    # 45 packets of 6 ms are on the way, 40 ms of that in the air.
    assert qos.flows[0].rtt.percentile_ms(50) == pytest.approx(45 * 6, rel=0.03)
    assert element(qos, "shaper").dropped == 0


# --- links


def test_stepped_rate_carries_the_bytes_of_its_steps() -> None:
    steps = (
        RateStep(at_s=0, rate_mbps=12),
        RateStep(at_s=1, rate_mbps=1.2),
        RateStep(at_s=2, rate_mbps=0),
        RateStep(at_s=3, rate_mbps=6),
    )
    qos = run(fixed(5000), link=LinkSpec(steps=steps, rtt_ms=10, buffer_pkts=None), duration_s=4, window_s=1.0)
    # 1.5 MB, 150 kB, nothing, 750 kB; a packet is 1500 bytes.
    assert qos.windows.capacity_bytes.tolist() == [1_500_000, 150_000, 0, 750_000]
    assert qos.windows.packets.tolist() == pytest.approx([1000, 100, 0, 500], abs=1)
    assert qos.packets == pytest.approx(1600, abs=1)


def test_packet_under_way_goes_on_at_the_new_rate() -> None:
    # Half of it in 0.5 ms at 12 Mbit/s, the rest at 1.2: 5 ms.
    steps = (RateStep(at_s=0, rate_mbps=12), RateStep(at_s=0.0005, rate_mbps=1.2))
    qos = run(fixed(1), link=LinkSpec(steps=steps, rtt_ms=1000), duration_s=0.5)
    assert qos.mean_queueing_delay_ms == pytest.approx(5.5, abs=1e-6)


def test_one_step_is_a_constant_rate() -> None:
    stepped = LinkSpec(steps=(RateStep(at_s=0, rate_mbps=7.3),), buffer_pkts=60)
    plain = run(FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=7.3, buffer_pkts=60), duration_s=20)
    assert run(FlowSpec(cca="reno"), link=stepped, duration_s=20).summary() == plain.summary()


@pytest.mark.parametrize("side", ["before", "behind"])
def test_access_link_that_is_slower_is_the_bottleneck(side: str) -> None:
    link = LinkSpec.model_validate(
        {"rate_mbps": 100, "rtt_ms": 40, side: ({"kind": "access", "rate_mbps": 6, "buffer_pkts": 30},)}
    )
    qos = run(fixed(45), link=link, duration_s=30, warmup_s=5)
    # 2 ms a packet: 20 in the air, 25 in its queue.
    assert qos.goodput_mbps == pytest.approx(6 * 1448 / 1500, rel=5e-3)
    assert element(qos, "access").delay.percentile_ms(50) == pytest.approx(50, rel=0.05)
    assert qos.mean_queueing_delay_ms < 1
    assert_balanced(qos)


# --- CoDel


def test_codel_drops_at_the_times_of_its_control_law() -> None:
    # A window of 60 over a link of one packet a ms: the queue stands at about 50 ms, far above the target, whatever
    # one packet fewer does. The k-th drop follows the one before by 100 ms / sqrt(k).
    link = LinkSpec(rate_mbps=12, rtt_ms=10, buffer_pkts=None, codel=Codel())
    scenario = Scenario(link=link, flows=(fixed(60),), duration_s=1.2)
    qos = simulate(scenario, series_every_s=0.001)
    assert qos.element_series is not None
    drops = qos.element_series.dropped[:, 0]
    times_ms = np.repeat(qos.element_series.time_s * 1000, drops.astype(int))
    assert element(qos, "link").codel_dropped == qos.dropped == drops.sum()
    # Late from 100 ms after the queue exceeded 5 ms, which the sixth packet of the burst does.
    assert times_ms[0] == pytest.approx(106, abs=2)
    expected = times_ms[0] + np.cumsum([100 / math.sqrt(k) for k in range(1, 12)])
    assert times_ms[1:12] == pytest.approx(expected, abs=2.1)


def test_codel_leaves_a_short_queue_alone() -> None:
    # 103 packets stand 1.8 ms above what the link holds: below the target.
    qos = run(fixed(103), link=LinkSpec(rate_mbps=12, rtt_ms=100, codel=Codel()), duration_s=30)
    assert qos.dropped == 0


@pytest.mark.parametrize("kind", ["rate", "trace"])
def test_codel_keeps_renos_queue_near_the_target(kind: str) -> None:
    rates: dict[str, object] = {"rate_mbps": 12} if kind == "rate" else {"trace": trace(list(range(1, 1001)), 1000)}
    deep = run(FlowSpec(cca="reno"), link=LinkSpec.model_validate({**rates, "rtt_ms": 40}), duration_s=60, warmup_s=10)
    link = LinkSpec.model_validate({**rates, "rtt_ms": 40, "codel": {}})
    qos = run(FlowSpec(cca="reno"), link=link, duration_s=60, warmup_s=10)
    assert qos.queueing_delay.percentile_ms(95) < 30 < deep.queueing_delay.percentile_ms(50)
    assert qos.utilization > 0.8
    assert_balanced(qos)


# --- loss


@pytest.mark.parametrize(
    ("to_bad", "to_good", "loss_good", "loss_bad"), [(0.01, 0.2, 0, 1), (0.05, 0.5, 0.001, 0.5), (0.3, 0.3, 0, 1)]
)
def test_bursty_loss_has_its_mean_and_its_spells(
    to_bad: float, to_good: float, loss_good: float, loss_bad: float
) -> None:
    channel = GilbertElliott(to_bad=to_bad, to_good=to_good, loss_good=loss_good, loss_bad=loss_bad)
    link = LinkSpec(rate_mbps=1000, rtt_ms=100, behind=(channel,))
    qos = run(fixed(400, pacing_bytes_per_s=2_896_000), link=link, duration_s=100, seed=3)
    row = element(qos, "gilbert_elliott")
    # Losses of n packets have a variance inflated by spells: (1 + l) / (1 - l) with l = 1 - p - r, bounded at 5 sigma.
    memory = 1 - to_bad - to_good
    mean_loss = (to_good * loss_good + to_bad * loss_bad) / (to_bad + to_good)
    sigma = math.sqrt(mean_loss * (1 - mean_loss) * (1 + memory) / (1 - memory) / row.entered)
    assert row.entered > 10_000
    assert row.dropped / row.entered == pytest.approx(mean_loss, abs=5 * sigma)


def test_losses_come_in_runs_of_the_mean_length() -> None:
    # One packet each 1 ms, sampled each: runs of samples with a drop are the bad spells.
    channel = GilbertElliott(to_bad=0.02, to_good=0.25)
    link = LinkSpec(rate_mbps=1000, rtt_ms=5, behind=(channel,))
    scenario = Scenario(link=link, flows=(fixed(4000, pacing_bytes_per_s=1_448_000),), duration_s=100, seed=1)
    row = simulate(scenario, series_every_s=0.002).element_series
    assert row is not None
    lost = row.dropped[:, 1]  # packets go in pairs, each 2 ms
    bad = np.flatnonzero(np.diff(np.concatenate([[0], (lost > 0).astype(int), [0]])))
    spells = (bad[1::2] - bad[::2]).astype(float)
    # In samples of two packets a spell of geometric length L touches (L + 1) / 2 on average, L = 4; two that are one
    # sample apart read as one.
    assert len(spells) > 500
    assert spells.mean() == pytest.approx((4 + 1) / 2, rel=0.12)


def test_random_loss_element_is_the_links_own_loss_at_another_place() -> None:
    link = LinkSpec(rate_mbps=100, rtt_ms=50, before=(RandomLoss(share=0.05),))
    qos = run(fixed(50), link=link, duration_s=60)
    row = element(qos, "loss")
    assert row.dropped / row.entered == pytest.approx(0.05, rel=0.1)
    assert qos.retransmission_rate == pytest.approx(0.05, rel=0.1)


# --- jitter, reordering, ACKs


def test_jitter_out_of_order_is_even_and_overtakes() -> None:
    link = LinkSpec(rate_mbps=1000, rtt_ms=5000, before=(Jitter(max_ms=50, reorder=True),))
    qos = run(fixed(4000), link=link, duration_s=1)
    delay = element(qos, "jitter").delay
    assert [delay.percentile_ms(p) for p in (10, 50, 90)] == pytest.approx([5, 25, 45], rel=0.08)
    assert delay.percentile_ms(100) <= 50.5


def test_a_clock_lets_all_go_at_its_ticks() -> None:
    """A packet comes anywhere between two ticks, and waits evenly from 0 to their distance."""

    def waits(clock: Clock) -> Delays:
        link = LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=100, behind=(clock,))
        return element(run(fixed(2000), link=link, duration_s=20), "clock").delay

    even = waits(Clock(least_ms=10, most_ms=10))
    assert [even.percentile_ms(p) for p in (10, 50, 90)] == pytest.approx([1, 5, 9], rel=0.15)
    assert even.percentile_ms(100) <= 10.2
    wide = waits(Clock(least_ms=10, most_ms=30))
    # At least 10 ms apart, so that waits up to there are even: 25 % of a tick's 20 ms on average wait up to 5 ms.
    assert wide.percentile_ms(25) == pytest.approx(5, rel=0.1)
    assert wide.percentile_ms(100) <= 30.5


def test_jitter_in_order_keeps_the_order_and_reorder_does_not() -> None:
    def retransmitted(*elements: PathElement) -> float:
        link = LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=100, behind=elements)
        return run(fixed(100), link=link, duration_s=30).retransmission_rate

    assert retransmitted(Jitter(max_ms=20)) == 0
    # A packet 5 ms late is overtaken by many, which seems a loss until the sender has seen that it is not (RACK).
    assert 0 < retransmitted(Reorder(share=0.01, delay_ms=5)) < 1e-3
    assert retransmitted(Reorder(share=0.01, delay_ms=0.5)) == 0


def test_acks_leave_in_bursts_that_are_spaced_by_their_interval() -> None:
    link = LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=100, acks=AckPath(interval_ms=20))
    qos = run(fixed(40), link=link, duration_s=20, warmup_s=2)
    plain = run(fixed(40), link=LinkSpec(rate_mbps=RATE_MBPS, rtt_ms=100), duration_s=20, warmup_s=2)
    # Rounds begin at multiples of 20 ms: 120 instead of 101.2 ms each.
    assert qos.throughput_mbps / plain.throughput_mbps == pytest.approx(101.2 / 120, rel=0.02)
    assert qos.acks is not None
    assert 0 < qos.acks.delay.percentile_ms(50) <= 20.2
    assert_balanced(qos)


def test_uplink_spaces_acks_by_their_own_bytes() -> None:
    # 52 bytes at 0.1 Mbit/s: 4.16 ms an ACK of two packets bound the flow to 2 packets in that time.
    uplink = LinkRate(rate_mbps=0.1)
    qos = run(fixed(200), link=LinkSpec(rate_mbps=100, rtt_ms=20, acks=AckPath(uplink=uplink)), duration_s=30)
    assert qos.throughput_mbps == pytest.approx(2 * 1500 * 8e-3 / 4.16, rel=0.02)


def test_uplink_trace_lets_acks_go_at_its_opportunities() -> None:
    # One opportunity each 50 ms carries 28 ACKs of 52 bytes: all of a window of 20.
    uplink = LinkRate(trace=trace([50], 50))
    qos = run(fixed(20), link=LinkSpec(rate_mbps=1000, rtt_ms=100, acks=AckPath(uplink=uplink)), duration_s=10)
    assert qos.throughput_mbps == pytest.approx(20 * 1500 * 8e-3 / 150, rel=0.03)


# --- applications


def test_transfers_follow_each_other_behind_their_gaps() -> None:
    # Ten segments are one round: 100 ms and two packets of 0.6 ms until the first ACK, 8 x 0.6 more for the last.
    flow = fixed(10, transfers=(Transfer(size_bytes=14_480, gap_s=0.5, count=3), Transfer(size_bytes=14_480)))
    transfers = run(flow, duration_s=5).flows[0].transfers
    took_s = 0.1 + 10 * 0.0006
    assert [t.size_bytes for t in transfers] == [14_480] * 4
    assert [t.duration_s for t in transfers] == pytest.approx([took_s] * 4)
    assert [t.start_s for t in transfers] == pytest.approx([k * (took_s + 0.5) for k in range(4)])
    assert transfers[0].goodput_mbps == pytest.approx(14_480 * 8e-6 / took_s)


def test_a_connection_starts_behind_the_end_of_another() -> None:
    """Its gap counts from the other's last ACK; one that waits for what never ends has no transfer."""
    first = fixed(10, transfers=(Transfer(size_bytes=14_480, gap_s=0.5, count=2),), start_s=0.2)
    second = fixed(10, size_bytes=14_480, after=0, start_s=0.25)
    third = fixed(10, size_bytes=14_480, after=1)
    flows = run(first, second, third, duration_s=5).flows
    took_s = 0.1 + 10 * 0.0006
    ends_s = 0.2 + 2 * took_s + 0.5
    assert flows[0].complete_s == pytest.approx(ends_s)
    assert flows[1].transfers[0].start_s == pytest.approx(ends_s + 0.25)
    assert flows[1].complete_s == pytest.approx(ends_s + 0.25 + took_s)
    assert flows[2].transfers[0].start_s == pytest.approx(ends_s + 0.25 + took_s)
    cut = run(first, second, third, duration_s=0.9).flows
    assert [flow.transfers for flow in cut[1:]] == [(), ()]


def test_transfers_without_gaps_are_one_after_the_other_on_one_connection() -> None:
    qos = run(fixed(10, transfers=(Transfer(size_bytes=14_480, count=50),)), duration_s=20)
    assert qos.flows[0].complete_s == pytest.approx(50 * 0.106)
    assert (qos.packets, len(qos.flows[0].transfers)) == (500, 50)


def test_transfer_that_the_run_ends_in_is_not_complete() -> None:
    flow = fixed(10, transfers=(Transfer(size_bytes=14_480, gap_s=1, count=3),), start_s=0.5)
    qos = run(flow, duration_s=1.65)
    assert [t.complete_s is None for t in qos.flows[0].transfers] == [False, True]
    assert qos.flows[0].complete_s is None
    stopped = run(flow.model_copy(update={"stop_s": 1.2}), duration_s=9)
    assert len(stopped.flows[0].transfers) == 1


def test_idle_gap_fills_the_bucket_for_the_next_transfer() -> None:
    # 100 packets a transfer from a bucket of 100: none is dropped behind a gap that fills it, many without.
    def dropped(gap_s: float) -> int:
        policer = Policer(rate_mbps=1, bucket_bytes=150_000)
        flow = fixed(50, transfers=(Transfer(size_bytes=100 * 1448, gap_s=gap_s, count=4),))
        return element(run(flow, link=LinkSpec(rate_mbps=50, behind=(policer,)), duration_s=20), "policer").dropped

    assert dropped(1.2) == 0
    assert dropped(0.0) > 0


def test_elements_without_effect_change_nothing_else() -> None:
    # A policer that never empties, an access link behind that never queues for long, loss of nothing.
    wide = (Policer(rate_mbps=1000, bucket_bytes=10**9), RandomLoss(share=0), Reorder(share=1e-18, delay_ms=1))
    plain = run(FlowSpec(), FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=9, loss=0.01), duration_s=10)
    along = run(FlowSpec(), FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=9, loss=0.01, before=wide), duration_s=10)
    assert [f.summary() for f in along.flows] == [f.summary() for f in plain.flows]
    assert departures_ms(along) == departures_ms(plain)
