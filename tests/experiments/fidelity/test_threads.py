# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
import time

import pytest

from experiments.fidelity._threads import side_by_side

WAIT_S = 20


def test_each_item_is_worked_on_once_and_as_many_at_a_time_as_told() -> None:
    meet = threading.Barrier(3)

    def work(item: int) -> int:
        meet.wait(WAIT_S)  # broken unless three are there
        return item * item

    assert sorted(side_by_side(work, range(6), most=3)) == [0, 1, 4, 9, 16, 25]
    assert list(side_by_side(work, [], most=3)) == []


def test_one_at_a_time_is_in_order() -> None:
    assert list(side_by_side(str, range(5), most=1)) == list("01234")


def test_an_error_is_raised_where_results_are_read_and_nothing_begins_behind_it() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError("the second")
        return item

    with pytest.raises(ValueError, match="the second"):
        list(side_by_side(work, range(9), most=1))
    assert begun == [0, 1]


def test_who_stops_reading_stops_what_has_not_begun() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            go_on.wait(WAIT_S)
        return item

    results = side_by_side(work, range(10), most=1)
    assert next(results) == 0
    end_s = time.monotonic() + WAIT_S
    while len(begun) < 2 and time.monotonic() < end_s:
        time.sleep(0.001)
    results.close()  # type: ignore[attr-defined]  # of a generator
    before = threading.active_count()
    go_on.set()
    while threading.active_count() >= before and time.monotonic() < end_s:
        time.sleep(0.001)
    assert begun == [0, 1]
