# SPDX-License-Identifier: MIT
"""Counters of the flows' sums: they only grow, whatever hours are deleted"""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.agent.sums import COUNTS
from serving.metrics.qos import MOST_SERIALS, QosCounters
from serving.metrics.repository import QosSums

NAMES = {1: ("gr", "champion")}
NAME = "ccatune_qos_delay_samples"


def sums_of(samples: int) -> tuple[int, ...]:
    return tuple(samples if name == "delay_samples" else 0 for name in COUNTS)


def totals(counters: QosCounters) -> dict[tuple[str, ...], float]:
    """The counter of samples, by serial, group and class."""
    family = next(one for one in counters.families(NAMES) if one.name == NAME)
    return {tuple(sample.labels.values())[2:]: sample.value for sample in family.samples}


# Reports that arrive for the hour before, for the current one, or not at all; the clock moves on, and a scrape reads.
steps = st.lists(st.tuples(st.sampled_from(["now", "late", "tick", "scrape"]), st.integers(1, 1000)), max_size=60)


@settings(max_examples=50)
@given(steps)
def test_counters_grow_by_what_arrives_while_old_hours_are_deleted(made):
    counters, hour, table, arrived = QosCounters(), 100, defaultdict(int), 0
    counters.add([], now_hour=hour)
    shown = 0.0
    for kind, number in [*made, ("scrape", 0)]:
        if kind in {"now", "late"}:
            table[hour - (kind == "late")] += number
            arrived += number
        elif kind == "tick":
            hour += 1
        else:
            since = counters.since_hour(hour)
            rows = [QosSums(one, 1, 7, False, 0, sums_of(sums)) for one, sums in table.items() if one >= since]
            counters.add(rows, now_hour=hour)
            found = sum(totals(counters).values())
            assert found >= shown
            shown = found
            table = defaultdict(int, {one: sums for one, sums in table.items() if one >= hour - 1})
    assert shown == arrived


def test_only_the_newest_serials_of_a_channel_are_shown():
    counters = QosCounters()
    counters.add([QosSums(9, 1, serial, False, -1, sums_of(5)) for serial in range(1, 11)], now_hour=9)
    assert totals(counters) == {(str(serial), "ensemble", "none"): 5 for serial in range(11 - MOST_SERIALS, 11)}
