# SPDX-License-Identifier: MIT
"""Counters of the flows' sums, by algorithm, channel, serial, group and class.

The table `qos` has sums by hour, and its old hours are deleted. Their total would shrink, and Prometheus takes that for
a counter that began anew. These counters therefore add up by how much each hour has grown since it was read last:

    an hour's sums only grow, so what they grew by is never negative
    reports arrive for the current hour, and for the one before while a batch of them waits

They begin with the two hours before the first reading. Each process counts by itself from its own start, so the values
differ between processes, and `rate()` does not.

Series: the MOST_SERIALS newest serials of each channel, two groups, at most 8 classes and none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import add, sub
from typing import Final

from prometheus_client import Metric

from serving.agent.sums import COUNTS
from serving.database import NONE
from serving.metrics.families import counter
from serving.metrics.repository import QosSums

MOST_SERIALS: Final = 4

_LABELS = ("cca", "channel", "serial", "group", "class")
_US = 1e-6
# Name of the counter: the sum that it has, the factor to its unit, and what it is.
_COUNTERS: Final = {
    "qos_epochs": ("epochs", 1.0, "Epochs of flows that ended."),
    "qos_flow_seconds": ("time_us", _US, "Time that flows spent sending."),
    "qos_delivered_bytes": ("bytes", 1.0, "Bytes that flows delivered."),
    "qos_sent_segments": ("segments", 1.0, "Segments that flows sent, with the retransmitted ones."),
    "qos_retransmitted_segments": ("retransmitted", 1.0, "Segments that flows retransmitted."),
    "qos_delay_samples": ("delay_samples", 1.0, "Samples of the queueing delay."),
    "qos_delay_samples_within_target": (
        "within_target",
        1.0,
        "Samples of the queueing delay within the class's target.",
    ),
    "qos_queueing_delay_seconds": ("delay_us", _US, "Sum of the samples of the queueing delay."),
}

_Key = tuple[int, int, bool, int]


class QosCounters:
    """The counters of one process. One thread at a time may use it."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, _Key], tuple[int, ...]] = {}
        self._totals: dict[_Key, tuple[int, ...]] = {}
        self._hour: int | None = None

    def since_hour(self, now_hour: int) -> int:
        """Return the first hour to read. It is the one before the last that was read."""
        return (now_hour if self._hour is None else min(self._hour, now_hour)) - 1

    def add(self, rows: Iterable[QosSums], *, now_hour: int) -> None:
        """Add by how much the hours have grown. rows: of the hours from `since_hour` on."""
        nothing = (0,) * len(COUNTS)
        for row in rows:
            key = (row.channel_id, row.serial, row.held_back, row.delay_class)
            before = self._last.get((row.hour, key), nothing)
            grown = tuple(max(0, one) for one in map(sub, row.sums, before))
            self._totals[key] = tuple(map(add, self._totals.get(key, nothing), grown))
            self._last[row.hour, key] = row.sums
        self._hour = max(now_hour, self._hour or 0)
        self._last = {kept: sums for kept, sums in self._last.items() if kept[0] >= self._hour - 1}
        self._drop_old_serials()

    def _drop_old_serials(self) -> None:
        serials: dict[int, set[int]] = defaultdict(set)
        for channel_id, serial, _, _ in self._totals:
            serials[channel_id].add(serial)
        kept = {channel_id: set(sorted(known)[-MOST_SERIALS:]) for channel_id, known in serials.items()}
        self._totals = {key: sums for key, sums in self._totals.items() if key[1] in kept[key[0]]}

    def families(self, names: Mapping[int, tuple[str, str]]) -> list[Metric]:
        """Return the counters. names: algorithm and name of each channel, by its id."""
        rows = {
            (*names[channel_id], str(serial), "held_back" if held_back else "ensemble", class_label(delay_class)): sums
            for (channel_id, serial, held_back, delay_class), sums in self._totals.items()
            if channel_id in names
        }
        return [
            counter(
                name,
                said,
                {labels: sums[COUNTS.index(count)] * factor for labels, sums in rows.items()},
                *_LABELS,
            )
            for name, (count, factor, said) in _COUNTERS.items()
        ]


def class_label(delay_class: int) -> str:
    """Return the label of a class."""
    return "none" if delay_class == NONE else str(delay_class)
