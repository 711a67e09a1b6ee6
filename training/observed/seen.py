# SPDX-License-Identifier: MIT
"""The links that observed flows show, as advice needs them, and the scenarios that imitate them.

    flow -> rebuilt link (links.py) -> SeenLink -> scenarios, in which every candidate runs

A scenario is a variant of its link. What a flow does not show exactly is drawn anew in each variant: the place in the
trace, the jitter of the path within JITTER_MS, the round trip within RTT_SPREAD, the buffer within BUFFER_SPREAD, or,
where it never overflowed, up to what the link carries in UNKNOWN_BUFFER_S. The interval of an advice covers these
errors, too. Jitter decides how CUBIC's slow start ends, and with it the losses behind a policer. Where ACKs come in
bunches, half of the variants hold ACKs at regular times and half hold data at irregular ones, because a sender cannot
tell them apart. It cannot tell loss at random from CoDel either, where packets are queued all the time.

Paths behind a policer have the hops with which the simulator was compared with kernels (emulation/mahimahi/path.py). On
paths with evenly spaced packets CUBIC would leave slow start earlier than kernels do.

A network state is a range of minimum RTT with a range of rate, or with a range of rate limit behind a policer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from emulation.run.jobs import BYTES_PER_S
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath, Clock, Codel, Jitter, PathElement, Policer
from emulation.traces import OPPORTUNITY_BYTES, Trace
from training.errors import TrainingError

RTT_EDGES_MS = (20, 40, 80, 160)
RATE_EDGES_MBPS = (1, 4, 16, 64, 256)
RTT_SPREAD, BUFFER_SPREAD, UNKNOWN_BUFFER_S = 0.05, 0.2, 1.0
JITTER_MS = (0.5, 4.0)  # the longest time for which a path's hosts hold a packet
HOLDS = (0.4, 1.6)  # the shortest and the longest time for which data is held, over the mean
RUN_S, SHORTEST_RUN_S = 60.0, 10.0
LEAST_RUNS, VARIANTS = 24, 4
MOST_LINKS = 60


@dataclass(frozen=True)
class Limit:
    """A policer. rate_mbps: of whole packets, in 10^6 bit/s. bucket_bytes: at least one packet.

    rate_range_mbps: rates that explain the losses nearly as well; None: it is unknown.
    """

    rate_mbps: float
    bucket_bytes: int
    rate_range_mbps: tuple[float, float] | None = None


@dataclass(frozen=True)
class Measured:
    """Figures of the flow itself, while the network limited it; None: its source cannot tell.

    throughput_mbps: of payload. delay_ms: 95th percentile of the queueing delay. lost: share of the packets.
    """

    throughput_mbps: float
    delay_ms: float | None
    lost: float | None


@dataclass(frozen=True)
class SeenLink:
    """What a flow showed of its path.

    flow: its name; a flow may show several links, one after the other. seconds: for how long the flow was backlogged,
    which is the link's weight. trace: its rate over time, outages included, or rate_mbps: a constant one; of the link
    in front of which a limit is, if there is a limit. buffer_pkts: of the bottleneck. buffer_is_known: it overflowed;
    otherwise it is at least so long. loss: share of packets lost at random. ack_interval_ms: ACKs come together once in
    so long. jitter_ms: the longest time for which packets are held one by one. algorithm: of the flow; "" if unknown.
    is_lower_bound: the flow was never backlogged, so that the link may carry more. codel_share: how likely it is that
    CoDel made the losses. measured: what the simulation of the flow's own algorithm should give.

    Raises TrainingError for a link without a rate, or with both.
    """

    name: str
    seconds: float
    rtt_ms: float
    trace: Trace | None = field(default=None, repr=False)
    rate_mbps: float | None = None
    buffer_pkts: int = 1000
    buffer_is_known: bool = True
    loss: float = 0.0
    ack_interval_ms: float | None = None
    jitter_ms: float = 0.0
    limit: Limit | None = None
    algorithm: str = ""
    is_lower_bound: bool = False
    codel_share: float = 0.0
    flow: str = ""
    measured: Measured | None = None

    def __post_init__(self) -> None:
        if (self.trace is None) == (self.rate_mbps is None):
            raise TrainingError(
                f"{self.name}: expected either a trace or a rate, got {'none' if self.trace is None else 'both'}"
            )

    @property
    def mean_mbps(self) -> float:
        """What the link carries, or the limit where that is less."""
        link_mbps = self.trace.mean_rate_mbps if self.trace is not None else float(self.rate_mbps or 0)
        return min(link_mbps, self.limit.rate_mbps) if self.limit else link_mbps

    @property
    def state(self) -> NetworkState:
        """The network state that the link belongs to."""
        rtt, rate = (int(np.searchsorted(edges, value, side="right"))
                     for edges, value in ((RTT_EDGES_MS, self.rtt_ms), (RATE_EDGES_MBPS, self.mean_mbps)))  # fmt: skip
        return NetworkState(is_limited=self.limit is not None, rate=rate, rtt=rtt)

    @property
    def unknown_buffer(self) -> float:
        """Logarithm of the longest buffer over the one that was seen, where that never overflowed."""
        most_pkts = self.mean_mbps * BYTES_PER_S * UNKNOWN_BUFFER_S / OPPORTUNITY_BYTES
        return float(np.log(max(most_pkts / self.buffer_pkts, 1.0)))

    def capacity_bytes(self, scenario: Scenario) -> int:
        """Whole packets that the link of a scenario of this link can carry over its time."""
        duration_ms, link = round(scenario.duration_s * 1000), scenario.link
        if link.trace is not None:
            capacity = link.trace.capacity_bytes(link.start_ms, link.start_ms + duration_ms)
        else:
            capacity = round(float(link.rate_mbps or 0) * BYTES_PER_S * scenario.duration_s)
        for element in link.before:
            if isinstance(element, Policer):
                allowed = element.bucket_bytes + element.rate_mbps * BYTES_PER_S * scenario.duration_s
                capacity = min(capacity, round(allowed))
        return capacity


@dataclass(frozen=True, order=True)
class NetworkState:
    """is_limited: behind a policer, whose rate then counts. rate, rtt: places among RATE_EDGES_MBPS, RTT_EDGES_MS."""

    is_limited: bool
    rate: int
    rtt: int

    @property
    def name(self) -> str:
        """E.g. `4 to 16 Mbit/s, 40 to 80 ms`."""
        rate, rtt = _between(RATE_EDGES_MBPS, self.rate, "Mbit/s"), _between(RTT_EDGES_MS, self.rtt, "ms")
        return f"policed to {rate}, {rtt}" if self.is_limited else f"{rate}, {rtt}"


def _between(edges: Sequence[int], place: int, unit: str) -> str:
    if place == 0:
        return f"below {edges[0]} {unit}"
    if place == len(edges):
        return f"above {edges[-1]} {unit}"
    return f"{edges[place - 1]} to {edges[place]} {unit}"


def chosen_links(links: Sequence[SeenLink]) -> list[SeenLink]:
    """At most MOST_LINKS links: those that were seen for the longest time, where the states take turns."""
    by_state: dict[NetworkState, list[SeenLink]] = {}
    for link in sorted(links, key=lambda link: (-link.seconds, link.name)):
        by_state.setdefault(link.state, []).append(link)
    turns = sorted((place, state) for state, its in by_state.items() for place in range(len(its)))
    return [by_state[state][place] for place, state in turns[:MOST_LINKS]]


def scenarios_of(links: Sequence[SeenLink], *, seed: int, most_packets: float = np.inf) -> list[list[Scenario]]:
    """The variants of each link, [links][variants].

    A run lasts as long as the flow was backlogged, but at least SHORTEST_RUN_S and a hundred round trips, and at most
    RUN_S. most_packets: that one algorithm sends over all of them, about. Runs of fast links are shortened for it.
    """
    variants = max(VARIANTS, -(-LEAST_RUNS // len(links)))
    share = most_packets / (len(links) * variants)
    found = []
    for link in links:
        shortest_s = max(SHORTEST_RUN_S, 0.1 * link.rtt_ms)
        packets_per_s = max(link.mean_mbps * BYTES_PER_S / OPPORTUNITY_BYTES, 1e-3)
        duration_s = round(max(min(link.seconds, RUN_S, share / packets_per_s), shortest_s), 1)
        found.append([_variant(link, seed=seed, number=number, duration_s=duration_s) for number in range(variants)])
    return found


def _variant(link: SeenLink, *, seed: int, number: int, duration_s: float) -> Scenario:
    digest = hashlib.sha256(f"{seed} {link.name} {number}".encode()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32).tolist())
    rtt_ms = link.rtt_ms * (1 + RTT_SPREAD * rng.uniform(-1, 1))
    spread = BUFFER_SPREAD * rng.uniform(-1, 1) if link.buffer_is_known else link.unknown_buffer * rng.random()
    start_ms = int(rng.integers(link.trace.period_ms)) if link.trace is not None else 0
    limit = () if link.limit is None else (_policer(link.limit),)
    jitter_ms = JITTER_MS[0] * (JITTER_MS[1] / JITTER_MS[0]) ** rng.random()
    behind: tuple[PathElement, ...] = (Jitter(max_ms=max(float(jitter_ms), link.jitter_ms)),)
    interval_ms = link.ack_interval_ms
    if interval_ms is not None and number % 2:
        behind = (Clock(least_ms=HOLDS[0] * interval_ms, most_ms=HOLDS[1] * interval_ms), *behind)
        interval_ms = None
    hops = (Clock(least_ms=1.05, most_ms=1.7),) * 3 if link.limit is not None else ()
    has_codel = (number // 2 % 4 + 0.5) / 4 < link.codel_share
    buffer_pkts = max(round(link.buffer_pkts * float(np.exp(link.unknown_buffer if has_codel else spread))), 2)
    path = LinkSpec(
        trace=link.trace, rate_mbps=link.rate_mbps, start_ms=start_ms, rtt_ms=rtt_ms,
        loss=0.0 if has_codel else link.loss, codel=Codel() if has_codel else None, buffer_pkts=buffer_pkts,
        before=limit, behind=(*behind, *hops),
        acks=AckPath(interval_ms=interval_ms),
    )  # fmt: skip
    return Scenario(name=f"{link.name} {number}", link=path, flows=(FlowSpec(),), duration_s=duration_s,
                    seed=int(rng.integers(2**32)))  # fmt: skip


def _policer(limit: Limit) -> Policer:
    return Policer(rate_mbps=limit.rate_mbps, bucket_bytes=limit.bucket_bytes)
