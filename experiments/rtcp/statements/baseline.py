# SPDX-License-Identifier: MIT
"""Statements of Table 8 and section 3.2 on PD, the detector of Flach et al. 2016.

PD judges the packets of the unmodified algorithms.
"""

from __future__ import annotations

from collections.abc import Callable

from experiments.figures import Figure, Statement, share
from experiments.rtcp.campaign import Results
from experiments.rtcp.statements.common import NAMES, ByKind, hits

__all__ = ["STATEMENTS"]

LEAST_MISSED = 0.81  # the lowest cell of Table 8


def downloads(value: str, *, least: float = 0.0, most: float = 1.0, missed: bool) -> Callable[[Results], list[Figure]]:
    """Shares of the runs for which PD finds a policer, or misses it.

    value: the part's value (limited, unlimited, objects).
    """

    def figures(results: Results) -> list[Figure]:
        out = []
        for part in results.parts:
            if part.kind == "baseline" and part.value == value:
                found, of = hits(results, part, "policed")
                counted = of - found if missed else found
                out.append(share(f"{NAMES[part.cca]} {part.place}", counted, of, least=least, most=most))
        return out

    return figures


STATEMENTS: ByKind = {
    "baseline": (
        Statement("K-6", "PD misses limited clients (81 to 100 %)", ">= 81 %",
                  downloads("limited", least=LEAST_MISSED, missed=True)),
        Statement("K-7", "and takes none without a limit for limited (0 %)", "no run",
                  downloads("unlimited", most=0.0, missed=False)),
        Statement("3.2-1", "PD does not find a limit with several objects on a connection", "no run",
                  downloads("objects", most=0.0, missed=False)),
    ),
}  # fmt: skip
