# SPDX-License-Identifier: MIT
"""Exponential back-off with jitter for repeated requests. The jitter prevents a fleet from retrying all at once."""

from __future__ import annotations

import random

FIRST_S = 1.0


class Backoff:
    """Delays after consecutive failures: 1, 2, 4 ... s (with first_s = 1), at most `maximum_s`.

    Each delay is multiplied by a uniform random factor in [0.5, 1].
    """

    def __init__(self, *, maximum_s: float, rng: random.Random, first_s: float = FIRST_S) -> None:
        self._maximum_s = maximum_s
        self._first_s = first_s
        self._rng = rng
        self._failures = 0

    def next_s(self) -> float:
        """Return the delay after one more failure."""
        # The limit of 30 keeps the power from overflowing; 2^30 s exceeds any maximum.
        ceiling_s = min(self._maximum_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return ceiling_s * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Restart with the shortest delay."""
        self._failures = 0
