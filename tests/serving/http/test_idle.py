# SPDX-License-Identifier: MIT
"""Kept connections that wait for their next request"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from serving.http.connections import IdleConnections


@dataclass(eq=False)
class Kept:
    """A connection that notes its end."""

    name: str
    closed: list[str] = field(default_factory=list)

    def close_idle(self) -> None:
        """Note the end."""
        self.closed.append(self.name)


def test_the_connection_that_was_idle_first_is_closed_first():
    async def scenario() -> list[str]:
        closed: list[str] = []
        idle = IdleConnections(timeout_s=3600)
        kept = [Kept(name, closed) for name in "abc"]
        for connection in (*kept, kept[0]):
            idle.add(connection)
        idle.discard(kept[1])
        for _ in range(3):
            idle.close_oldest()
        return closed

    assert asyncio.run(scenario()) == ["a", "c"]


def test_a_connection_is_closed_when_it_has_been_idle_for_the_time():
    async def scenario() -> tuple[list[str], int]:
        closed: list[str] = []
        idle = IdleConnections(timeout_s=0)
        idle.add(Kept("a", closed))
        while idle:
            await asyncio.sleep(0.05)
        idle.add(Kept("b", closed))
        while idle:
            await asyncio.sleep(0.05)
        return closed, len(idle)

    assert asyncio.run(scenario()) == (["a", "b"], 0)
