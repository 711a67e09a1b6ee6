# SPDX-License-Identifier: MIT
"""Appendix H: a limit that is lifted while data flow; and one that ends, or stays, between two connections to a client.

qualified   a cell of the grid in which at least 9 of 10 runs of the unmodified algorithm regain half of the new rate
later       the median of R-TCP's times over such a cell less the median of the unmodified algorithm's
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from emulation.scenario import Cca
from training.papers.figures import Figure, Statement, quotients, share, within
from training.papers.rtcp.campaign import Part, Results, Values
from training.papers.rtcp.clients import FOR_S
from training.papers.rtcp.statements.common import BASES, NAMES, ByKind

__all__ = ["STATEMENTS"]

LEAST_SPEED = 0.8  # of the unmodified version's, behind a lift; "overlap" in Appendix H
MOST_REGAINED_S = 3.0
LEAST_QUALIFIED = 0.9  # of the unmodified version's runs
MOST_LATER_S = 10.0
MOST_NEVER = 0.01  # of R-TCP's runs over all qualified cells
MOST_FREED = 1.5  # times the unmodified version's, ...
MOST_FREED_S = 2.0  # ... and this much
MOST_KEPT = 0.3  # of the unmodified version's retransmissions, of a second connection behind a limit that stays


def lifted(results: Results, cca: Cca, loss: float, column: str) -> Values:
    """A column of the downloads whose limit is lifted, one a seed."""
    return results.column(Part("lifted", "limit", cca, f"{100 * loss:g}"), column)


def lifted_speed(results: Results) -> list[Figure]:
    return [
        within(f"{NAMES[cca]} {100 * loss:g} % loss",
               quotients(*(lifted(results, of, loss, "speed_mbps") for of in (cca, base))), least=LEAST_SPEED)
        for cca, base in BASES.items() for loss in results.settings.lifted.losses
    ]  # fmt: skip


def regained_s(results: Results, cca: Cca, loss: float) -> Values:
    """Seconds, one a seed; a run that does not get there in the time that is looked at counts with all of it."""
    return np.nan_to_num(lifted(results, cca, loss, "regained_s"), nan=FOR_S)


def lifted_in_time(results: Results) -> list[Figure]:
    """Each form of R-TCP, and beside it the unmodified version, of which nothing is asked."""
    figures = []
    for cca, base in BASES.items():
        for loss in results.settings.lifted.losses:
            label = f"{NAMES[cca]} {100 * loss:g} % loss"
            figures.append(within(label, regained_s(results, cca, loss), most=MOST_REGAINED_S, unit="s"))
            figures.append(within(NAMES[base], regained_s(results, base, loss), unit="s"))
    return figures


def grid_cells(results: Results, cca: Cca) -> list[tuple[str, Values, Values]]:
    """Label, R-TCP's and the unmodified version's seconds to half of the new rate (never: infinite), of each qualified
    cell; cca: R-TCP's."""
    grid, cells = results.settings.lifted.grid, []
    for loss in results.settings.lifted.losses:
        for rate in grid.rates_mbps:
            for rtt in grid.rtts_ms:
                place, value = f"{rate:g}-{rtt:g}", f"{100 * loss:g}"
                capped, plain = (
                    np.nan_to_num(results.column(Part("lifted", place, of, value), "regained_s"), nan=np.inf)
                    for of in (cca, BASES[cca])
                )
                if np.isfinite(plain).mean() >= LEAST_QUALIFIED:
                    cells.append((f"{rate:g} Mbit/s {rtt:g} ms {value} % loss", capped, plain))
    return cells


def regained_later(results: Results) -> list[Figure]:
    """The cell in which R-TCP is latest, of each base, and how many cells qualify."""
    figures = []
    for cca in BASES:
        cells = grid_cells(results, cca)
        if not cells:
            continue
        later = {label: _median(capped) - _median(plain) for label, capped, plain in cells}
        worst = max(later, key=lambda label: later[label])
        label = f"{NAMES[cca]} {len(cells)} cells, latest at {worst}"
        figures.append(Figure(label, later[worst], math.nan, later[worst] <= MOST_LATER_S, "s"))
    return figures


