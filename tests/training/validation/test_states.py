# SPDX-License-Identifier: MIT
"""When a row holds beside another set: made tallies, so that each rule is seen alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from training.objectives import DelayObjective, MostGoodput, Tally
from training.validation.states import compare, compare_costs

EDGES_US = np.arange(1, 101) * 1000.0  # 1 to 100 ms
RIVAL = 1_000_000


def epochs(delays_ms: Sequence[int], *, goodput: float = 1.0) -> list[Tally]:
    """Each epoch's 100 packets wait so long; goodput over the rival's."""
    found = []
    for delay_ms in delays_ms:
        counts = np.zeros(len(EDGES_US), dtype=np.uint32)
        counts[delay_ms - 1] = 100
        delivered = round(goodput * RIVAL)
        rival = Tally(5.0, 2_000_000, RIVAL, 100, counts, goodput_bytes=RIVAL)
        found.append(Tally(5.0, 2_000_000, delivered, 100, counts, goodput_bytes=delivered, references={"bbr": rival}))
    return found


def asks(goal: Literal["throughput", "delay"], *, share: float = 1.0, target_ms: float = 50) -> DelayObjective:
    rival = "bbr" if goal == "delay" else None
    return DelayObjective(95, target_ms * 1000, goal=goal, goodput_share=share, rival=rival, edges_us=EDGES_US)


@pytest.mark.parametrize(
    ("goodput", "better", "holds"), [(1.0, True, True), (1.01, True, True), (0.9995, False, False)]
)
def test_better_is_less_delay_at_no_less_goodput_however_little_is_missing(
    goodput: float, better: bool, holds: bool
) -> None:
    found = compare(epochs([20] * 6, goodput=goodput), epochs([30] * 6), asks("delay"))
    assert (found["delay_ms"], found["delay_interval_ms"]) == (-10, [-10, -10])
    assert found["goodput"] == pytest.approx(goodput)
    assert (found["better"], found["holds"]) == (better, holds)


def test_the_same_rows_hold_and_are_not_better() -> None:
    found = compare(epochs([20, 40, 60]), epochs([20, 40, 60]), asks("delay"))
    assert (found["delay_ms"], found["goodput"]) == (0, 1)
    assert (found["better"], found["holds"]) == (False, True)


SHARE = asks("delay", share=0.95)
TARGET = asks("throughput")


@pytest.mark.parametrize(
    ("mine", "theirs", "asked", "holds"),
    [
        ((20, 0.96), (30, 1.0), SHARE, True),  # goodput may be less as long as it has the share
        ((20, 0.94), (30, 1.0), SHARE, False),
        ((30, 0.96), (20, 0.9), SHARE, True),  # delay may be higher where the other one misses the share
        ((30, 0.96), (20, 0.95), SHARE, False),
        ((50, 1.0), (20, 1.0), TARGET, True),  # delay may be higher within the target
        ((51, 1.0), (20, 1.0), TARGET, False),
        ((40, 0.8), (60, 1.0), TARGET, True),  # goodput may be less where the other one misses the target
        ((40, 0.8), (50, 1.0), TARGET, False),
    ],
)
def test_a_row_may_use_the_room_that_its_requirement_leaves(
    mine: tuple[int, float], theirs: tuple[int, float], asked: DelayObjective, holds: bool
) -> None:
    """Each set: delay in ms, and goodput over the rival's."""
    found = compare(*(epochs([delay_ms] * 6, goodput=goodput) for delay_ms, goodput in (mine, theirs)), asked)
    assert (found["better"], found["holds"]) == (False, holds)


def test_what_chance_could_explain_is_neither_worse_nor_better() -> None:
    # One epoch of six differs, and a third of the draws have none of it.
    one, other = epochs([20] * 5 + [90]), epochs([20] * 6)
    for mine, theirs in ((one, other), (other, one)):
        found = compare(mine, theirs, asks("delay"))
        assert abs(found["delay_ms"]) == 70
        assert sorted(map(abs, found["delay_interval_ms"])) == [0, 70]
        assert not found["better"]


@pytest.mark.parametrize(
    ("mine", "other", "better", "holds"),
    [
        ((0.9, 10), (0.8, 10), True, True),
        ((0.8, 10), (0.9, 10), False, False),
        ((0.8, 10), (0.9, 30), False, True),  # the other misses the requirement
        ((0.9, 30), (0.8, 10), False, False),  # the row misses it
    ],
)
def test_rows_of_other_objectives_are_compared_by_their_costs(
    mine: tuple[float, int], other: tuple[float, int], better: bool, holds: bool
) -> None:
    """Each is goodput over the reference's, and packets of 1000 that are retransmitted, of which 20 are allowed."""
    both = [[replace(one, sent_pkts=1000, retransmitted_pkts=pkts) for one in epochs([20] * 5, goodput=goodput)]
            for goodput, pkts in (mine, other)]  # fmt: skip
    found = compare_costs(both[0], both[1], MostGoodput("bbr", 0.02))
    assert found["cost"] == pytest.approx(other[0] - mine[0])
    assert (found["better"], found["holds"]) == (better, holds)
