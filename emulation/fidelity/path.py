# SPDX-License-Identifier: MIT
"""The path that Mahimahi really gives a scenario, for the simulator: so that what is compared is the sender.

    link     a constant rate is served at whole ms, several packets at once or none: the very opportunities that
             mm-link gets (emulation/mahimahi/translate.py)
    hops     shells that a packet and its ACK pass behind the link, mm-delay towards the receiver counted with them,
             each by a clock of whole ms: HOPS times with_clock_of_mahimahi
    RTT      EXTRA_RTT_MS more than rtt_ms; with the hops an idle path has 1 to 4 ms more, on average 2.5

Why it matters: BBR's bandwidth is the greatest of ten round trips' samples, and ACKs that come up to a ms nearer to
each other than the link sent the packets make it too great. At 20 Mbit/s, 50 ms and a buffer of one bandwidth-delay
product the 95th percentile of the queueing delay under BBR was 48 ms in the kernel; in the simulator 29 ms on a path of
one hop and an even link, 46 with the link's whole ms, 48 with three hops. Window-mode algorithms mind little of it.

In the guest, by its own clock, no shell is late, so that a packet goes through all of them in one ms: one hop.

Limits: the hops are independent of each other here; in Mahimahi they count the ms of one clock, and how far a packet
is off depends on how late the shells wake up.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from emulation.mahimahi.clock import with_clock_of_mahimahi
from emulation.mahimahi.translate import link_opportunities_ms
from emulation.scenario import Scenario
from emulation.traces import Trace

__all__ = ["EXTRA_RTT_MS", "HOPS", "path_of_mahimahi"]

HOPS: dict[str, int] = {"mahimahi": 3, "vm": 1}
EXTRA_RTT_MS = 1.0
# Longer than the run, so that the trace never starts anew in it.
_BEYOND_MS = 5000


def path_of_mahimahi(scenario: Scenario, *, runner: Literal["mahimahi", "vm"]) -> Scenario:
    """The same over the path of this runner."""
    link = scenario.link
    changed: dict[str, object] = {"rtt_ms": link.rtt_ms + EXTRA_RTT_MS}
    if link.rate_mbps is not None:
        end_ms = math.ceil(scenario.duration_s * 1000) + _BEYOND_MS
        times_ms = link_opportunities_ms(link, end_ms).astype(np.uint32)
        changed |= {"rate_mbps": None, "trace": Trace(f"{link.rate_mbps:g} Mbit/s", times_ms, end_ms)}
    scenario = scenario.model_copy(update={"link": link.model_copy(update=changed)})
    for _ in range(HOPS[runner]):
        scenario = with_clock_of_mahimahi(scenario)
    return scenario
