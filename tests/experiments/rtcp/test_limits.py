# SPDX-License-Identifier: MIT
"""What a client is taken for in the end, out of what its connections noted."""

from __future__ import annotations

import pytest

from emulation.run.qos import LimitEstimate
from experiments.rtcp.cells import is_limited, last_estimate


def noted(at_ms: float, kind: str) -> LimitEstimate:
    known = kind != "unknown"
    return LimitEstimate(at_ms, kind, 700_000 if known else 0, 250_000 if known else 0)


@pytest.mark.parametrize(
    ("kinds", "limited", "known"),
    [
        ([], False, False),
        (["unknown"], False, False),
        (["unknown", "limited"], True, True),
        (["unknown", "limited", "cleared"], False, True),
        (["unknown", "limited", "unknown"], False, False),  # the limiter is forgotten
        (["limited", "unknown", "limited"], True, True),
    ],
)
def test_the_last_word_counts(kinds: list[str], limited: bool, known: bool) -> None:
    limits = [noted(1000.0 * i, kind) for i, kind in enumerate(kinds)]
    assert is_limited(limits) == limited
    assert last_estimate(limits) == (limits[-1] if known else None)


def test_several_connections_notes_are_read_in_the_order_of_time() -> None:
    first, second = [noted(1000, "unknown"), noted(5000, "limited")], [noted(2000, "unknown"), noted(6000, "unknown")]
    assert not is_limited([*second, *first])
    assert last_estimate([*second, *first]) is None
    assert is_limited([*second[:1], *first])
