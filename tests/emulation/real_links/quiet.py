# SPDX-License-Identifier: MIT
"""Real runs on a machine that others use, too: which of some was the least disturbed, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from emulation.fidelity.machine import Watch, is_disturbed
from emulation.mahimahi.runner import emulate_many
from emulation.processors import kept_awake
from emulation.qos import QoS
from emulation.scenario import Scenario

TRIES = 4
# Shells that woke up late delay packets and pass them on in bursts; by how much is not known.
DISTURBED_SLACK = 5.0


@dataclass(frozen=True)
class Runs:
    """slack: how many times further than on a quiet machine their times and rates may be from what theory says.

    Told by timers that ran beside them, and not by their own figures. late_share: of them, more than 1 ms late.
    """

    qos: tuple[QoS, ...]
    slack: float
    late_share: float


def least_disturbed(*asked: Scenario, series_every_s: float | None = None) -> Runs:
    """All of these at a time: the first of TRIES that nothing disturbed, else the least disturbed one."""
    best: Runs | None = None
    for _ in range(TRIES):
        with kept_awake(), Watch(timers=True) as watch:
            qos = emulate_many(asked, series_every_s=series_every_s)
            machine = watch.during_the_last(max(scenario.duration_s for scenario in asked))
        assert machine.late_share is not None
        slack = DISTURBED_SLACK if is_disturbed(machine) else 1
        if best is None or machine.late_share < best.late_share:
            best = Runs(tuple(qos), slack=slack, late_share=machine.late_share)
        if best.slack == 1:
            break
    assert best is not None
    return best
