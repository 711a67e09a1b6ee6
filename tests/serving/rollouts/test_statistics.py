# SPDX-License-Identifier: MIT
"""Comparisons between servers: closed-form values, what many looks spend, and what one server can do."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from serving.rollouts.assignment import arm_of_block, n_candidates, order_of
from serving.rollouts.statistics import (
    METRICS,
    Arm,
    Sums,
    Unit,
    alpha_of_look,
    binomial_p,
    harm_between,
    harm_within,
    student_t,
)


def within(share: float) -> Sums:
    return Sums(1000, 1000 * share, 1e9, 100, 1000, 5)


def server(at: int, arm: Arm, share: float, before: float | None = None) -> Unit:
    return Unit(f"s{at}", arm, within(share), None if before is None else within(before))


def harm(units: list[Unit], *, margin: float = 0.1):  # type: ignore[no-untyped-def]
    return harm_between(units, METRICS["within_target"], margin=margin, alpha=0.01, least_samples=200, least_servers=5)


def test_bounds_are_those_of_the_formula() -> None:
    candidate = [0.80, 0.82, 0.84, 0.86, 0.88]
    baseline = [0.90 + 0.005 * at for at in range(9)]
    found = harm([server(at, "candidate", share) for at, share in enumerate(candidate)]
                 + [server(9 + at, "baseline", share) for at, share in enumerate(baseline)])  # fmt: skip
    error = math.sqrt(0.001 / 5 + 0.0001875 / 9)
    assert found.estimate == pytest.approx(0.08)
    assert found.upper - found.estimate == pytest.approx(stats.t.ppf(0.99, 8) * error, rel=1e-3)
    assert found.estimate - found.lower == pytest.approx(found.upper - found.estimate)
    assert (found.n_candidate, found.n_baseline) == (5, 9)


def test_levels_of_servers_cancel_and_a_server_without_a_past_is_compared_with_the_others() -> None:
    levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.5, 0.6, 0.7, 0.8, 0.9, 0.5, 0.6, 0.7]
    units = [server(at, "candidate" if at < 5 else "baseline", level - (0.02 if at < 5 else 0), level)
             for at, level in enumerate(levels)]  # fmt: skip
    found = harm(units)
    assert found.estimate == pytest.approx(0.02)
    assert found.upper == pytest.approx(0.02)
    units[12] = server(12, "baseline", 0.7)
    assert harm(units).estimate == pytest.approx(0.02 + (0.7 - sum(levels[:12]) / 12) / 8)


def test_a_goodput_that_is_a_tenth_lower_is_a_harm_of_a_tenth() -> None:
    units = [Unit(f"s{at}", "candidate" if at < 5 else "baseline", Sums(1000, 900, 9e8 if at < 5 else 1e9, 100, 9, 0))
             for at in range(13)]  # fmt: skip
    found = harm_between(units, METRICS["goodput"], margin=0.05, alpha=0.01, least_samples=1, least_servers=5)
    assert found is not None
    assert found.estimate == pytest.approx(0.1)


def test_too_few_servers_with_samples_give_nothing() -> None:
    units = [server(at, "candidate" if at < 5 else "baseline", 0.9) for at in range(13)]
    assert harm(units) is not None
    assert harm(units[:-1]) is None
    assert harm([*units[1:], Unit("s0", "candidate", Sums(199, 199, 1, 1, 1, 0))]) is None


def test_one_server_counts_for_twenty_margins_at_most() -> None:
    units = [server(at, "candidate" if at < 5 else "baseline", 0.9) for at in range(13)]
    units[0] = server(0, "candidate", 0.0)
    assert harm(units, margin=0.01).estimate == pytest.approx(0.2 / 5)


def test_blocks_are_compared_within_their_pairs() -> None:
    blocks = [
        Unit(f"b{pair}", arm, within(0.5 + 0.05 * pair - (0.01 + 0.001 * pair if arm == "candidate" else 0)), pair=pair)
        for pair in range(8)
        for arm in ("candidate", "baseline")
    ]
    arguments = {"margin": 0.1, "alpha": 0.01, "least_samples": 200}
    found = harm_within(blocks, METRICS["within_target"], **arguments)  # type: ignore[arg-type]
    assert found is not None
    assert found.estimate == pytest.approx(0.0135)
    reach = stats.t.ppf(0.99, 7) * 0.001 * math.sqrt(6) / math.sqrt(8)
    assert found.upper == pytest.approx(0.0135 + reach, rel=1e-3)
    assert harm_within(blocks[:-1], METRICS["within_target"], **arguments) is None  # type: ignore[arg-type]


def test_any_number_of_looks_spends_at_most_alpha() -> None:
    spent = math.fsum(alpha_of_look(look, planned=32, alpha=0.05) for look in range(1, 200_000))
    assert 0.0499 < spent < 0.05
    assert alpha_of_look(32, planned=32, alpha=0.05) == 0.05 / 64
    assert alpha_of_look(34, planned=32, alpha=0.05) == alpha_of_look(33, planned=32, alpha=0.05) / 4


@pytest.mark.parametrize("degrees", [7, 15, 200])
def test_quantiles_of_t_agree_with_scipy(degrees: int) -> None:
    for share, error in ((0.99, 1e-4), (0.9997, 2e-3), (0.999999, 2e-2)):
        assert student_t(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=error)


def test_the_binomial_test_agrees_with_tails_of_scipy() -> None:
    for hits, of, share in ((8, 200, 0.01), (0, 200, 0.05), (10, 200, 0.05), (4300, 10_000, 0.45)):
        tail = min(stats.binom.cdf(hits, of, share), stats.binom.sf(hits - 1, of, share))
        assert binomial_p(hits, of, share) == pytest.approx(min(1, 2 * tail), rel=1e-6)


def test_shares_hold_within_strata_and_a_later_step_keeps_the_servers_of_an_earlier_one() -> None:
    strata = {f"a{at}": "west" for at in range(150)} | {f"b{at}": "east" for at in range(50)}
    order = order_of("7", strata)
    assert sorted(order) == sorted(strata)
    assert order == order_of("7", dict(reversed(strata.items())))
    assert order != order_of("8", strata)
    for share in (0.05, 0.2, 0.5):
        chosen = order[: n_candidates(share, n_servers=200, least_servers=5)]
        assert len(chosen) == 200 * share
        assert abs(sum(strata[name] == "east" for name in chosen) - 50 * share) <= 1
    assert [n_candidates(share, n_servers=100, least_servers=5) for share in (0.01, 0.07, 0.071)] == [5, 7, 8]


def test_each_pair_of_blocks_has_both_tables_in_drawn_order() -> None:
    arms = [arm_of_block("7", block) for block in range(200)]
    assert all({arms[at], arms[at + 1]} == {"candidate", "baseline"} for at in range(0, 200, 2))
    assert 30 < sum(arm == "candidate" for arm in arms[::2]) < 70
