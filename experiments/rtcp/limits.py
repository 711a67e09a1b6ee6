# SPDX-License-Identifier: MIT
"""The limit that a client's connections found together, from the estimates that each of them noted."""

from __future__ import annotations

from collections.abc import Iterable

from emulation.run.qos import LimitEstimate

__all__ = ["is_limited", "last_estimate"]

WITH_ESTIMATE = frozenset({"limited", "cleared"})


def last_estimate(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    """The latest estimate of all connections.

    None: there is none yet, or it was dropped. A client drops its estimate when it forgets the limiter, or when its
    flows pass several limiters.
    """
    last = _last(limits)
    return last if last is not None and last.kind in WITH_ESTIMATE else None


def is_limited(limits: Iterable[LimitEstimate]) -> bool:
    """Whether the client is classified as limited at the end."""
    last = _last(limits)
    return last is not None and last.kind == "limited"


def _last(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    in_time = sorted(limits, key=lambda limit: limit.at_ms)
    return in_time[-1] if in_time else None
