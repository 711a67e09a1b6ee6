# SPDX-License-Identifier: MIT
"""The kept connections that wait for their next request. The oldest ones are closed first.

    idle for `timeout_s`                                closed by the next sweep, one every second
    almost as many connections as the listener allows   the oldest one is closed for each new connection

A client that finds its kept connection closed opens a new one. It loses nothing, whereas a client whose connection is
refused has to wait. All methods belong to the event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

__all__ = ["IdleConnections"]

_SWEEP_S = 1.0


class Idle(Protocol):
    """An idle connection."""

    def close_idle(self) -> None:
        """Close the connection, because it is idle."""


class IdleConnections:
    """The idle connections of one server, in the order in which they became idle."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # Each connection with the time from which on it is idle. A plain dictionary would search for its first entry
        # past all that were removed.
        self._since_s: OrderedDict[Idle, float] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since_s)

    def add(self, connection: Idle) -> None:
        """Add a connection that is idle now. One that was idle before remains so since then."""
        loop = asyncio.get_running_loop()
        self._since_s.setdefault(connection, loop.time())
        if self._sweep is None:
            self._sweep = loop.call_later(_SWEEP_S, self._close_old)

    def discard(self, connection: Idle) -> None:
        """Remove a connection that is not idle, or no more."""
        self._since_s.pop(connection, None)

    def close_oldest(self) -> None:
        """Close the connection that has been idle for the longest time, if there is one."""
        if self._since_s:
            oldest, _ = self._since_s.popitem(last=False)
            oldest.close_idle()

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() - self._timeout_s
        while self._since_s and next(iter(self._since_s.values())) <= until_s:
            self.close_oldest()
        self._sweep = loop.call_later(_SWEEP_S, self._close_old) if self._since_s else None
