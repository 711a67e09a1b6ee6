# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from surface import EDGES_US, objective

from training.objectives import DelayObjective, Pool, Rest, Tally, percentile_us


def tally(*waits_ms: tuple[int, int], capacity_packets: int | None = None) -> Tally:
    """An epoch of 30 s from (packets, wait in ms) pairs; waits end on an edge."""
    delays = np.zeros(len(EDGES_US), dtype=np.uint32)
    for packets, wait_ms in waits_ms:
        delays[wait_ms * 10 - 1] += packets
    total = int(delays.sum())
    return Tally(30.0, 1500 * (capacity_packets or total), 1500 * total, total, delays, goodput_bytes=1500 * total)


def pool(*tallies: Tally) -> Pool:
    return Pool.of(tallies)


def test_exactly_95_of_100_packets_within_the_target_meet_it() -> None:
    score = objective().score(pool(tally((95, 50), (5, 60))))
    assert score.feasible
    assert score.metrics["share_within"] == 0.95
    assert score.metrics["delay_ms"] == pytest.approx(50.0)


def test_one_packet_fewer_misses_it_by_what_the_percentile_exceeds() -> None:
    score = objective().score(pool(tally((94, 50), (6, 60))))
    assert not score.feasible
    assert score.violation == pytest.approx(60 / 50 - 1)


def test_epochs_are_pooled_by_their_packets_not_one_by_one() -> None:
    # 10 of 100 late in the small epoch, none of 900: 1 % of all.
    score = objective().score(pool(tally((90, 10), (10, 400)), tally((900, 10))))
    assert score.feasible
    assert score.metrics["share_within"] == 0.99


def test_throughput_is_the_mean_over_epochs_and_utilization_over_the_capacity() -> None:
    score = objective().score(pool(tally((1000, 10), capacity_packets=2000), tally((3000, 10), capacity_packets=3000)))
    assert score.metrics["throughput_mbps"] == pytest.approx(4000 * 1500 * 8 / 60 / 1e6)
    assert score.metrics["utilization"] == pytest.approx(0.8)


def test_the_percentile_is_the_upper_edge_of_the_bin_it_falls_in() -> None:
    delays = np.zeros(len(EDGES_US), dtype=np.uint32)
    delays[[0, 499, 999]] = [50, 45, 5]
    assert percentile_us(delays, EDGES_US, share=0.5) == 100.0
    assert percentile_us(delays, EDGES_US, share=0.95) == 50_000.0
    assert percentile_us(delays, EDGES_US, share=0.951) == 100_000.0


def test_a_run_without_packets_has_no_delay_and_meets_the_target() -> None:
    score = objective().score(pool(tally(capacity_packets=100)))
    assert (score.violation, score.metrics["utilization"], score.metrics["delay_ms"]) == (0.0, 0.0, 0.0)


def beside(one: Tally, packets: int) -> Tally:
    """The epoch with a rival that delivered so many packets."""
    return replace(one, references={"bbr": replace(one, goodput_bytes=1500 * packets)})


def with_rival(packets: int, *tallies: Tally) -> Pool:
    """A pool whose rival delivered so many packets on each."""
    return pool(*(beside(one, packets) for one in tallies))


def least_delay(share: float = 0.95) -> DelayObjective:
    return replace(objective(), goal="delay", goodput_share=share, rival="bbr")


def test_of_points_with_enough_goodput_the_one_with_less_delay_is_better() -> None:
    quick, slow = (least_delay().score(with_rival(100, tally((96, ms)))) for ms in (20, 40))
    assert (quick.violation, slow.violation) == (0, 0)
    assert quick.rank < slow.rank
    assert quick.cost == pytest.approx(math.log(1 + 20))
    assert quick.metrics["rival_share"] == pytest.approx(0.96)


