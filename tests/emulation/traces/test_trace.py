# SPDX-License-Identifier: MIT
"""Closed-form values on constant-rate traces, and properties on random ones."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.traces import Trace, TraceError

TIMES = st.lists(st.integers(0, 5000), min_size=1, max_size=60).map(sorted)


def make(times_ms: list[int], period_ms: int = 0) -> Trace:
    return Trace("t", np.array(times_ms, dtype=np.uint32), period_ms or max(times_ms[-1], 1))


def every_ms(period_ms: int) -> Trace:
    """12 Mbit/s: 1500 bytes a millisecond."""
    return make(list(range(1, period_ms + 1)))


def test_one_opportunity_a_millisecond_is_12_mbps() -> None:
    assert every_ms(1000).mean_rate_mbps == pytest.approx(12.0)
    assert every_ms(1000).duration_s == 1.0


@given(TIMES, st.integers(0, 20_000), st.integers(0, 20_000))
def test_capacity_is_what_counting_every_repetition_gives(times_ms: list[int], one_ms: int, other_ms: int) -> None:
    trace = make(times_ms)
    start_ms, end_ms = sorted((one_ms, other_ms))
    repeats = end_ms // trace.period_ms + 1
    counted = sum(start_ms <= time + k * trace.period_ms < end_ms for k in range(repeats) for time in times_ms)
    assert trace.capacity_bytes(start_ms, end_ms) == 1500 * counted


@given(TIMES)
def test_slice_of_the_whole_is_the_whole(times_ms: list[int]) -> None:
    trace = make(times_ms)
    assert trace.slice(0, trace.period_ms) == trace


@given(TIMES, st.integers(1, 4999))
def test_two_slices_hold_every_opportunity_once(times_ms: list[int], cut_ms: int) -> None:
    trace = make(times_ms, 5000)
    pieces = []
    for start_ms, end_ms in ((0, cut_ms), (cut_ms, 5000)):
        try:
            pieces.append(trace.slice(start_ms, end_ms).opportunities_ms + np.uint32(start_ms))
        except TraceError:
            pieces.append(np.array([], dtype=np.uint32))
    assert np.concatenate(pieces).tolist() == times_ms


def test_slice_outside_the_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="expected a piece within 0 to 10 ms, got 5 to 11 ms"):
        every_ms(10).slice(5, 11)


def test_slice_of_an_outage_is_refused() -> None:
    with pytest.raises(TraceError, match="at least one opportunity"):
        make([1, 9]).slice(2, 5)


def test_bins_count_each_opportunity_and_drop_a_partial_bin() -> None:
    assert every_ms(20).bin_counts(10).tolist() == [9, 11]
    assert make([0, 0, 4, 9, 12], 15).bin_counts(10).tolist() == [4]


def test_digest_is_over_period_and_times() -> None:
    content = b"ccatune-trace/1" + (7).to_bytes(4, "little") + (3).to_bytes(4, "little") + (7).to_bytes(4, "little")
    assert make([3, 7]).digest == hashlib.sha256(content).hexdigest()
    assert make([3, 7]).digest != make([3, 7], 8).digest


def test_equality_ignores_the_name() -> None:
    times_ms = np.array([1, 2], dtype=np.uint32)
    assert Trace("a", times_ms, 2) == Trace("b", times_ms, 2)
    assert len({Trace("a", times_ms, 2), Trace("b", times_ms, 2)}) == 1
    assert Trace("a", times_ms, 2) != Trace("a", times_ms, 3)


def test_opportunities_cannot_be_changed() -> None:
    times_ms = np.array([1, 2], dtype=np.uint32)
    trace = Trace("a", times_ms, 2)
    with pytest.raises(ValueError, match="read-only"):
        trace.opportunities_ms[0] = 0
    times_ms[0] = 0  # what the caller holds stays the caller's to write


@pytest.mark.parametrize(
    ("times", "period_ms", "message"),
    [
        (np.array([], dtype=np.uint32), 5, "at least one opportunity"),
        (np.array([2, 1], dtype=np.uint32), 5, "never decrease"),
        (np.array([1, 6], dtype=np.uint32), 5, "end by 5 ms"),
        (np.array([1], dtype=np.int64), 5, "list of uint32"),
        (np.array([[1]], dtype=np.uint32), 5, "2 dimensions"),
        (np.array([0], dtype=np.uint32), 0, "period of 1"),
    ],
)
def test_impossible_traces_are_refused(times: np.ndarray, period_ms: int, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        Trace("bad", times, period_ms)
