# SPDX-License-Identifier: MIT
"""Statements of sections 3.2, 5.4 and 6.1 to 6.3 on several objects or connections.

The objects are on one connection, and the connections belong to one client.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulation.scenario.model import WIRE, Cca
from experiments.figures import Figure, Statement, megabytes, quotients, share, within
from experiments.rtcp.campaign import Kind, Part, Results, Values
from experiments.rtcp.clients import APART
from experiments.rtcp.statements.common import BASES, LEAST_GOODPUT, NAMES, NONE, ByKind, errors, hits, rate_errors
from training.intervals import LEAST_SEEDS

__all__ = ["STATEMENTS", "concurrent_rate", "second"]

LEAST_SECOND = 0.8  # smallest reduction from the unmodified algorithm, in the best cell
LEAST_CONCURRENT = 0.4  # smallest reduction from the unmodified algorithm, in each pattern


def patterns(results: Results) -> list[Figure]:
    return _found(results, "patterns", {name: it.limited for name, it in results.settings.patterns.items()})


def concurrent(results: Results) -> list[Figure]:
    return _found(results, "concurrent", {name: it.limited for name, it in results.settings.concurrent.items()})


def _found(results: Results, kind: Kind, operators: Mapping[str, str]) -> list[Figure]:
    """The share of runs that end as limited, and the error of R, for each part of a kind with R-TCP.

    operators: the name of the operator, by place.
    """
    figures = []
    for part in results.parts:
        if part.kind != kind or part.cca not in BASES:
            continue
        limited = results.settings.limited[operators[part.place]]
        found, of = hits(results, part, "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place} found", found, of, least=1.0))
        of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))[1]
        if len(of_r) >= LEAST_SEEDS:
            figures += rate_errors(of_r)
    return figures


def second(results: Results, cca: Cca, size_bytes: int, column: str = "retransmission_rate", *,
           apart: bool = False) -> Values:  # fmt: skip
    """A column of the second connections, one for each seed.

    apart: the second connection knows nothing of the first one.
    """
    value = f"{size_bytes}{APART}" if apart else str(size_bytes)
    return results.column(Part("second", results.settings.second.limited, cca, value), column)


def second_reduction(results: Results, cca: Cca, size_bytes: int) -> Values:
    """1 - R-TCP's retransmission rate over the unmodified algorithm's, seed by seed; cca: the variant of R-TCP.

    NaN: the unmodified algorithm retransmits nothing.
    """
    return 1 - quotients(second(results, cca, size_bytes), second(results, BASES[cca], size_bytes))


def second_cells(results: Results) -> list[Figure]:
    """The best cell, which has a bound, and all other cells, which have none."""
    cells = {
        (cca, size): second_reduction(results, cca, size) for cca in BASES for size in results.settings.sizes_bytes
    }
    lossy = {cell: values for cell, values in cells.items() if np.isfinite(values).all()}
    if not lossy:
        return []
    best = max(lossy, key=lambda cell: float(lossy[cell].mean()))
    named = {cell: f"S{NAMES[cell[0]]} {megabytes(cell[1])}" for cell in lossy}
    return [within(f"best: {named[best]}", lossy[best], least=LEAST_SECOND),
            *(within(named[cell], values) for cell, values in lossy.items() if cell != best)]  # fmt: skip


def second_within_the_bucket(results: Results) -> list[Figure]:
    bucket_bytes = results.settings.limited[results.settings.second.limited].bucket_bytes
    return [
        within(f"S{NAMES[cca]} {megabytes(size)}", second(results, cca, size), most=NONE)
        for cca in BASES for size in results.settings.sizes_bytes if size * WIRE * 1.05 < bucket_bytes
    ]  # fmt: skip


def second_goodput(results: Results) -> list[Figure]:
    figures = []
    for cca, base in BASES.items():
        over = [quotients(*(second(results, of, size, "goodput_mbps") for of in (cca, base)))
                for size in results.settings.sizes_bytes]  # fmt: skip
        worst = min(over, key=lambda values: float(values.mean()))
        figures.append(within(f"S{NAMES[cca]}", worst, least=LEAST_GOODPUT))
    return figures


def concurrent_rate(results: Results, place: str, cca: Cca) -> Values:
    """The retransmission rate of all connections together, one for each seed."""
    return results.column(Part("concurrent", place, cca, "objects"), "retransmission_rate")


def concurrent_reduction(results: Results) -> list[Figure]:
    figures = []
    for place in results.settings.concurrent:
        for cca, base in BASES.items():
            left = quotients(*(concurrent_rate(results, place, of) for of in (cca, base)))
            figures.append(within(f"{NAMES[cca]} {place}", 1 - left, least=LEAST_CONCURRENT))
    return figures


STATEMENTS: ByKind = {
    "patterns": (
        Statement("6.2-1", "Found with several objects on a connection, R close (2 % in the X app)",
                  "in all runs, mean error <= 5 %", patterns),
    ),
    "second": (
        Statement("6.1-10", "A second connection, with what the first has found, resends less by up to 88 %",
                  ">= 80 %, the best of them", second_cells),
        Statement("6.1-11", "and nothing of a file that the bucket holds", "< 0.05 %", second_within_the_bucket),
        Statement("issue-2", "at a goodput within 5 % of the unmodified version's; the worst size of each",
                  ">= 95 %", second_goodput),
    ),
    "concurrent": (
        Statement("5.4-1", "Found with several connections to a client at a time, R close",
                  "in all runs, mean error <= 5 %", concurrent),
        Statement("6.3-1", "They resend 40 to 60 % less than the unmodified versions (in a short-video app)",
                  ">= 40 %", concurrent_reduction),
    ),
}  # fmt: skip
