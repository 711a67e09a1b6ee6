# SPDX-License-Identifier: MIT
"""Limits how many tokens from one address are refused after a look-up.

After `max_refused` refused tokens within `window_s` the address is blocked until the window ends: further unknown
tokens are refused without a look-up. Windows begin with a refused token, so no address stays blocked by its own
blocked attempts. An IPv6 address counts as its /64 network, because one host usually owns the whole network.

Limits: the number of addresses is bounded. With more of them the oldest window is forgotten.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

_MAX_ADDRESSES = 10_000


class Attempts:
    """The refused tokens of each address. All methods belong to the event loop."""

    def __init__(
        self, *, max_refused: int = 10, window_s: float = 60.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_refused = max_refused
        self._window_s = window_s
        self._monotonic = monotonic
        # For each address the begin of its window and the number of refused tokens in it, in the order of the begins.
        self._windows: dict[str, tuple[float, int]] = {}

    def blocked_s(self, address: str | None) -> float:
        """Return how long the address is still blocked; 0.0 if it is not."""
        if not self._windows:
            return 0.0
        begin_s, n_refused = self._windows.get(_network(address), (0.0, 0))
        if n_refused < self._max_refused:
            return 0.0
        return max(0.0, begin_s + self._window_s - self._monotonic())

    def refused(self, address: str | None) -> None:
        """Count a token that was refused after a look-up."""
        network, now_s = _network(address), self._monotonic()
        begin_s, n_refused = self._windows.get(network, (now_s, 0))
        if now_s - begin_s < self._window_s and n_refused:
            self._windows[network] = (begin_s, n_refused + 1)
            return
        self._windows.pop(network, None)
        if len(self._windows) >= _MAX_ADDRESSES:
            del self._windows[next(iter(self._windows))]
        self._windows[network] = (now_s, 1)


def _network(address: str | None) -> str:
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((parsed.packed, 64), strict=False))
