# SPDX-License-Identifier: MIT
"""Figures with their intervals, on values whose outcome is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.figures import Figure, above, below, share, within
from training.intervals import interval_of, student_t95


def test_students_t_is_that_of_the_tables() -> None:
    assert student_t95(5) == pytest.approx(2.776, rel=3e-3)
    assert student_t95(10) == pytest.approx(2.262, abs=2e-3)
    assert student_t95(20) == pytest.approx(2.093, abs=1e-3)
    assert student_t95(10_000) == pytest.approx(1.960, abs=1e-3)


def test_the_interval_is_t_s_over_the_root_of_n() -> None:
    values = np.arange(20.0)
    assert interval_of(values) == pytest.approx(2.093 * math.sqrt(35) / math.sqrt(20), rel=1e-3)
    assert interval_of(np.full(5, 3.0)) == 0


def test_a_bound_is_missed_only_beyond_the_interval() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0, 1.0])
    interval = interval_of(values)
    assert within("", values, most=1 - 0.99 * interval).agrees
    assert not within("", values, most=1 - 1.01 * interval).agrees
    assert not within("", values, least=1 + 1.01 * interval).agrees


def test_between_two_bounds_the_interval_is_to_fit() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0, 1.0])
    interval = interval_of(values)
    assert within("", values, least=1 - 1.01 * interval, most=1 + 1.01 * interval).agrees
    assert not within("", values, least=1 - 0.99 * interval, most=1 + 0.99 * interval).agrees


def test_a_comparison_goes_seed_by_seed() -> None:
    # Apart by 0.1 with every seed, though the seeds are apart by more.
    base = np.arange(5.0)
    assert below("", base, base + 0.1).agrees
    assert below("", base, base).agrees
    assert not below("", base + 0.1, base).agrees
    assert above("", base + 0.1, base).agrees
    assert above("", base, base).agrees
    assert not above("", base, base + 0.1).agrees


def test_a_figure_without_an_interval_shows_none() -> None:
    longest = Figure("longest", 4298.2, math.nan, agrees=True, unit="ms")
    assert longest.text() == "longest 4298.20 ms"
    assert longest.summary()["interval"] is None


def test_a_share_has_wilsons_interval() -> None:
    """0 of 100: up to 1.96^2 / (100 + 1.96^2) = 3.70 %; 50 of 100: 40.38 to 59.62 %."""
    none = share("none", 0, 100, most=0.0)
    assert none.interval == pytest.approx(0.0370, abs=5e-5)
    assert none.agrees
    half = share("half", 50, 100, most=0.405)
    assert half.interval == pytest.approx(0.0962, abs=5e-5)
    assert half.agrees
    assert not share("half", 50, 100, most=0.40).agrees
    assert not share("half", 50, 100, least=0.60).agrees
    assert share("all", 100, 100, least=1.0).agrees
