# SPDX-License-Identifier: MIT
"""Table 8 and section 3.2: what the detector of Flach et al. 2016 (PD) finds in the unmodified algorithms' packets."""

from __future__ import annotations

from collections.abc import Callable

from training.papers.figures import Figure, Statement, share
from training.papers.rtcp.campaign import Results
from training.papers.rtcp.statements.common import NAMES, ByKind, hits

__all__ = ["STATEMENTS"]

LEAST_MISSED = 0.81  # Table 8, the least of its cells


def downloads(value: str, *, least: float = 0.0, most: float = 1.0, missed: bool) -> Callable[[Results], list[Figure]]:
    """Shares of the runs that PD takes for policed, or misses; value: limited or unlimited."""

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
