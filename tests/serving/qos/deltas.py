# SPDX-License-Identifier: MIT
"""Deltas of sums, as agents report them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serving.agent.sums import COUNTS

Json = dict[str, Any]
# The sums of one epoch: 16 Mbit/s, 1 % retransmitted, 30 ms of delay, 90 % within the target.
EPOCH = dict(zip(COUNTS, (1, 1, 1_000_000, 2_000_000, 1000, 10, 100, 3_000_000, 90), strict=True))


def delta(
    sequence: int,
    rows: Sequence[tuple[bool, int | None, int | None, int]] = ((False, 0, 0, 1),),
    *,
    series: str = "a",
    registry: str = "lab",
    channel: str = "champion",
    serial: int = 1,
) -> Json:
    """A delta of one table. rows: group, class, state, and number of epochs."""
    return {
        "series": series,
        "sequence": sequence,
        "tables": [{"registry": registry, "channel": channel, "serial": serial}],
        "table": [0] * len(rows),
        "held_back": [held_back for held_back, _, _, _ in rows],
        "class": [delay_class for _, delay_class, _, _ in rows],
        "state": [state for _, _, state, _ in rows],
        **{name: [value * epochs for _, _, _, epochs in rows] for name, value in EPOCH.items()},
    }