def test_goodput_below_the_share_is_missed_by_what_it_lacks_whatever_the_delay() -> None:
    few, many = (least_delay().score(with_rival(100, tally((n, ms)))) for n, ms in ((76, 1), (96, 900)))
    assert few.violation == pytest.approx(95 / 76 - 1)
    assert many.violation == 0
    assert many.rank < few.rank


def test_goodput_is_asked_of_all_epochs_together() -> None:
    assert least_delay().score(with_rival(100, tally((90, 1)), tally((101, 1)))).feasible


def test_goodput_that_differs_between_epochs_has_to_leave_a_margin_of_its_standard_error() -> None:
    # 192 of 200: 100 and 92 of 100. Residuals 4 each: s = sqrt(2 (16 + 16)) / 200 = 0.04; 0.96 - 0.95 is a quarter.
    differ = with_rival(100, tally((100, 1)), tally((92, 1)))
    assert replace(least_delay(), margin_se=0.24).score(differ).feasible
    assert not replace(least_delay(), margin_se=0.26).score(differ).feasible
    assert replace(least_delay(), margin_se=3).score(with_rival(100, tally((96, 1)), tally((96, 1)))).feasible


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 900), st.integers(0, 300)), min_size=2, max_size=6),
       st.data())  # fmt: skip
def test_a_bound_of_least_delay_is_never_worse_than_what_follows(
    made: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    tallies = [beside(tally((n, ms), capacity_packets=n + 40), rival) for n, ms, rival in made]
    ran = data.draw(st.integers(1, len(tallies) - 1))
    rest = Rest(len(tallies) - ran, sum(one.capacity_bytes for one in tallies[ran:]))
    bound, truth = least_delay().score(pool(*tallies[:ran]), rest=rest), least_delay().score(pool(*tallies))
    assert not bound.complete
    assert bound.violation <= truth.violation
    assert bound.cost <= truth.cost


epoch = st.tuples(st.integers(1, 300), st.integers(0, 60), st.integers(1, 900)).map(
    lambda e: tally((e[0], 20), (e[1], e[2]), capacity_packets=e[0] + e[1] + 40)
)


def test_epochs_that_differ_have_to_leave_a_margin_of_their_standard_error() -> None:
    # 960 of 1000 packets within: 500 and 460 of 500. Residuals 20 each: s = sqrt(2 (400 + 400)) / 1000 = 0.04.
    differ = pool(tally((500, 10)), tally((460, 10), (40, 70)))
    assert objective(margin_se=0.24).score(differ).feasible
    missed = objective(margin_se=0.26).score(differ)
    assert missed.violation == pytest.approx(70 / 50 - 1)
    assert missed.metrics["share_within"] == 0.96


def test_epochs_that_are_alike_and_an_epoch_alone_need_no_margin() -> None:
    alike = tally((95, 10), (5, 70))
    assert objective(margin_se=3).score(pool(alike, alike, alike)).feasible
    assert objective(margin_se=3).score(pool(alike)).feasible


def test_a_margin_beyond_all_packets_asks_for_the_last_of_them() -> None:
    differ = pool(tally((100, 10)), tally((90, 10), (5, 60), (5, 70)))
    assert objective(margin_se=10).score(differ).violation == pytest.approx(70 / 50 - 1)


@given(
    st.lists(epoch, min_size=2, max_size=6),
    st.data(),
    st.sampled_from([0.0, 1.0]),
)
def test_a_bound_is_never_worse_than_what_the_epochs_turn_out_to_give(
    epochs: list[Tally], data: st.DataObject, margin_se: float
) -> None:
    asked = objective(margin_se=margin_se)
    ran = data.draw(st.integers(1, len(epochs) - 1))
    rest = Rest(len(epochs) - ran, sum(e.capacity_bytes for e in epochs[ran:]))
    bound, truth = asked.score(pool(*epochs[:ran]), rest=rest), asked.score(pool(*epochs))
    assert not bound.complete
    assert bound.violation <= truth.violation
    assert bound.cost <= truth.cost + 1e-12
