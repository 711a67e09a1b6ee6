# SPDX-License-Identifier: MIT
"""The runners that lately asked this process for a job or sent a heartbeat to it, for its figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Names are chosen by runners. Those that were seen the longest ago are forgotten first.
MOST_RUNNERS: Final = 1000


class RunnersSeen:
    """The runners that this process has seen. within_s: the time for which it remembers one."""

    def __init__(self, *, within_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._within_s = within_s
        self._monotonic = monotonic
        self._seen_s: dict[str, float] = {}

    def see(self, runner: str) -> None:
        """Note a request of a runner. This belongs to the event loop."""
        self._seen_s.pop(runner, None)
        self._seen_s[runner] = self._monotonic()
        if len(self._seen_s) > MOST_RUNNERS:
            del self._seen_s[next(iter(self._seen_s))]

    @property
    def number(self) -> int:
        """How many were seen lately. Any thread may ask."""
        since_s = self._monotonic() - self._within_s
        return sum(seen_s >= since_s for seen_s in list(self._seen_s.values()))
