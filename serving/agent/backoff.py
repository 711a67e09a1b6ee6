# SPDX-License-Identifier: MIT
"""How long to wait before asking again: exponential, with jitter, so that a fleet does not return all at once."""

from __future__ import annotations

import random

FIRST_S = 1.0


class Backoff:
    """Delays after failures: uniform in [0.5, 1] of 1, 2, 4 ... s, at most `maximum_s`."""

    def __init__(self, *, maximum_s: float, rng: random.Random, first_s: float = FIRST_S) -> None:
        self._maximum_s = maximum_s
        self._first_s = first_s
        self._rng = rng
        self._failures = 0

    def next_s(self) -> float:
        """Return the delay after one more failure."""
        # 2^30 s exceeds any maximum: the power stays a small number however long the registry is gone.
        ceiling_s = min(self._maximum_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return ceiling_s * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start again from the shortest delay."""
        self._failures = 0
