# SPDX-License-Identifier: MIT
"""Limits how many attempts to prove an identity are refused: tokens after a look-up, and passwords.

Attempts are counted by a key, usually the address. After `max_refused` refused ones within `window_s` the key is
blocked until the window ends: further attempts are refused without a look-up. Windows begin with a refused attempt, so
nobody stays blocked by blocked attempts. An IPv6 address counts as its /64 network, because one host usually owns the
whole network.

Limits: the number of keys is bounded. With more of them the oldest window is forgotten.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

_MAX_KEYS = 10_000


def network_of(address: str | None) -> str:
    """Return the address, or of an IPv6 address the network, under which attempts from it are counted."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((parsed.packed, 64), strict=False))


class Attempts:
    """The refused attempts of each key. All methods belong to the event loop.

    key_of: the key of what the methods receive, which is an address or another text.
    """

    def __init__(
        self,
        *,
        max_refused: int = 10,
        window_s: float = 60.0,
        key_of: Callable[[str | None], str] = network_of,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key_of = key_of
        self._max_refused = max_refused
        self._window_s = window_s
        self._monotonic = monotonic
        # For each key the begin of its window and the number of refused attempts in it, in the order of the begins.
        self._windows: dict[str, tuple[float, int]] = {}

    def blocked_s(self, address: str | None) -> float:
        """Return how long the key is still blocked; 0.0 if it is not."""
        if not self._windows:
            return 0.0
        begin_s, n_refused = self._windows.get(self._key_of(address), (0.0, 0))
        if n_refused < self._max_refused:
            return 0.0
        return max(0.0, begin_s + self._window_s - self._monotonic())

    def refused(self, address: str | None) -> None:
        """Count an attempt that was refused after a look-up."""
        key, now_s = self._key_of(address), self._monotonic()
        begin_s, n_refused = self._windows.get(key, (now_s, 0))
        if now_s - begin_s < self._window_s and n_refused:
            self._windows[key] = (begin_s, n_refused + 1)
            return
        self._windows.pop(key, None)
        if len(self._windows) >= _MAX_KEYS:
            del self._windows[next(iter(self._windows))]
        self._windows[key] = (now_s, 1)

    def taken_back(self, address: str | None) -> None:
        """Count one attempt less. An attempt that takes time is counted before it, so that no others run beside it."""
        key = self._key_of(address)
        begin_s, n_refused = self._windows.get(key, (0.0, 0))
        if n_refused > 1:
            self._windows[key] = (begin_s, n_refused - 1)
        else:
            self._windows.pop(key, None)
