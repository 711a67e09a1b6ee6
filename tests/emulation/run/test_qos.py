# SPDX-License-Identifier: MIT
"""Delays that can be added up, windows, fairness."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.run.qos import Delays, TransferQoS, Windows, bandwidth_shares, jain_index
from emulation.run.simulator import compact_edges_us, simulate
from emulation.scenario.model import LinkSpec, Scenario

EDGES_US = np.array([1000.0, 2000.0, 5000.0, 10_000.0])


def delays(*counts: int) -> Delays:
    return Delays(EDGES_US, np.array(counts, dtype=np.uint32))


def test_percentile_is_the_edge_of_the_bin_that_holds_it() -> None:
    # Samples 1 to 100 in bins of 50, 45, 4 and 1: p50 is the 50th, p95 the 95th, p99 the 99th.
    found = delays(50, 45, 4, 1)
    assert found.total == 100
    assert found.summary_ms() == {"p50": 1.0, "p95": 2.0, "p99": 5.0}
    assert found.percentile_ms(50.001) == 2.0
    assert found.percentile_ms(99.5) == 10.0
    assert found.percentile_ms(100) == 10.0


def test_nothing_measured_has_no_delay() -> None:
    assert delays(0, 0, 0, 0).percentile_ms(95) == 0.0
    assert delays(0, 0, 0, 0).share_within(1) == 1.0


def test_share_within_counts_whole_bins() -> None:
    found = delays(50, 45, 4, 1)
    assert found.share_within(999) == 0.0
    assert found.share_within(1000) == 0.5
    assert found.share_within(4999) == 0.95
    assert found.share_within(1e9) == 1.0


def test_sum_of_delays_does_not_overflow_their_counts() -> None:
    most = np.iinfo(np.uint32).max
    total = delays(int(most), 0, 0, 0) + delays(int(most), 0, 0, 1)
    assert total.total == 2 * int(most) + 1


@given(
    st.lists(st.integers(0, 10_000), min_size=4, max_size=4), st.lists(st.integers(0, 10_000), min_size=4, max_size=4)
)
def test_percentile_of_a_sum_lies_between_those_of_its_parts(a: list[int], b: list[int]) -> None:
    one, other = delays(*a), delays(*b)
    if one.total and other.total:
        bounds = sorted((one.percentile_ms(95), other.percentile_ms(95)))
        assert bounds[0] <= (one + other).percentile_ms(95) <= bounds[1]


@given(st.lists(st.integers(0, 10_000), min_size=4, max_size=4), st.integers(1, 99))
def test_percentile_holds_at_least_its_share(counts: list[int], percentile: int) -> None:
    found = delays(*counts)
    assert found.share_within(found.percentile_ms(percentile) * 1000) >= percentile / 100 - 1e-12


def test_windows_pool_the_delays_of_those_chosen() -> None:
    counts = np.array([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0]], dtype=np.uint32)
    per_window = np.ones(3, dtype=np.uint64)
    windows = Windows(np.arange(3), per_window, per_window, per_window, counts, EDGES_US)
    assert windows.delays().counts.tolist() == [1, 2, 3, 0]
    assert windows.delays(np.array([True, False, True])).counts.tolist() == [1, 0, 3, 0]
    assert windows.delays(slice(1, None)).total == 5


def test_compact_bins_are_at_most_a_sixteenth_wide() -> None:
    edges_us = compact_edges_us()
    widths = np.diff(edges_us)
    assert edges_us[0] == 100
    assert (widths <= np.maximum(edges_us[:-1] / 16, 100) + 1e-6).all()
    assert edges_us[-1] >= 60e6


def test_jain_index_knows_its_extremes() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain_index([1.0, 2.0, 3.0]) == pytest.approx(36 / (3 * 14))
    assert jain_index([0.0, 0.0]) == 1.0


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20))
def test_jain_index_lies_between_one_over_n_and_one(rates: list[float]) -> None:
    assert 1 / len(rates) - 1e-9 <= jain_index(rates) <= 1 + 1e-9
    assert sum(bandwidth_shares(rates)) == pytest.approx(1)


def test_transfer_has_a_goodput_once_it_is_complete() -> None:
    assert TransferQoS(1_000_000, 2.0, 6.0).goodput_mbps == pytest.approx(2.0)
    assert TransferQoS(1_000_000, 2.0, None).goodput_mbps is None
    assert TransferQoS(1_000_000, 2.0, None).duration_s is None


def test_summary_is_json_and_says_what_the_result_says() -> None:
    qos = simulate(Scenario(link=LinkSpec(rate_mbps=20), duration_s=3, name="a"))
    summary = json.loads(json.dumps(qos.summary()))
    assert summary["scenario"] == "a"
    assert summary["utilization"] == pytest.approx(qos.throughput_mbps / qos.capacity_mbps)
    assert summary["queueing_delay_ms"]["p95"] == qos.queueing_delay.percentile_ms(95)
    assert len(summary["flows"]) == 1
    assert summary["flows"][0]["throughput_mbps"] == qos.throughput_mbps
