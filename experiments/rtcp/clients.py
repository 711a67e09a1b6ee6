# SPDX-License-Identifier: MIT
"""Scenarios of R-TCP with several connections to a client, or with a limit that is raised.

    second       a file, an idle time, and a file of the same size on its own connection. The figures are those of the
                 second file. value: the size, followed by "-apart" if the second connection knows nothing of the first
    concurrent   several connections at a time, each with its objects
    lifted       a download behind a policer whose rate is raised. place: "limit", or a rate and an RTT of the grid;
                 value: the random loss, in percent
    freed        a file behind a limit, and then a file to the same client without a limit. place: the rate; value: the
                 RTT
    kept         as freed, but the limit stays, and the second file has the size of the first

`place` and `value` are those of a Part (campaign.py).
"""

from __future__ import annotations

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Jitter, Policer, RateStep, SteppedPolicer
from experiments.rtcp.settings import Lifted, RtcpSettings

__all__ = ["APART", "FOR_S", "concurrent", "freed", "kept", "lifted", "regained", "second"]

APART = "-apart"
AFTER_S = 3.0  # the speed is measured from this time after the limit was raised ...
FREED_S = 120.0  # length of the time without a limit
FOR_S = 10.0  # ... to this time
WINDOW_S = 0.5


def second(settings: RtcpSettings, link: LinkSpec, cca: Cca, value: str, *, seed: int) -> Scenario:
    """Two connections. The second one starts idle_s after the end of the first one."""
    size = int(value.removesuffix(APART))
    place = settings.limited[settings.second.limited]
    flow = FlowSpec(cca=cca, size_bytes=size)
    later = FlowSpec(cca=cca, size_bytes=size, after=0, start_s=settings.second.idle_s)
    most_s = 2 * (4 * size * 8e-6 / place.rate_mbps + 30) + settings.second.idle_s
    keep_s = 0.0 if value.endswith(APART) else 600.0
    return Scenario(link=link, flows=(flow, later), duration_s=most_s, seed=seed, client_keep_s=keep_s)


def concurrent(settings: RtcpSettings, link: LinkSpec, cca: Cca, name: str, *, seed: int) -> Scenario:
    """The connections of that name, with enough time for all of them."""
    connections = settings.concurrent[name]
    flows = tuple(FlowSpec(cca=cca, start_s=flow.start_s, transfers=flow.transfers) for flow in connections.flows)
    objects = [transfer for flow in connections.flows for transfer in flow.transfers]
    size = sum(transfer.size_bytes * transfer.count for transfer in objects)
    idle_s = sum(transfer.gap_s * transfer.count for transfer in objects)
    start_s = max(flow.start_s for flow in connections.flows)
    most_s = 4 * size * 8e-6 / settings.limited[connections.limited].rate_mbps + idle_s + start_s + 30
    return Scenario(link=link, flows=flows, duration_s=most_s, seed=seed)


def cell(place: str) -> tuple[float, float] | None:
    """The rate in Mbit/s and the RTT in ms of a place of the grid; None: the place is the limit of Appendix H."""
    if place == "limit":
        return None
    rate, rtt = place.split("-")
    return float(rate), float(rtt)


def watched_s(lift: Lifted, place: str) -> float:
    """How long a download is observed after its limit was raised."""
    return lift.grid.for_s if cell(place) else FOR_S


def lifted(settings: RtcpSettings, cca: Cca, place: str, value: str, *, seed: int) -> Scenario:
    """A download without end, measured from the time at which its limit is raised."""
    of_grid = cell(place)
    lift = settings.lifted.at(*of_grid) if of_grid else settings.lifted
    link = LinkSpec(
        rate_mbps=lift.access_mbps,
        rtt_ms=lift.rtt_ms,
        buffer_pkts=settings.buffer_pkts,
        loss=float(value) / 100,
        before=(lift.policer,),
        behind=(Jitter(max_ms=settings.jitter_ms),),
    )
    flows = (FlowSpec(cca=cca),)
    end_s = lift.at_s + watched_s(lift, place)
    return Scenario(link=link, flows=flows, duration_s=end_s, warmup_s=lift.at_s, window_s=WINDOW_S, seed=seed)


def _limited_bytes(settings: RtcpSettings, rate_mbps: float) -> int:
    """The size of a file that empties the bucket and then takes limited_s at the rate."""
    return int(1.2 * settings.freed.bucket_bytes + rate_mbps * 1e6 / 8 * settings.freed.limited_s)


def kept(settings: RtcpSettings, cca: Cca, place: str, value: str, *, seed: int) -> Scenario:
    """Two connections behind a limit that stays. The second one starts idle_s after the end of the first one."""
    free, rate_mbps, idle_s = settings.freed, float(place), settings.second.idle_s
    size_bytes = _limited_bytes(settings, rate_mbps)
    link = LinkSpec(
        rate_mbps=free.access_mbps,
        rtt_ms=float(value),
        buffer_pkts=settings.buffer_pkts,
        before=(Policer(rate_mbps=rate_mbps, bucket_bytes=free.bucket_bytes),),
        behind=(Jitter(max_ms=settings.jitter_ms),),
    )
    first = FlowSpec(cca=cca, size_bytes=size_bytes)
    later = FlowSpec(cca=cca, size_bytes=size_bytes, after=0, start_s=idle_s)
    most_s = 2 * (4 * size_bytes * 8e-6 / rate_mbps + 30) + idle_s
    return Scenario(link=link, flows=(first, later), duration_s=most_s, seed=seed)


def freed(settings: RtcpSettings, cca: Cca, place: str, value: str, *, seed: int) -> Scenario:
    """Two connections to a client. The limit ends when the second one starts."""
    free, rate_mbps = settings.freed, float(place)
    first_bytes = _limited_bytes(settings, rate_mbps)
    free_at_s = 1.3 * first_bytes * 8e-6 / rate_mbps + 1  # the first file takes less time, even with no bucket
    steps = (RateStep(at_s=0, rate_mbps=rate_mbps), RateStep(at_s=free_at_s, rate_mbps=100 * free.access_mbps))
    link = LinkSpec(
        rate_mbps=free.access_mbps,
        rtt_ms=float(value),
        buffer_pkts=settings.buffer_pkts,
        before=(SteppedPolicer(steps=steps, bucket_bytes=free.bucket_bytes),),
        behind=(Jitter(max_ms=settings.jitter_ms),),
    )
    second = FlowSpec(cca=cca, size_bytes=free.size_bytes, start_s=free_at_s)
    flows = (FlowSpec(cca=cca, size_bytes=first_bytes), second)
    return Scenario(link=link, flows=flows, duration_s=free_at_s + FREED_S, seed=seed)


def regained(lift: Lifted, qos: QoS) -> dict[str, float | None]:
    """The speed after the limit was raised, and the time until half of the new limit is reached.

    speed_mbps: throughput from 3 s after the rise to the end of the run. regained_s: time to the end of the first half
    second with at least half of the new limit; None: there is none.
    """
    mbps = qos.windows.delivered_bytes * 8e-6 / WINDOW_S
    fast = np.flatnonzero(mbps >= lift.to_mbps / 2)
    return {
        "speed_mbps": float(mbps[round(AFTER_S / WINDOW_S) :].mean()),
        "regained_s": float(fast[0] + 1) * WINDOW_S if len(fast) else None,
    }
