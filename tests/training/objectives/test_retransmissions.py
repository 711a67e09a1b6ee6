# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import tally

from training.objectives import LeastRetransmissions, MostGoodput, Pool, Rest, Tally
from training.workloads.policed import Kind


def pool(*tallies: Tally) -> Pool:
    return Pool.of(tallies)


def asked(*, margin_se: float = 0.0, default_share: float = 1.0) -> LeastRetransmissions:
    return LeastRetransmissions("bbr", "rtcp_bbr", goodput_share=0.95, most_false=0.01, default_share=default_share,
                                margin_se=margin_se)  # fmt: skip


def test_the_cost_is_the_mean_of_what_is_sent_again_over_the_unmodified_algorithms() -> None:
    score = asked().score(pool(tally(retransmitted=20), tally(retransmitted=60), tally("lifted", retransmitted=1000)))
    assert score.cost == pytest.approx(0.4)
    assert score.rank == (0.0, score.cost)


def test_what_the_unmodified_algorithm_hardly_sends_again_does_not_weigh() -> None:
    few = tally(retransmitted=3, least=0)
    assert asked().score(pool(few)).cost == pytest.approx(0.3)


@pytest.mark.parametrize("kind", ["limited", "lifted", "unlimited"])
def test_each_kind_of_traffic_is_to_keep_its_goodput(kind: Kind) -> None:
    score = asked().score(pool(tally(), tally(kind, goodput=0.76), tally(kind, goodput=0.76)))
    assert score.violation == pytest.approx((0.95 / (0.84 if kind == "limited" else 0.76)) - 1)
    assert not score.feasible


def test_behind_a_raised_limit_the_defaults_are_the_measure_where_they_are_slower() -> None:
    slow = [tally(), tally("lifted", goodput=0.77, default=0.8)]
    assert asked().score(pool(*slow)).feasible
    assert not asked().score(pool(tally(), tally("lifted", goodput=0.75, default=0.8))).feasible
    assert not asked().score(pool(tally(), tally("lifted", goodput=0.9, default=1.3))).feasible


def test_files_are_to_keep_the_goodput_of_the_papers_setting() -> None:
    assert not asked().score(pool(tally(goodput=0.97, default=0.98), tally(default=1.0))).feasible
    assert asked().score(pool(tally(goodput=0.97, default=0.98), tally(default=0.99))).feasible
    cases = pool(tally(goodput=0.96, default=0.99), tally(goodput=0.99, default=0.98))
    error = np.std([0.03, -0.01], ddof=1) / np.sqrt(2)
    assert asked().score(cases).violation == pytest.approx(0.985 / 0.975 - 1)
    assert asked(margin_se=1.0).score(cases).violation == pytest.approx((0.985 + error) / 0.975 - 1)
    assert asked(margin_se=-1.0).score(cases).feasible
    assert asked(default_share=0.98).score(cases).feasible
    # Its probing is not the defaults'.
    assert not asked().score(pool(tally(goodput=0.97, default=0.97, paper=1.0))).feasible


def test_a_margin_asks_for_more_where_cases_differ() -> None:
    cases = pool(tally(goodput=0.9), tally(goodput=1.02), tally(goodput=0.96))
    assert asked().score(cases).feasible
    error = np.std([0.9, 1.02, 0.96], ddof=1) / np.sqrt(3)
    assert asked(margin_se=2.0).score(cases).violation == pytest.approx((0.95 + 2 * error) / 0.96 - 1)


def test_falsely_limited_clients_are_bounded_over_all_without_a_limit() -> None:
    cases = [tally(), *(tally("unlimited", is_limited=number == 0) for number in range(20))]
    assert asked().score(pool(*cases)).violation == pytest.approx(0.05 / 0.01 - 1)
    assert asked().score(pool(*cases, *[tally("unlimited")] * 80)).feasible
    # A client with a limit is rightly taken for limited.
    assert asked().score(pool(tally(is_limited=True))).feasible


def test_as_many_clients_may_falsely_be_limited_as_with_the_defaults() -> None:
    cases = [tally(), *(tally("unlimited", default_is_limited=number < 2) for number in range(20))]
    wrong = [tally("unlimited", is_limited=True)] * 2
    assert asked().score(pool(*cases, *wrong)).feasible
    assert asked().score(pool(*cases, *wrong, *wrong)).violation == pytest.approx(1.0)


@given(st.permutations(range(9)), st.integers(1, 8), st.floats(-1, 1))
def test_a_bound_is_never_worse_than_the_score_of_all_cases(order: list[int], ran: int, margin_se: float) -> None:
    kinds: list[Kind] = ["limited", "lifted", "unlimited"]
    cases = [tally(kinds[n % 3], goodput=0.7 + n / 30, retransmitted=10 * n, is_limited=n == 8) for n in order]
    rest = Rest(9 - ran, 0, Counter(case.group for case in cases[ran:]))
    bound = asked(margin_se=margin_se).score(pool(*cases[:ran]), rest=rest)
    truth = asked(margin_se=margin_se).score(pool(*cases))
    assert not bound.complete
    assert bound.violation <= truth.violation + 1e-12
    assert bound.cost <= truth.cost + 1e-12


def test_files_alone_show_that_a_point_costs_too_much() -> None:
    bound = asked().score(pool(tally(retransmitted=90)), rest=Rest(2, 0, {"unlimited": 2}))
    assert bound.rank == (0.0, pytest.approx(0.9))


def test_a_score_before_any_kind_is_complete_holds_finite_numbers_alone() -> None:
    some = asked().score(pool(tally()), rest=Rest(3, 0, {"limited": 1, "lifted": 1, "unlimited": 1}))
    assert not some.complete
    assert set(some.metrics) == {"retransmitted_share"}
    assert json.loads(json.dumps(asdict(some), allow_nan=False)) == asdict(some)


def test_most_goodput_is_bounded_by_the_share_of_packets_that_are_retransmitted() -> None:
    """The reference is bbr; each tally sent 1000 packets."""
    objective = MostGoodput("bbr", most_retransmitted=0.02)
    some, few = (pool(*(replace(tally(goodput=g, retransmitted=n), sent_pkts=1000) for g in (0.8, 1.0)))
                 for g, n in ((0.9, 30), (0.9, 20)))  # fmt: skip
    assert objective.score(some).violation == pytest.approx(0.5)
    score = objective.score(few)
    assert score.feasible
    assert score.cost == pytest.approx(-0.9)
    assert score.metrics["retransmitted_share"] == pytest.approx(0.02)
    bound = objective.score(some, rest=Rest(1, 1000))
    assert bound.rank < score.rank
