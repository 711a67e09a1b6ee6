# SPDX-License-Identifier: MIT
"""Statements of section 6.2 on videos.

    reduction   1 - the retransmission rate with stateful R-TCP over that of the unmodified (plain) algorithm, seed by
                seed, of all sessions together. The mean is over operators and ABRs
    QoE         Pensieve's linear form (emulation/scenario/video.py), as a mean over the sessions
    kept        1 + (stateful - plain) / |mean of plain over the seeds|, where each QoE is a sum over operators and ABRs

An ABR is a way to choose bitrates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emulation.scenario.model import Cca
from experiments.figures import Figure, Statement, quotients, within
from experiments.rtcp.campaign import PAIRS, Part, Results, Values
from experiments.rtcp.statements.common import ByKind

__all__ = ["STATEMENTS", "cell", "kept_qoe", "reduced_by", "row_of"]

LEAST_QOE = 0.97
CUBIC, BBR, BBR3 = PAIRS.items()  # plain, stateful


def _cells(results: Results) -> list[tuple[str, str]]:
    """The pairs of operator and ABR that were run."""
    return list(dict.fromkeys((part.place, part.value) for part in results.parts if part.kind == "video"))


def cell(results: Results, place: str, abr: str, cca: Cca, column: str = "retransmission_rate") -> Values:
    """A column of the clients of an operator with an ABR, one for each seed."""
    return results.column(Part("video", place, cca, abr), column)


def _reduction(results: Results, place: str, abr: str, pair: tuple[Cca, Cca]) -> Values:
    plain, capped = pair
    return 1 - quotients(cell(results, place, abr, capped), cell(results, place, abr, plain))


def reduced_by(pair: tuple[Cca, Cca], least: float) -> Callable[[Results], list[Figure]]:
    """The mean reduction over operators and ABRs, which has a bound, and that of each of them, which has none.

    pair: plain, stateful.
    """

    def figures(results: Results) -> list[Figure]:
        cells = {f"{place} {abr}": _reduction(results, place, abr, pair) for place, abr in _cells(results)}
        if not cells:
            return []
        mean: Values = np.mean(list(cells.values()), axis=0)
        return [within("mean", mean, least=least), *(within(label, values) for label, values in cells.items())]

    return figures


def kept_qoe(pair: tuple[Cca, Cca], least: float) -> Callable[[Results], list[Figure]]:
    """The kept QoE over all cells, and over the ABRs behind each operator; both have a bound.

    The kept QoE of each cell follows without a bound. pair: plain, stateful.
    """

    def figures(results: Results) -> list[Figure]:
        cells = _cells(results)
        if not cells:
            return []
        places = list(dict.fromkeys(place for place, _ in cells))
        asked = [within("all", _kept(results, cells, pair), least=least)]
        if len(places) > 1:
            asked += [within(place, _kept(results, [at for at in cells if at[0] == place], pair), least=least)
                      for place in places]  # fmt: skip
        return [*asked, *(within(" ".join(at), _kept(results, [at], pair)) for at in cells)]

    return figures


def _kept(results: Results, cells: list[tuple[str, str]], pair: tuple[Cca, Cca]) -> Values:
    """The kept QoE over these operators and ABRs, seed by seed.

    The divisor is the mean of the plain QoE, because the QoE of a single seed may be about 0.
    """
    plain, capped = (np.sum([cell(results, *at, cca, "qoe") for at in cells], axis=0) for cca in pair)
    mean = abs(plain.mean())
    values: Values = 1 + quotients(capped - plain, np.full_like(plain, mean))
    return values


def row_of(results: Results, place: str, abr: str, pair: tuple[Cca, Cca]) -> list[str]:
    """The cells of a table row. Each has the value of the plain algorithm, then that of stateful R-TCP.

    The retransmission rates in percent come first, then QoE in Mbit/s, bitrate, start-up and rebuffering.
    """

    def both(column: str, scale: float, digits: int) -> str:
        means = [scale * cell(results, place, abr, cca, column).mean() for cca in pair]
        return " > ".join(f"{mean:.{digits}f}" for mean in means)

    rates = [both(f"{which}retransmission_rate", 100, 1) for which in ("", "first_", "later_")]
    viewed = [both("qoe", 1, 2), both("mean_kbps", 1, 0), both("startup_s", 1, 2), both("rebuffer_s", 1, 1)]
    return [*rates, *viewed]


STATEMENTS: ByKind = {
    "video": (
        Statement("6.2-2", "Of videos one after the other, stateful R-TCP resends 28 % less than CUBIC", ">= 28 %",
                  reduced_by(CUBIC, 0.28)),
        Statement("6.2-3", "and 39 % less than BBRv1", ">= 39 %", reduced_by(BBR, 0.39)),
        Statement("6.2-4", "and 43 % less than BBRv3", ">= 43 %", reduced_by(BBR3, 0.43), unvalidated=True),
        Statement("6.2-5", "QoE stays within 3 % of CUBIC's, behind each operator", ">= 97 %",
                  kept_qoe(CUBIC, LEAST_QOE)),
        Statement("6.2-6", "of BBRv1's", ">= 97 %", kept_qoe(BBR, LEAST_QOE)),
        Statement("6.2-7", "and of BBRv3's", ">= 97 %", kept_qoe(BBR3, LEAST_QOE), unvalidated=True),
    ),
}  # fmt: skip
