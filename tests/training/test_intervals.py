# SPDX-License-Identifier: MIT
from __future__ import annotations

import numpy as np
import pytest

from training.intervals import DRAWS, drawn_rows, drawn_weights, interval_95


def test_each_draw_takes_as_many_items_as_there_are_and_depends_on_the_seed_alone() -> None:
    weights = drawn_weights(7, seed=1)
    assert weights.shape == (DRAWS, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert np.array_equal(weights, drawn_weights(7, seed=1))
    assert not np.array_equal(weights, drawn_weights(7, seed=2))
    rows = drawn_rows(7, seed=1)
    assert rows.shape == (DRAWS, 7)
    assert set(np.unique(rows)) == set(range(7))


def test_the_interval_of_a_mean_is_about_two_standard_errors_on_each_side() -> None:
    values = np.random.default_rng(3).normal(10, 2, 400)
    for drawn in (drawn_weights(400, seed=2) @ values / 400, values[drawn_rows(400, seed=2)].mean(axis=1)):
        low, high = interval_95(drawn)
        assert (high - low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.15)
        assert low < values.mean() < high
