# SPDX-License-Identifier: MIT
"""The path that Mahimahi really gives a scenario, for the simulator: so that what is compared is the sender.

    link     a constant rate is served at whole ms, several packets at once or none: the very opportunities that
             mm-link gets (emulation/mahimahi/translate.py)
    opening  connections open before the scenario begins, over a link that serves a packet in every ms, so that RTTmin
             is less than any packet's RTT, at 1 Mbit/s by 12 ms: an opportunity at 1 ms, for which a handshake waits.
             For algorithms that take RTTmin from it (OPENING); CUBIC's is that of packets, and of the first one then
    hops     shells that a packet and its ACK pass, the link's own exit, its uplink and mm-delay: each forwards when it
             wakes up, by a timer of whole ms that is late, so that ACKs come in bursts
    RTT      EXTRA_RTT_MS more than rtt_ms; with the hops an idle path has 1 to 5 ms more, on average 3

Why it matters: BBR's bandwidth is the greatest of ten round trips' samples, and ACKs that come up to a ms nearer to
each other than the link sent the packets make it too great. At 20 Mbit/s, 50 ms and a buffer of one bandwidth-delay
product the 95th percentile of the queueing delay under BBR was 48 ms in the kernel; in the simulator 28 ms on an even
link with a jitter of 1 ms, 42 with one of these hops instead, 48 with it and the link's whole ms. And the ACK train of
HyStart must have no gap above 2 ms: the kernel's CUBIC, whose counters tell, seldom finds one here, where an even path
always has one.

Measured by what ACKs do at the sender, 50 Mbit/s and four runs side by side on two processors: 63 bursts in 100 ms, 12
of them more than 2 ms behind the one before; three clocks of 1.05 to 1.7 ms give 63 and 10.

In the guest, by its own clock, no shell is late, but in slow start, when its one processor has many packets to carry
(that is left out here; docs/rtcp-kernel.md). So a packet goes through all of them in one ms, and so does its ACK: a
hop each way, with the jitter of a clock of whole ms (emulation/mahimahi/clock.py). With one hop alone round trips
were 0.2 to 1 ms shorter than the guest's, and what is sent again behind a policer met its tokens at the same phase in
round after round.

Limits: how late a shell wakes up depends on what else the machine does.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from emulation.mahimahi.clock import CLOCK_MS
from emulation.mahimahi.translate import link_opportunities_ms
from emulation.path import Clock, Jitter, PathElement
from emulation.scenario import Scenario
from emulation.traces import Trace
from kmod.abi import ALGORITHMS

__all__ = ["EXTRA_RTT_MS", "HOPS", "path_of_mahimahi"]

HOPS: dict[str, tuple[PathElement, ...]] = {
    "mahimahi": (Clock(least_ms=1.05, most_ms=1.7),) * 3,
    "vm": (Jitter(max_ms=CLOCK_MS),) * 2,
}
OPENING = {name for name, algorithm in ALGORITHMS.items() if algorithm.mode == "control"}
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
        if any(flow.cca in OPENING for flow in scenario.flows):
            times_ms = np.append(np.uint32(1), times_ms)
        changed |= {"rate_mbps": None, "trace": Trace(f"{link.rate_mbps:g} Mbit/s", times_ms, end_ms)}
    changed["behind"] = (*link.behind, *HOPS[runner])
    return scenario.model_copy(update={"link": link.model_copy(update=changed)})
