# SPDX-License-Identifier: MIT
"""Mahimahi's clock counts whole milliseconds: what that makes of a path, for the simulator.

mm-delay notes the ms in which a packet came and lets it go when the clock has counted the delay on from there, so that
a packet waits up to 1 ms less than one that came at the beginning of that ms; a shell wakes up once a ms. Packets thus
come to the receiver with up to 1 ms between them that the link did not put there. Over rates of a packet a ms that is
much: a controller that measures bandwidth over a few ms sees it change by half.
"""

from __future__ import annotations

from emulation.path import Jitter
from emulation.scenario import Scenario

__all__ = ["CLOCK_MS", "with_clock_of_mahimahi"]

CLOCK_MS = 1.0


def with_clock_of_mahimahi(scenario: Scenario) -> Scenario:
    """The same with each packet held for up to CLOCK_MS behind everything else, in order."""
    behind = (*scenario.link.behind, Jitter(max_ms=CLOCK_MS))
    return scenario.model_copy(update={"link": scenario.link.model_copy(update={"behind": behind})})
