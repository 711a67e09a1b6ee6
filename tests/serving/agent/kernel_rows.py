# SPDX-License-Identifier: MIT
"""Lines `row` of the kernel's `status`, as docs/proc.md shows them."""

from __future__ import annotations


def row(
    epochs: int,
    *,
    state: int = 0,
    delay_class: int | None = 0,
    group: str = "ensemble",
    flows: str = "own",
    visits: int | None = None,
) -> str:
    """The line of a row on which this many epochs have ended. Every other sum is a multiple of their number."""
    of_class = "" if delay_class is None else f" class={delay_class}"
    begun = epochs if visits is None else visits
    return (
        f"row state={state}{of_class} group={group} flows={flows} visits={begun} lookups=0 epochs={epochs} "
        f"time_us={epochs * 1_000_000} bytes={epochs * 2_000_000} segments={epochs * 1000} "
        f"retransmitted={epochs * 10} delay_samples={epochs * 100} delay_us={epochs * 3_000_000} "
        f"within_target={epochs * 90}\n"
    )
