# SPDX-License-Identifier: MIT
"""Statements of sections 3.1, 4.1 and 6.1: files, each with its own connection and a full bucket.

The reduction is 1 - R-TCP's retransmission rate over the base algorithm's, seed by seed. Means over the operators are
seed by seed, too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from emulation.scenario.model import WIRE, Cca
from experiments.figures import Figure, Statement, below, megabytes, quotients, within
from experiments.rtcp.campaign import PAIRS, Part, Results, Values
from experiments.rtcp.statements.common import BASES, LEAST_GOODPUT, NAMES, NONE, ByKind

__all__ = ["STATEMENTS", "rate"]

SAME = 0.1  # largest reduction, or increase, that counts as "similar"


def rate(results: Results, place: str, cca: Cca, size_bytes: int) -> Values:
    """Retransmission rates of a file, one for each seed."""
    return results.column(Part("files", place, cca, str(size_bytes)), "retransmission_rate")


def reduction(results: Results, place: str, cca: Cca, size_bytes: int) -> Values:
    """1 - R-TCP's retransmission rate over the base algorithm's, seed by seed; cca: the variant of R-TCP."""
    return 1 - quotients(rate(results, place, cca, size_bytes), rate(results, place, BASES[cca], size_bytes))


def mean_reduction(results: Results, cca: Cca, size_bytes: int) -> Values:
    """The mean reduction over the operators, seed by seed."""
    values: Values = np.mean([reduction(results, place, cca, size_bytes) for place in results.settings.limited], axis=0)
    return values


def baseline(cca: Cca, place: str, *, least: float, most: float = 1.0) -> Callable[[Results], list[Figure]]:
    """The unmodified algorithm's retransmission rate for the largest file; no figure if the operator is not run."""

    def figures(results: Results) -> list[Figure]:
        if place not in results.settings.limited:
            return []
        values = rate(results, place, cca, results.settings.sizes_bytes[-1])
        return [within(f"{NAMES[cca]} {place}", values, least=least, most=most)]

    return figures


def reduced_by(cca: Cca, least: float) -> Callable[[Results], list[Figure]]:
    """The mean reduction over the operators, for the largest file.

    The other figures are the reductions behind each operator, which have no bound.
    """

    def figures(results: Results) -> list[Figure]:
        size = results.settings.sizes_bytes[-1]
        of_each = [within(place, reduction(results, place, cca, size)) for place in results.settings.limited]
        return [within(f"{NAMES[cca]} mean", mean_reduction(results, cca, size), least=least), *of_each]

    return figures


def same_goodput(results: Results) -> list[Figure]:
    figures = []
    for plain, capped in PAIRS.items():
        for place in results.settings.limited:
            over = [
                quotients(*(results.column(Part("files", place, cca, str(size)), "goodput_mbps")
                            for cca in (capped, plain)))
                for size in results.settings.sizes_bytes
            ]  # fmt: skip
            worst = min(over, key=lambda values: float(values.mean()))
            figures.append(within(f"{NAMES[capped]} {place}", worst, least=LEAST_GOODPUT))
    return figures


def within_the_bucket(results: Results) -> list[Figure]:
    settings = results.settings
    return [
        within(f"{NAMES[cca]} {place} {megabytes(size)}", rate(results, place, cca, size), most=NONE)
        for cca in BASES for place, limited in settings.limited.items() for size in settings.sizes_bytes
        if size * WIRE * 1.05 < limited.bucket_bytes
    ]  # fmt: skip


def grows_with_size(results: Results) -> list[Figure]:
    sizes = [size for size in results.settings.sizes_bytes
             if all(size > limited.bucket_bytes for limited in results.settings.limited.values())]  # fmt: skip
    return [
        below(f"{NAMES[cca]} {megabytes(smaller)}", mean_reduction(results, cca, smaller),
              mean_reduction(results, cca, larger))
        for cca in BASES for smaller, larger in pairwise(sizes)
    ]  # fmt: skip


def similar_at_first(results: Results) -> list[Figure]:
    place, limited = next(iter(results.settings.limited.items()))
    first = next((size for size in results.settings.sizes_bytes if size > limited.bucket_bytes), None)
    if first is None:
        return []
    return [within(f"{NAMES[cca]} {place} {megabytes(first)}", reduction(results, place, cca, first),
                   least=-SAME, most=SAME) for cca in BASES]  # fmt: skip


STATEMENTS: ByKind = {
    "files": (
        Statement("4.1-1", "Unmodified BBRv1 resends 9 % of the largest file behind op1", "7 to 11 %",
                  baseline("bbr", "op1", least=0.07, most=0.11)),
        Statement("4.1-2", "Unmodified CUBIC resends 5 % of it", "3 to 7 %",
                  baseline("cubic", "op1", least=0.03, most=0.07)),
        Statement("talk-1", "Unmodified BBRv3 resends more than a tenth of it", "> 10 %",
                  baseline("bbr3", "op1", least=0.1), unvalidated=True),
        Statement("6.1-1", "Unmodified BBRv1 resends 8.6 % of it behind op2", "7 to 11 %",
                  baseline("bbr", "op2", least=0.07, most=0.11)),
        Statement("6.1-2", "Unmodified BBRv1 resends 23.2 % of it behind op3", "19 to 27 %",
                  baseline("bbr", "op3", least=0.19, most=0.27)),
        Statement("6.1-3", "R-TCP resends 57 % less than CUBIC of the largest file, mean of the operators",
                  ">= 57 %", reduced_by("rtcp_cubic", 0.57)),
        Statement("6.1-4", "and 80 % less than BBRv1", ">= 80 %", reduced_by("rtcp_bbr", 0.80)),
        Statement("6.1-5", "and 76 % less than BBRv3", ">= 76 %", reduced_by("rtcp_bbr3", 0.76), unvalidated=True),
        Statement("6.1-6", "Goodput stays within 5 % of the unmodified version's; the worst size of each",
                  ">= 95 %", same_goodput),
        Statement("6.1-7", "Less with smaller files", "each at most the size above", grows_with_size),
        Statement("6.1-8", "Similar to the unmodified version at the first size beyond the bucket of op1",
                  "-10 to 10 %", similar_at_first),
        Statement("6.1-9", "Little to no retransmission of a file that the bucket holds", "< 0.05 %",
                  within_the_bucket),
    ),
}  # fmt: skip
