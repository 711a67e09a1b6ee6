# SPDX-License-Identifier: MIT
"""Prints samples as they are taken, for a look at the connections."""

from __future__ import annotations

from kmod.observations import NAMES, Ends
from kmod.terminal import echo

_HEADING = f"{'s':>8}  {'#':>5}  {'Mbit/s':>8}  {'RTT ms':>7}  {'in flight':>9}  {'retrans.':>8}  connection"
_AT = {name: place for place, name in enumerate(NAMES)}


class SamplePrinter:
    """Prints a line for each connection that changed."""

    def __init__(self) -> None:
        self._time_us = 0
        self._flows: dict[int, tuple[str, int, tuple[int, ...]]] = {}
        echo(_HEADING)

    def tick(self, time_us: int) -> bool:
        """Begin a sample."""
        self._time_us = time_us
        return False

    def flow(self, number: int, ends: Ends) -> None:
        """Name a connection."""
        peer = f"{ends.peer} port {ends.peer_port}" if ends.peer_port else ends.peer
        name = f"{ends.local} port {ends.local_port} to {peer}, {ends.algorithm}"
        _, time_us, last = self._flows.get(number, ("", self._time_us, ()))
        self._flows[number] = name, time_us, last

    def row(self, number: int, values: tuple[int, ...]) -> None:
        """Print a connection's line if it changed."""
        name, before_us, last = self._flows[number]
        if values == last:
            return
        acked = values[_AT["bytes_acked"]] - last[_AT["bytes_acked"]] if last else 0
        rate_mbps = 8 * acked / max(self._time_us - before_us, 1)
        self._flows[number] = name, self._time_us, values
        echo(
            f"{self._time_us / 1e6:8.3f}  {number:5}  {rate_mbps:8.2f}  {values[_AT['rtt_us']] / 1000:7.1f}  "
            f"{values[_AT['unacked_pkts']]:9}  {values[_AT['total_retrans_pkts']]:8}  {name}"
        )

    def end(self, number: int, word: str) -> None:
        """Print that a connection is no longer sampled."""
        name, _, _ = self._flows.pop(number)
        echo(f"{self._time_us / 1e6:8.3f}  {number:5}  {word}: {name}")

    def listed(self, *, matching: int, sampled: int, new: int, opened: int, left_out: int) -> None:
        """Print nothing: the end of the command has the sums."""

    def finish(self) -> None:
        """Print nothing."""
