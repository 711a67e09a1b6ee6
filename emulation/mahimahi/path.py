# SPDX-License-Identifier: MIT
"""Gives a scenario the path that Mahimahi really provides, so that a comparison with the simulator is about the sender.

    link     A constant rate is served at whole ms, several packets at once or none. These are exactly the opportunities
             that mm-link gets (emulation/mahimahi/translate.py).
    before   mm-delay holds a packet for half of the RTT in front of the link. The simulator itself has the whole
             propagation delay behind the link. A constant rate does not distinguish the two, apart from the time until
             the first packet. A link that varies does: at each moment the flow meets another part of the trace.
    opening  Mahimahi's connections open before the scenario begins, while the link serves a packet in every ms. The RTT
             of their handshake is therefore smaller than that of any data packet, at 1 Mbit/s by 12 ms. An additional
             opportunity at _OPENING_MS gives the simulated handshake such an RTT. The first data packet arrives half an
             RTT later and cannot use it. An uplink of ACKs gets such an opportunity, too. Only algorithms in OPENING
             get them, because they take RTTmin from the handshake. On this machine's kernel handshakes took 1.9 to
             3.6 ms more than rtt_ms, with a median of 2.6. Where the link is fast, some of the first data packets take
             less. They renew RTTmin, and so decide when BBR measures it again.
    hops     A packet and its ACK pass shells: the exit of mm-link, its uplink, and mm-delay. Each forwards packets when
             it wakes up. Its timer has whole ms and fires late, so that ACKs arrive in bursts.
    acks     ACKs that leave in bursts, or over an uplink, meet only the first of the hops before them: the exit of
             mm-link. Its uplink is the element itself. The last hop, mm-delay, passes on a burst as a whole. A rate of
             the uplink is served at whole ms, too. Of an opportunity of LOGGED_BYTES an ACK takes ACK_LOGGED_BYTES in
             mm-link.
    RTT      It is EXTRA_RTT_MS longer than rtt_ms. With the hops, the RTT of an idle path is 1 to 5 ms longer than
             rtt_ms, on average 3 ms.

docs/fidelity.md says why these details matter for BBR and CUBIC, and how the hops were fitted.

Limits: how late a shell wakes up depends on the other load of the machine.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from emulation.mahimahi.clock import CLOCK_MS
from emulation.mahimahi.translate import ACK_LOGGED_BYTES, LOGGED_BYTES, link_opportunities_ms, rate_mbps_of
from emulation.scenario.model import Scenario, of_servers
from emulation.scenario.path import AckPath, Clock, Jitter, LinkRate, PathElement, Reorder
from emulation.traces import Trace
from kmod.abi import ALGORITHMS

HOPS: dict[str, tuple[PathElement, ...]] = {
    "mahimahi": (Clock(least_ms=1.05, most_ms=1.7),) * 3,
    "vm": (Jitter(max_ms=CLOCK_MS),) * 2,
}
OPENING = {name for name, algorithm in ALGORITHMS.items() if algorithm.mode == "control"}
EXTRA_RTT_MS = 1.0
# The RTT of a simulated handshake exceeds rtt_ms by this time and EXTRA_RTT_MS.
_OPENING_MS = {"mahimahi": 2, "vm": 1}
_UPLINK_OPENING_MS = 1
ACK_WIRE_BYTES = 52
# The trace is longer than the run by this time, so that it does not repeat during the run.
_BEYOND_MS = 5000


def _as_trace(link: LinkRate, end_ms: int, opening_ms: list[int]) -> dict[str, object]:
    """Return the fields of a link with the opportunities that Mahimahi gives it, and additional ones at opening_ms."""
    name = f"{rate_mbps_of(link):g} Mbit/s" if link.trace is None else link.trace.name
    times_ms = np.sort(np.append(link_opportunities_ms(link, end_ms), np.asarray(opening_ms, dtype=np.int64)))
    return {"rate_mbps": None, "steps": (), "trace": Trace(name, times_ms.astype(np.uint32), end_ms), "start_ms": 0}


def path_of_mahimahi(scenario: Scenario, *, runner: Literal["mahimahi", "vm"]) -> Scenario:
    """Return the scenario with the path that this runner provides."""
    link = scenario.link
    end_ms = math.ceil(scenario.duration_s * 1000) + _BEYOND_MS
    opens = any(flow.cca in OPENING for flow in scenario.flows)
    changed: dict[str, object] = {
        **_as_trace(link, end_ms, [_OPENING_MS[runner]] * opens),
        "behind": (*link.behind, *(HOPS[runner] if link.acks == AckPath() else HOPS[runner][:1])),
    }
    if (uplink := link.acks.uplink) is not None:
        served = _as_trace(uplink, end_ms, [_UPLINK_OPENING_MS] * opens)
        served["opportunity_bytes"] = ACK_WIRE_BYTES * LOGGED_BYTES // ACK_LOGGED_BYTES
        changed["acks"] = AckPath(uplink=uplink.model_copy(update=served))
    if link.delays is not None:  # half of such a delay is in front of the link anyway
        changed |= {"rtt_ms": link.rtt_ms + EXTRA_RTT_MS, "delays": link.delays.longer(EXTRA_RTT_MS)}
    else:
        before_ms = link.rtt_ms / 2
        # A fixed delay of all packets.
        changed["before"] = (Reorder(share=1.0, delay_ms=before_ms), *link.before)
        changed["rtt_ms"] = link.rtt_ms - before_ms + EXTRA_RTT_MS
    split: dict[str, object] = {}
    if (servers := of_servers(scenario)) is not None and scenario.proxy is not None:
        to_proxy = path_of_mahimahi(servers, runner=runner).link
        split["proxy"] = scenario.proxy.model_copy(update={"link": to_proxy})
    return scenario.model_copy(update={"link": link.model_copy(update=changed), **split})
