# SPDX-License-Identifier: MIT
"""Real runs on a machine that others use, too: which of some was the least disturbed, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from emulation.errors import EmulationError
from emulation.mahimahi.machine import Machine, Watch, is_disturbed
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import emulate_each
from emulation.run.qos import QoS
from emulation.scenario.model import Scenario

TRIES = 2
# Shells that woke up late delay packets and pass them on in bursts; by how much is not known.
DISTURBED_SLACK = 5.0


@dataclass(frozen=True)
class Runs:
    """slack: how many times further than on a quiet machine their times and rates may be from what theory says.

    Told by timers that ran beside them, and not by their own figures. late_share: of them, more than 1 ms late during
    the run that was disturbed most.
    """

    qos: tuple[QoS, ...]
    slack: float
    late_share: float


def least_disturbed(*asked: Scenario, series_every_s: float | None = None) -> Runs:
    """All of these, as many at a time as go: the first of TRIES that nothing disturbed, else the least disturbed."""
    best: Runs | None = None
    for _ in range(TRIES):
        runs = _watched(asked, series_every_s)
        if best is None or runs.late_share < best.late_share:
            best = runs
        if best.slack == 1:
            break
        print(f"disturbed: {runs.late_share:.2%} of timers late")  # noqa: T201 (shown with what fails)
    assert best is not None
    return best


def _watched(asked: tuple[Scenario, ...], series_every_s: float | None) -> Runs:
    """They do not all run at the same time, so that each is looked at over its own."""
    qos: dict[int, QoS] = {}
    seen: list[Machine] = []

    def each(number: int, found: QoS | EmulationError) -> None:
        if isinstance(found, EmulationError):
            raise found
        qos[number] = found
        seen.append(watch.during_a_run(asked[number].duration_s))

    with kept_awake(), Watch(timers=True) as watch:
        emulate_each(asked, each, series_every_s=series_every_s)
    slack = DISTURBED_SLACK if any(map(is_disturbed, seen)) else 1.0
    late_shares = [machine.late_share for machine in seen if machine.late_share is not None]
    assert len(late_shares) == len(asked)
    return Runs(tuple(qos[number] for number in range(len(asked))), slack=slack, late_share=max(late_shares))