def _median(seconds: Values) -> float:
    """Of seconds that may be infinite: a mean of two such is infinite, not undefined."""
    ordered = np.sort(seconds)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def never_regained(results: Results) -> list[Figure]:
    """Of all bases together."""
    runs = [capped for cca in BASES for _, capped, _ in grid_cells(results, cca)]
    if not runs:
        return []
    never = np.isinf(np.concatenate(runs))
    figure = share("of all", int(never.sum()), never.size)
    return [replace(figure, agrees=figure.mean <= MOST_NEVER)]


def freed_in_time(results: Results) -> list[Figure]:
    """Of each base the runs that take longer, and the cell in which the median takes longest beside the base's."""
    free, figures = results.settings.freed, []
    for cca, base in BASES.items():
        over, worst = 0, (0.0, "")
        for rate in free.rates_mbps:
            for rtt in free.rtts_ms:
                capped, plain = (_freed_s(results, of, rate, rtt) for of in (cca, base))
                over += int((capped > MOST_FREED * np.median(plain) + MOST_FREED_S).sum())
                apart = float(np.median(capped) / np.median(plain))
                worst = max(worst, (apart, f"{rate:g} Mbit/s {rtt:g} ms"))
        cells = len(free.rates_mbps) * len(free.rtts_ms)
        late = share(f"{NAMES[cca]} later in", over, cells * free.runs)
        figures.append(replace(late, agrees=over == 0))
        figures.append(Figure(f"longest at {worst[1]}, times the base's", worst[0], math.nan, agrees=True, unit=""))
    return figures


def _freed_s(results: Results, cca: Cca, rate_mbps: float, rtt_ms: float) -> Values:
    """Seconds that the second connection takes, one a run; one that does not complete: infinite."""
    part = Part("freed", f"{rate_mbps:g}", cca, f"{rtt_ms:g}")
    seconds = results.settings.freed.size_bytes * 8e-6 / results.column(part, "goodput_mbps")
    return np.where(results.column(part, "complete") == 1, seconds, np.inf)


def kept_limited(results: Results) -> list[Figure]:
    """Of each base the mean over all cells, the cells beyond the bound, and the one that is farthest beyond it."""
    free, figures = results.settings.freed, []
    for cca, base in BASES.items():
        ratios = {}
        for rate in free.rates_mbps:
            for rtt in free.rtts_ms:
                capped, plain = (
                    results.column(Part("kept", f"{rate:g}", of, f"{rtt:g}"), "retransmission_rate")
                    for of in (cca, base)
                )
                ratios[f"{rate:g} Mbit/s {rtt:g} ms"] = float(capped.mean() / plain.mean())
        worst = max(ratios, key=lambda place: ratios[place])
        over = sum(ratio > MOST_KEPT for ratio in ratios.values())
        figures.append(within(f"{NAMES[cca]} of the base's, mean of the cells", np.array([*ratios.values()]), unit="%"))
        figures.append(Figure(f"{over} of {len(ratios)} cells over {MOST_KEPT:.0%}, farthest at {worst}",
                              ratios[worst], math.nan, over == 0))  # fmt: skip
    return figures


STATEMENTS: ByKind = {
    "lifted": (
        Statement("H-1", "From 3 s behind a limit's end on, its speed is that of the unmodified version",
                  ">= 80 % of it", lifted_speed),
        Statement("H-2", "Half of the new limit is reached within 3 s", "<= 3 s; never counts as 10 s; half is ours",
                  lifted_in_time),
        Statement("H-3", "Over the grid of rates and round trips R-TCP regains half of the new rate with its base",
                  "median at most 10 s later where 9 of 10 runs of the base do", regained_later),
        Statement("H-4", "and hardly any of its runs never does", "<= 1 % of the runs within 60 s", never_regained),
    ),
    "freed": (
        Statement("H-5", "A second connection without the first one's limit takes hardly longer than its base",
                  "every run <= 1.5 times the base's median + 2 s", freed_in_time),
    ),
    "kept": (
        Statement("H-6", "A second connection behind a limit that stays retransmits little of what its base does",
                  "< 30 % in each cell", kept_limited),
    ),
}  # fmt: skip
