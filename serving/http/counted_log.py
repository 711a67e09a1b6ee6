# SPDX-License-Identifier: MIT
"""Logs events that clients cause, so that no client can fill the log: the first one, and then few with their count."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable


class CountedLog:
    """Counts events of one kind, and logs at most one of them every `interval_s`."""

    def __init__(
        self, log: logging.Logger, *, interval_s: float = 10.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._interval_s = interval_s
        self._monotonic = monotonic
        self._n_events = 0
        self._next_s = -math.inf

    def warning(self, message: str, *arguments: object) -> None:
        """Count an event, and perhaps log it. The first placeholder of the message is the number of events so far."""
        self._n_events += 1
        now_s = self._monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._interval_s
            self._log.warning(message, self._n_events, *arguments)
