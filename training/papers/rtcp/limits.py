# SPDX-License-Identifier: MIT
"""What a client's connections together took its limiter for, out of what each of them noted."""

from __future__ import annotations

from collections.abc import Iterable

from emulation.qos import LimitEstimate

__all__ = ["is_limited", "last_estimate"]

WITH_ESTIMATE = frozenset({"limited", "cleared"})


def last_estimate(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    """The last that any of them knew; None: nothing yet, or what was found is forgotten or given up as shared."""
    last = _last(limits)
    return last if last is not None and last.kind in WITH_ESTIMATE else None


def is_limited(limits: Iterable[LimitEstimate]) -> bool:
    """Whether the client is taken for limited in the end."""
    last = _last(limits)
    return last is not None and last.kind == "limited"


def _last(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    in_time = sorted(limits, key=lambda limit: limit.at_ms)
    return in_time[-1] if in_time else None
