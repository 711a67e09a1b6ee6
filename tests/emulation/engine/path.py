# SPDX-License-Identifier: MIT
"""A sender and a receiver over a path that a test decides, transmission by transmission.

sender -> serialisation at rate_mbps (None: none) -> lost or late, as `meets` says -> receiver -> rtt_ms -> sender
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from emulation import FlowSpec, _engine

MS = 1_000_000
NEVER_NS = 2**63 - 1
Meets = Callable[[Any, int], float | None]


def untouched(_packet: Any, _now_ns: int) -> float | None:
    """Nothing is lost or late."""
    return 0.0


@dataclass
class Path:
    """Runs one flow; `meets(packet, now_ns)` gives the ms that a transmission is late, or None: it is lost."""

    flow: FlowSpec
    size_pkts: int = 2**32 - 1
    rtt_ms: float = 100.0
    rate_mbps: float | None = 20.0
    meets: Meets = untouched
    window_pkts: int = 2**32 - 1
    receiver: Any = None
    sent: list[tuple[float, int, int]] = field(default_factory=list)  # (ms, seq, in flight behind it)
    acks: list[tuple[float, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        job = _engine.FlowJob(self.flow.cca, self.flow.values())
        self.sender = _engine.LoneSender(job, self.size_pkts, self.window_pkts)
        self.receiver = self.receiver or _engine.LoneReceiver()
        self.now_ns = 0
        self._events: list[tuple[int, int, int, Any]] = []
        self._count = 0
        self._free_at_ns = 0
        self._packet_ns = 0 if self.rate_mbps is None else round(1500 * 8e3 / self.rate_mbps)

    def start(self) -> Path:
        """Open the connection at time 0, the handshake having shown the round trip."""
        self._send(self.sender.start(0, round(self.rtt_ms * MS)))
        return self

    def run(self, until_ms: float, *, check: Callable[[], None] | None = None) -> Path:
        """Let it go on until then, or until nothing is left to do; check() after each event."""
        until_ns = round(until_ms * MS)
        while (at_ns := self._next_ns()) <= until_ns:
            self.now_ns = at_ns
            self._act()
            if check:
                check()
        self.now_ns = until_ns
        return self

    def more(self, pkts: int) -> Path:
        """The application hands over more, now."""
        self._send(self.sender.more(self.now_ns, pkts))
        return self

    def reports(self, *kinds: str) -> list[tuple[float, str, list[int]]]:
        """The notifications of the algorithm: (ms, kind, figures)."""
        return [(at_us / 1000, kind, figures) for at_us, kind, figures in self.sender.reports if kind in kinds]

    def retransmitted(self) -> list[tuple[float, int]]:
        """When which number was sent again."""
        seen: set[int] = set()
        again = []
        for at_ms, seq, _ in self.sent:
            if seq in seen:
                again.append((at_ms, seq))
            seen.add(seq)
        return again

    def _next_ns(self) -> int:
        event_ns = self._events[0][0] if self._events else NEVER_NS
        return min(event_ns, self.sender.timer_at_ns, self.receiver.timer_at_ns, NEVER_NS - 1)

    def _act(self) -> None:
        if self._events and self._events[0][0] == self.now_ns:
            _, _, kind, what = heapq.heappop(self._events)
            if kind:
                self.acks.append((self.now_ns / MS, what))
                self._send(self.sender.on_ack(self.now_ns, what))
            elif (ack := self.receiver.take(self.now_ns, what)) is not None:
                self._push(self.now_ns + round(self.rtt_ms * MS), 1, ack)
        elif self.receiver.timer_at_ns == self.now_ns:
            self._push(self.now_ns + round(self.rtt_ms * MS), 1, self.receiver.flush())
        else:
            self._send(self.sender.on_timer(self.now_ns))

    def _push(self, at_ns: int, kind: int, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_ns, self._count, kind, what))

    def _send(self, packets: list[Any]) -> None:
        for packet in packets:
            self.sent.append((self.now_ns / MS, packet.seq, self.sender.in_flight))
            self._free_at_ns = max(self._free_at_ns, self.now_ns) + self._packet_ns
            late_ms = self.meets(packet, self.now_ns)
            if late_ms is not None:
                self._push(self._free_at_ns + round(late_ms * MS), 0, packet)
