# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from training.objectives import DelayObjective, Tally
from training.verification.choice import Choice, choose, quantile_of, ratio_95

CONFIDENCE = 0.95
EDGES_US = np.array([10_000.0, 100_000.0, 200_000.0])
TARGET = DelayObjective(percentile=95, aim_us=100_000, edges_us=EDGES_US)
LENIENT = DelayObjective(percentile=95, aim_us=100_000, margin_se=-quantile_of(CONFIDENCE, 4), edges_us=EDGES_US)


def runs(used: Sequence[float], slow: Sequence[int]) -> list[Tally]:
    """Runs of 1000 packets. used: share of the capacity. slow: packets beyond the target."""
    return [
        Tally(10.0, 1_000_000, round(share * 1e6), 1000, np.array([0, 1000 - late, late], dtype=np.uint32))
        for share, late in zip(used, slow, strict=True)
    ]


def chosen(*points: list[Tally]) -> Choice:
    return choose(points, objective=TARGET, lenient=LENIENT, confidence=CONFIDENCE)


QUICK = [20, 22, 18, 20]
SLOW = [200, 210, 190, 205]


def test_the_simulators_choice_stays_where_another_is_better_only_by_chance() -> None:
    first = runs([0.90, 0.80, 0.95, 0.85], QUICK)
    assert chosen(first, runs([0.99, 0.79, 0.99, 0.84], QUICK)) == Choice(0, "confirmed", (True, True))


def test_a_point_with_more_throughput_in_every_run_replaces_it() -> None:
    first = runs([0.90, 0.80, 0.95, 0.85], QUICK)
    better = runs([0.93, 0.83, 0.98, 0.88], QUICK)
    assert chosen(first, better) == Choice(1, "replaced", (True, True))
    assert chosen(better, first).number == 0


def test_more_throughput_does_not_replace_it_without_meeting_the_target() -> None:
    first = runs([0.90, 0.80, 0.95, 0.85], QUICK)
    assert chosen(first, runs([0.93, 0.83, 0.98, 0.88], SLOW)) == Choice(0, "confirmed", (True, False))


def test_the_point_that_meets_the_target_replaces_one_that_misses_it_beyond_chance() -> None:
    found = chosen(runs([0.9] * 4, SLOW), runs([0.5] * 4, QUICK), runs([0.7] * 4, QUICK))
    assert found == Choice(2, "replaced", (False, True, True))


def test_a_target_that_is_missed_by_chance_counts_as_met() -> None:
    assert chosen(runs([0.9] * 4, [10, 130, 20, 80])).outcome == "confirmed"
    assert chosen(runs([0.9] * 4, [59, 61, 60, 60])).outcome == "missed"


def test_where_none_meets_the_target_less_delay_decides_and_chance_does_not() -> None:
    edges_us = np.array([10_000.0, 100_000.0, 200_000.0, 400_000.0])
    target, lenient = (DelayObjective(percentile=95, aim_us=100_000, margin_se=z, edges_us=edges_us)
                       for z in (0, LENIENT.margin_se))  # fmt: skip

    def of(far: Sequence[int]) -> list[Tally]:
        return [Tally(10.0, 1_000_000, 900_000, 1000, np.array([0, 800, 200 - n, n], dtype=np.uint32)) for n in far]

    def number(*points: list[Tally]) -> int:
        found = choose(points, objective=target, lenient=lenient, confidence=CONFIDENCE)
        assert found.outcome == "missed"
        return found.number

    assert number(of([100] * 4), of([10] * 4)) == 1
    assert number(of([100] * 4), of([100] * 4)) == 0
    assert number(of([55] * 4), of([120, 0, 60, 0])) == 0  # less in the mean, and not without the first case


def test_the_ratio_is_a_geometric_mean_with_students_interval() -> None:
    middle, low, high = ratio_95([2.0, 8.0], [1.0, 1.0], least=0.1)
    half = 12.7062 * math.log(2)  # t of one degree of freedom; the logarithms are 1 and 3 times log 2
    assert middle == pytest.approx(4)
    assert math.log(high / middle) == pytest.approx(half, rel=1e-4)
    assert low * high == pytest.approx(16)
    assert ratio_95([0.0, 0.0], [1.0, 1.0], least=0.5)[0] == pytest.approx(0.5)
