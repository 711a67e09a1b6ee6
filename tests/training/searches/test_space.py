# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmod.abi import ALGORITHMS
from training.errors import TrainingError
from training.searches.space import Dimension, Space, space_of


def test_the_ends_of_a_range_are_its_positions_0_and_1_and_their_geometric_mean_lies_half_way() -> None:
    assert Dimension("w", 10_000, 1_000_000).value(0.5) == 100_000
    dimension = Dimension("w", 7, 911)
    assert [dimension.value(0), dimension.value(1)] == [7, 911]
    assert [dimension.position(7), dimension.position(911)] == [0.0, 1.0]


@given(st.floats(-1, 2), st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_value_never_leaves_its_range(position: float, low: int, width: int) -> None:
    dimension = Dimension("w", low, low + width)
    assert low <= dimension.value(position) <= low + width


@given(st.integers(10_000, 1_000_000))
def test_a_value_comes_back_from_its_position(value: int) -> None:
    dimension = Dimension("w", 10_000, 1_000_000)
    assert dimension.value(dimension.position(value)) == value


def test_a_range_from_zero_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"range of w: expected 0 <= low < high, got 9 to 9"):
        Dimension("w", 9, 9)


def test_the_space_of_gr_holds_its_three_tuned_parameters_in_order() -> None:
    space = space_of(ALGORITHMS["gr"], {})
    assert space.names == ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")


@pytest.mark.parametrize(
    ("cca", "ranges", "message"),
    [
        ("gr", {"delay_threshold_us": (1, 10)}, "range of delay_threshold_us: expected within"),
        ("gr", {"cwnd_gain_pct": (100, 200)}, "got 'cwnd_gain_pct'"),
        ("reno", {}, "reno: expected an algorithm with tuned parameters"),
    ],
)
def test_what_cannot_be_searched_is_refused(cca: str, ranges: dict[str, tuple[int, int]], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        space_of(ALGORITHMS[cca], ranges)


def test_held_parameters_are_part_of_a_point_and_no_dimension() -> None:
    space = Space((Dimension("a", 1, 100), Dimension("b", 10, 1000), Dimension("c", 1, 10_000)))
    held = space.holding({"b": 70})
    assert held.names == ("a", "c")
    assert held.point([0, 1]) == (1, 70, 10_000)
    assert held.positions((10, 70, 100)) == pytest.approx([0.5, 0.5])
    assert held.nearest((500, 20, 5)) == (100, 70, 5)
