# SPDX-License-Identifier: MIT
"""What a search evaluates its points on: one link, or part of one, that flows run over.

A case is plain data that can be sent to another process. It holds its piece of a recording, not the recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emulation.scenario import Scenario

__all__ = ["Case"]


@dataclass(frozen=True, eq=False)
class Case:
    """A scenario whose flows are given an algorithm when it is run (emulation.measures.Trial).

    key: names the content; equal keys, equal runs. state: the levels that it belongs to on each axis. group: of which
    kind it is, for objectives that tell kinds apart. capacity_bytes: the most that its link carries, which is what a
    run of it costs. limit_mbps: the rate of its policer, not a number without one.
    """

    key: str
    scenario: Scenario
    state: tuple[int, ...]
    group: str
    capacity_bytes: int
    limit_mbps: float = math.nan

    @property
    def measured_s(self) -> float:
        """The time that counts: without the warm-up."""
        return self.scenario.duration_s - self.scenario.warmup_s
