# SPDX-License-Identifier: MIT
"""Imitates the effect of Mahimahi's clock, which counts whole milliseconds, in the simulator.

mm-delay records the ms in which a packet arrives, and releases it when its clock has advanced by the delay. A packet
that arrives late in a ms therefore waits up to 1 ms less than one that arrives early in it. A shell wakes up once a ms.
The gaps between packets at the receiver thus change by up to 1 ms. This is much at rates of about a packet per ms: a
controller that measures the bandwidth over a few ms sees it change by half.
"""

from __future__ import annotations

from emulation.scenario.model import Scenario
from emulation.scenario.path import Jitter

CLOCK_MS = 1.0


def with_clock_of_mahimahi(scenario: Scenario) -> Scenario:
    """Return the scenario with a last path element that holds each packet for up to CLOCK_MS, in order."""
    behind = (*scenario.link.behind, Jitter(max_ms=CLOCK_MS))
    return scenario.model_copy(update={"link": scenario.link.model_copy(update={"behind": behind})})
