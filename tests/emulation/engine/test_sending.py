# SPDX-License-Identifier: MIT
"""What the sender may send and when, what it measures, and what may not happen on any path."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation import FlowSpec, _engine
from tests.emulation.engine.links import fixed
from tests.emulation.engine.path import Path

RENO = FlowSpec(cca="reno")
GR = FlowSpec(cca="gr")
UNPACED = 10

# The figures of an "ack" in Path.reports().
ACKED, LOST, IN_FLIGHT, RTT_US, RATE_PKTS, RATE_US, APP_LIMITED, CWND_LIMITED, DELIVERED = range(9)


# --- bursts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate_mbps", "burst"),
    # Payload of 1448 bytes in 1/1024 s, at least two and at most 64 KiB.
    [(1, 2), (20, 2), (35, 2), (36, 3), (100, 8), (500, 42), (1000, 44), (5000, 44)],
)
def test_paced_segments_leave_in_bursts_of_a_millisecond(rate_mbps: int, burst: int) -> None:
    flow = fixed(100_000, pacing_bytes_per_s=rate_mbps * 125_000)
    path = Path(flow, UNPACED + 20 * burst, rate_mbps=None).start().run(1000)
    at_ms = [at_ms for at_ms, _, _ in path.sent][UNPACED:]
    assert Counter(at_ms) == dict.fromkeys(at_ms, burst)
    gap_ms = burst * 1448 * 8e-3 / rate_mbps
    assert at_ms[-1] == pytest.approx(19 * gap_ms, rel=1e-3)


def test_the_first_ten_segments_of_a_connection_are_not_paced() -> None:
    path = Path(fixed(100_000, pacing_bytes_per_s=125_000), 30, rate_mbps=None).start().run(1000)
    at_ms = [at_ms for at_ms, _, _ in path.sent]
    # The next pair leaves with them: nothing paced has been sent before it.
    assert at_ms.count(0.0) == UNPACED + 2
    assert len(set(at_ms)) == 1 + (30 - UNPACED - 2) // 2


# --- samples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_mbps", [1.0, 20.0, 80.0])
def test_the_delivery_rate_is_the_links(rate_mbps: float) -> None:
    # One and a half times what the path holds: the link is never idle.
    path = Path(fixed(10 + round(1.5 * rate_mbps * 100 / 12)), rate_mbps=rate_mbps).start().run(5000)
    rates = [
        figures[RATE_PKTS] * 12_000 / figures[RATE_US]
        for at_ms, _, figures in path.reports("ack")
        if at_ms > 1500 and figures[RATE_US]
    ]
    assert len(rates) > 100
    assert rates == pytest.approx([rate_mbps] * len(rates), rel=0.03)


def test_the_delivery_rate_of_a_small_window_is_window_over_round_trip() -> None:
    path = Path(fixed(10), rate_mbps=None).start().run(3000)
    samples = {(f[RATE_PKTS], f[RATE_US]) for at_ms, _, f in path.reports("ack") if at_ms > 2500}
    # The flight's ACKs come in pairs, in one instant: 2 to 10 are delivered since the one before it.
    assert samples == {(10, 100_000)}


def test_samples_are_marked_from_a_write_into_an_unfilled_window_until_its_flight_is_acknowledged() -> None:
    path = Path(fixed(20), 130, rate_mbps=None).start().run(2000)

    def marks(first: int, last: int) -> set[int]:
        reports = [figures for _, _, figures in path.reports("ack")]
        return {figures[APP_LIMITED] for figures in reports if first < figures[DELIVERED] <= last}

    # Behind the first flight the window is full; the last 10 are all that is left, and no write finds that out.
    assert marks(0, 20) == {1}
    assert marks(20, 130) == {0}
    path.more(200).run(4000)
    assert marks(130, 150) == {1}
    assert marks(160, 330) == {0}


def test_a_write_while_the_window_is_full_marks_nothing() -> None:
    path = Path(fixed(20), 40, rate_mbps=None).start().run(150)
    # 20 of 40 are in flight since 100 ms.
    path.more(100).run(2000)
    reports = [figures for _, _, figures in path.reports("ack")]
    assert {figures[APP_LIMITED] for figures in reports if figures[DELIVERED] > 20} == {0}


# --- the window's use ------------------------------------------------------------------------------------------------


def test_a_receive_window_freezes_slow_start_at_twice_what_it_lets_out() -> None:
    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(window_pkts=40))
    path = Path(RENO, rate_mbps=None, window_pkts=40, receiver=receiver).start().run(10_000)
    assert max(pkts for _, _, pkts in path.sent) <= 40
    assert path.sender.cwnd_pkts == 80


def test_in_congestion_avoidance_a_window_that_is_never_filled_stays() -> None:
    def meets(packet: Any, _now_ns: int) -> float | None:
        return None if packet.tx == 900 else 0.0

    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(window_pkts=100))
    path = Path(RENO, rate_mbps=None, meets=meets, window_pkts=100, receiver=receiver).start()
    path.run(5000)
    frozen_pkts = path.sender.cwnd_pkts
    path.run(20_000)
    # Half of slow start's frozen 200 (and not the 100 that the receiver takes): never full, it never grows.
    assert len(path.reports("recovery_entered")) == 1
    assert frozen_pkts == path.sender.cwnd_pkts
    assert 90 <= frozen_pkts <= 101


def test_a_window_that_is_filled_grows() -> None:
    path = Path(RENO, rate_mbps=None).start().run(350)
    # 10, 20, 40, 80: each round trip doubles it.
    assert path.sender.cwnd_pkts == 80
    assert all(figures[CWND_LIMITED] for _, _, figures in path.reports("ack"))


# --- transfers -------------------------------------------------------------------------------------------------------


def test_more_data_within_a_timeout_is_a_transfer() -> None:
    path = Path(RENO, 200, rate_mbps=None).start().run(550)
    window_pkts = path.sender.cwnd_pkts
    path.more(100).run(600)
    assert [(at_ms, kind) for at_ms, kind, _ in path.reports("transfer_started", "idle_restart")] == [
        (550.0, "transfer_started")
    ]
    assert path.sender.cwnd_pkts >= window_pkts


def test_idle_time_halves_the_window_for_each_timeout_down_to_the_initial_one() -> None:
    for wait_ms, halvings in ((0, 0), (400, 1), (700, 2), (5000, 16)):
        path = Path(RENO, 150, rate_mbps=None).start().run(500)
        window_pkts, last_ms = path.sender.cwnd_pkts, path.sent[-1][0]
        path.run(max(last_ms + wait_ms, 500)).more(1)
        # RTO is 300 ms: SRTT + 200 ms.
        assert path.sender.cwnd_pkts == max(window_pkts >> halvings, 10)
        kind = "idle_restart" if wait_ms else "transfer_started"
        assert [reports for _, reports, _ in path.reports("idle_restart", "transfer_started")] == [kind]


def test_more_data_while_some_is_in_flight_is_no_new_transfer() -> None:
    path = Path(RENO, 15, rate_mbps=None).start().run(150)
    path.more(100).run(3000)
    assert path.reports("transfer_started", "idle_restart") == []
    assert path.sender.acked_pkts == 115
    assert path.sender.is_complete


# --- the receiver ----------------------------------------------------------------------------------------------------


def test_the_first_sixteen_segments_are_acknowledged_at_once_then_every_second() -> None:
    path = Path(fixed(100), 60, rate_mbps=20.0).start().run(2000)
    numbers = [ack.cumulative for _, ack in path.acks]
    assert numbers[:16] == list(range(1, 17))
    assert numbers[16:] == list(range(18, 61, 2))


def test_an_odd_segment_waits_40_ms() -> None:
    path = Path(fixed(61), rate_mbps=20.0).start().run(200)
    # Departs at 36.6 ms; delayed by 40, and 100 back.
    assert [at_ms for at_ms, ack in path.acks if ack.cumulative == 61] == pytest.approx([176.6])


def test_a_transfers_last_segment_does_not_wait() -> None:
    path = Path(fixed(100), 61, rate_mbps=20.0).start().run(2000)
    assert path.acks[-1][1].cumulative == 61
    assert path.acks[-1][0] == pytest.approx(136.6)


def test_a_receiver_may_acknowledge_a_whole_burst() -> None:
    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(quick_acks=0, burst_pkts=44))
    path = Path(fixed(30), rate_mbps=None, receiver=receiver).start().run(250)
    # The end of a burst is seen 50 us behind it.
    assert [(at_ms, ack.cumulative) for at_ms, ack in path.acks] == [(100.05, 30), (200.1, 60)]


def test_what_comes_again_is_reported_and_what_is_beyond_a_hole_in_blocks() -> None:
    sender = _engine.LoneSender(_engine.FlowJob("fixed", [10, 0]), 10)
    packets = sender.start(0, 100_000_000)
    receiver = _engine.LoneReceiver()
    answers = [receiver.take(i, packets[seq]) for i, seq in enumerate((0, 2, 4, 6, 8, 4, 1))]
    assert [ack.cumulative for ack in answers] == [1, 1, 1, 1, 1, 1, 3]
    # Three blocks, the newest first.
    assert answers[4].blocks == [(8, 9), (6, 7), (4, 5)]
    assert [ack.duplicate for ack in answers] == [-1, -1, -1, -1, -1, 4, -1]
    # A delayed echo is of the earlier segment; blocks echo what was before the hole.
    assert [ack.echo_tx for ack in answers] == [0, 0, 0, 0, 0, 0, 1]


def test_a_receive_window_that_sizes_itself_follows_what_is_taken() -> None:
    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(window_pkts=2000, autotune=True))
    path = Path(fixed(400), 20_000, rate_mbps=None, window_pkts=45, receiver=receiver).start().run(5000)
    windows = [ack.window_pkts for _, ack in path.acks]
    assert windows == sorted(windows)
    assert windows[0] == 45
    # Twice what is taken in a round trip, and a little: never what holds the sender.
    assert 400 < windows[-1] <= 2 * 400 + 16


# --- on any path -----------------------------------------------------------------------------------------------------


@given(
    flow=st.sampled_from([RENO, GR, fixed(1), fixed(7), fixed(60), fixed(60, pacing_bytes_per_s=400_000)]),
    size_pkts=st.integers(1, 400),
    loss=st.floats(0, 0.4),
    late_share=st.floats(0, 0.3),
    late_ms=st.floats(0, 400),
    rate_mbps=st.sampled_from([None, 1.0, 20.0]),
    window_pkts=st.sampled_from([3, 50, 2**30]),
    burst_pkts=st.sampled_from([1, 16]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_nothing_impossible_happens_and_every_file_completes(
    *,
    flow: FlowSpec,
    size_pkts: int,
    loss: float,
    late_share: float,
    late_ms: float,
    rate_mbps: float | None,
    window_pkts: int,
    burst_pkts: int,
    seed: int,
) -> None:
    chance = random.Random(seed)

    def meets(_packet: Any, _now_ns: int) -> float | None:
        if chance.random() < loss:
            return None
        return late_ms * chance.random() if chance.random() < late_share else 0.0

    receiver = _engine.LoneReceiver(_engine.ReceiverConfig(window_pkts=window_pkts, burst_pkts=burst_pkts))
    path = Path(flow, size_pkts, rate_mbps=rate_mbps, meets=meets, receiver=receiver, window_pkts=window_pkts)
    sender = path.sender

    def check() -> None:
        assert sender.is_consistent
        assert sender.acked_pkts <= path.receiver.in_order <= sender.next <= size_pkts
        assert 0 <= sender.in_flight <= sender.next - sender.acked_pkts
        assert sender.next - path.receiver.in_order <= window_pkts

    path.start().run(3e7, check=check)
    assert sender.is_complete
    counters = sender.counters
    assert counters["sent"] == len(path.sent) == size_pkts + counters["retransmitted"]
    # Each send of a probe or behind a timeout may pass the window by one.
    beyond = counters["probes"] + counters["timeouts"]
    if flow.cca == "fixed":
        assert max(pkts for _, _, pkts in path.sent) <= flow.params["cwnd_pkts"] + beyond + counters["undone"] * 60
    reports = [kind for _, kind, _ in path.reports("recovery_entered", "recovery_left", "undo", "timeout")]
    for before, after in pairwise(reports):
        assert (before, after) not in {("recovery_entered", "recovery_entered"), ("recovery_left", "recovery_left")}
