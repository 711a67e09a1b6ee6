# SPDX-License-Identifier: MIT
"""The bottleneck against Mahimahi's rules, row by row, and its accounting."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation import FlowSpec, LinkSpec
from tests.emulation.engine.links import departures_ms, fixed, run, trace

# Four packets arrive in the instant 0 (a window of 4 with a long round trip).
#   times in ms, period, bytes an opportunity, start in the trace -> departures
MAHIMAHI = {
    "one packet an opportunity": ([1, 2, 3, 4], 10, 1500, 0, [1, 2, 3, 4]),
    "several in one millisecond": ([2, 2, 2, 7], 10, 1500, 0, [2, 2, 2, 7]),
    "what arrives at an opportunity has missed it": ([0, 4, 9], 10, 1500, 0, [4, 9, 10, 14]),
    "the period's end is the next one's beginning": ([5, 10], 10, 1500, 0, [5, 10, 15, 20]),
    "a packet spans opportunities": ([1, 2, 3, 4, 5, 6, 7, 8], 10, 750, 0, [2, 4, 6, 8]),
    "an opportunity carries several": ([3, 6], 10, 3000, 0, [3, 3, 6, 6]),
    "the rest of an opportunity serves the next packet": ([1, 2, 3, 4, 5, 6], 10, 1000, 0, [2, 3, 5, 6]),
    "starts anywhere": ([1, 5, 9], 10, 1500, 3, [2, 6, 8, 12]),
    "starts in a later repetition": ([1, 5, 9], 10, 1500, 43, [2, 6, 8, 12]),
}


@pytest.mark.parametrize("row", MAHIMAHI.values(), ids=MAHIMAHI.keys())
def test_a_recorded_link_delivers_as_mahimahi_does(row: tuple[list[int], int, int, int, list[int]]) -> None:
    times_ms, period_ms, opportunity_bytes, start_ms, expected_ms = row
    link = LinkSpec(
        trace=trace(times_ms, period_ms), opportunity_bytes=opportunity_bytes, start_ms=start_ms, rtt_ms=100
    )
    qos = run(fixed(4), link=link, duration_s=0.09, window_s=0.001)
    assert departures_ms(qos) == expected_ms


def test_an_opportunity_without_a_packet_is_lost() -> None:
    link = LinkSpec(trace=trace(list(range(1, 100)), 100), rtt_ms=1000)
    qos = run(fixed(3, start_s=0.0505), link=link, duration_s=0.1, window_s=0.001)
    assert departures_ms(qos) == [51, 52, 53]


def test_the_rest_of_an_opportunity_is_lost_with_the_queue_empty() -> None:
    # Each packet takes two opportunities and leaves 500 bytes of the second; the next comes 41 ms later, for
    # one in flight waits for the delayed ACK. Had the 500 been kept, it would leave at 70.
    link = LinkSpec(trace=trace([10, 20, 70, 80], 1000), opportunity_bytes=1000, rtt_ms=1)
    qos = run(fixed(1), link=link, duration_s=0.1, window_s=0.001)
    assert departures_ms(qos) == [20, 80]


def test_an_opportunity_before_a_packet_in_the_same_millisecond_is_past() -> None:
    # The trace repeats at 100 ms; a packet of 100.5 ms has missed the opportunity there.
    link = LinkSpec(trace=trace([0, 60], 100), rtt_ms=1000)
    qos = run(fixed(1, start_s=0.1005), link=link, duration_s=0.2, window_s=0.001)
    assert departures_ms(qos) == [160]


def test_a_long_idle_time_over_many_periods_ends_at_the_right_opportunity() -> None:
    link = LinkSpec(trace=trace([3, 7], 10), rtt_ms=1000)
    qos = run(fixed(1), fixed(1, start_s=2.3451), link=link, duration_s=2.4, window_s=0.001)
    assert departures_ms(qos)[-1] == 2347


@pytest.mark.parametrize(
    ("times_ms", "period_ms", "start_ms", "warmup_ms", "duration_ms", "opportunities"),
    [
        ([0, 5, 9], 10, 0, 0, 10, 3),
        ([0, 5, 9], 10, 0, 0, 11, 4),
        ([0, 5, 9], 10, 5, 0, 10, 3),
        ([0, 5, 9], 10, 0, 5, 9, 1),
        ([0, 5, 9], 10, 0, 6, 29, 6),
        ([5, 10], 10, 0, 0, 10, 1),
        ([5, 10], 10, 0, 10, 20, 2),
        ([5, 10], 10, 20, 0, 20, 4),
        ([1, 1, 1], 10, 0, 0, 30, 9),
    ],
)
def test_capacity_counts_opportunities_from_the_start_up_to_the_end(
    *, times_ms: list[int], period_ms: int, start_ms: int, warmup_ms: int, duration_ms: int, opportunities: int
) -> None:
    link = LinkSpec(trace=trace(times_ms, period_ms), start_ms=start_ms)
    qos = run(fixed(1), link=link, duration_s=duration_ms / 1000, warmup_s=warmup_ms / 1000)
    assert qos.windows.capacity_bytes.sum() == 1500 * opportunities


@given(
    times_ms=st.lists(st.integers(0, 50), min_size=1, max_size=30).map(sorted),
    start_ms=st.integers(0, 200),
    opportunity_bytes=st.sampled_from([500, 1000, 1500, 2999, 4500]),
    window_ms=st.integers(1, 60),
)
@settings(max_examples=60, deadline=None)
def test_windows_add_up_and_nothing_exceeds_the_capacity(
    times_ms: list[int], start_ms: int, opportunity_bytes: int, window_ms: int
) -> None:
    link = LinkSpec(
        trace=trace(times_ms, 50), start_ms=start_ms, opportunity_bytes=opportunity_bytes, rtt_ms=7, buffer_pkts=20
    )
    whole = run(FlowSpec(cca="reno"), link=link, duration_s=0.5, warmup_s=0.1)
    cut = run(FlowSpec(cca="reno"), link=link, duration_s=0.5, warmup_s=0.1, window_s=window_ms / 1000)
    assert cut.windows.capacity_bytes.sum() == whole.windows.capacity_bytes.sum()
    assert cut.windows.packets.sum() == whole.windows.packets.sum() == whole.packets
    assert (cut.windows.delay_counts.sum(axis=0) == whole.windows.delay_counts.sum(axis=0)).all()
    assert cut.windows.delivered_bytes.sum() <= cut.windows.capacity_bytes.sum() + 1500


def test_a_full_buffer_drops_by_packets_and_by_bytes() -> None:
    for limits in ({"buffer_pkts": 10}, {"buffer_pkts": None, "buffer_bytes": 15_999}):
        qos = run(fixed(50), link=LinkSpec(rate_mbps=20, **limits), duration_s=0.05)
        assert (qos.dropped, qos.simulated_packets) == (40, 10)


def test_a_packet_that_has_begun_to_leave_is_not_in_the_queue() -> None:
    # At 1 ms half of the first packet has left; two more wait, so of the four that come at 1.5 ms one fits.
    link = LinkSpec(trace=trace([1, 2, 3], 1000), opportunity_bytes=750, buffer_pkts=3)
    qos = run(fixed(3), fixed(4, start_s=0.0015), link=link, duration_s=0.0018)
    assert (qos.sent, qos.dropped) == (7, 3)


def test_a_constant_link_serves_back_to_back() -> None:
    qos = run(fixed(5), link=LinkSpec(rate_mbps=12, rtt_ms=1000), duration_s=0.5)
    # The k-th of a burst waits for k packets of 1 ms, its own transmission with it.
    assert qos.mean_queueing_delay_ms == pytest.approx(3.0)
    assert qos.queueing_delay.percentile_ms(50) == pytest.approx(3.0)
    assert qos.queueing_delay.percentile_ms(100) == pytest.approx(5.0)
