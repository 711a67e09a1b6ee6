# SPDX-License-Identifier: MIT
"""Statements of Appendix H: a limit that is raised during a download, or that ends or stays between two connections.

A cell of the grid is qualified if at least 9 of 10 runs of the unmodified algorithm regain half of the new rate. In
such a cell R-TCP may be later: the median of its times less the median of the unmodified algorithm's is bounded.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from emulation.scenario.model import Cca
from experiments.figures import Figure, Statement, quotients, share, within
from experiments.rtcp.campaign import Part, Results, Values
from experiments.rtcp.clients import FOR_S
from experiments.rtcp.statements.common import BASES, NAMES, ByKind

__all__ = ["STATEMENTS"]

LEAST_SPEED = 0.8  # smallest share of the unmodified algorithm's speed after the rise; "overlap" in Appendix H
MOST_REGAINED_S = 3.0
LEAST_QUALIFIED = 0.9  # smallest share of the unmodified algorithm's runs
MOST_LATER_S = 10.0
MOST_NEVER = 0.01  # largest share of R-TCP's runs in all qualified cells
MOST_FREED = 1.5  # times the unmodified algorithm's median, ...
MOST_FREED_S = 2.0  # ... plus this
MOST_KEPT = 0.3  # largest share of the unmodified algorithm's retransmission rate, if the limit stays


def lifted(results: Results, cca: Cca, loss: float, column: str) -> Values:
    """A column of the downloads whose limit is raised, one for each seed."""
    return results.column(Part("lifted", "limit", cca, f"{100 * loss:g}"), column)


def lifted_speed(results: Results) -> list[Figure]:
    return [
        within(f"{NAMES[cca]} {100 * loss:g} % loss",
               quotients(*(lifted(results, of, loss, "speed_mbps") for of in (cca, base))), least=LEAST_SPEED)
        for cca, base in BASES.items() for loss in results.settings.lifted.losses
    ]  # fmt: skip


def regained_s(results: Results, cca: Cca, loss: float) -> Values:
    """Seconds to half of the new limit, one for each seed. A run that does not reach it counts as FOR_S."""
    return np.nan_to_num(lifted(results, cca, loss, "regained_s"), nan=FOR_S)


def lifted_in_time(results: Results) -> list[Figure]:
    """The time of each variant of R-TCP, and of its unmodified algorithm, which has no bound."""
    figures = []
    for cca, base in BASES.items():
        for loss in results.settings.lifted.losses:
            label = f"{NAMES[cca]} {100 * loss:g} % loss"
            figures.append(within(label, regained_s(results, cca, loss), most=MOST_REGAINED_S, unit="s"))
            figures.append(within(NAMES[base], regained_s(results, base, loss), unit="s"))
    return figures


def grid_cells(results: Results, cca: Cca) -> list[tuple[str, Values, Values]]:
    """The qualified cells, each with a label and the times of R-TCP and of the unmodified algorithm.

    The times are seconds to half of the new rate; infinite: never. cca: the variant of R-TCP.
    """
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
    """For each base algorithm, the cell in which R-TCP is latest, and the number of qualified cells."""
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
    """The median of seconds that may be infinite. The mean of two infinite values is infinite, not undefined."""
    ordered = np.sort(seconds)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def never_regained(results: Results) -> list[Figure]:
    """The share of R-TCP's runs, over all base algorithms together, that never reach half of the new rate."""
    runs = [capped for cca in BASES for _, capped, _ in grid_cells(results, cca)]
    if not runs:
        return []
    never = np.isinf(np.concatenate(runs))
    figure = share("of all", int(never.sum()), never.size)
    return [replace(figure, agrees=figure.mean <= MOST_NEVER)]


def freed_in_time(results: Results) -> list[Figure]:
    """For each base algorithm, the share of R-TCP's runs that take too long, and the slowest cell.

    The slowest cell is the one with the largest ratio of R-TCP's median to the base algorithm's.
    """
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
    """Seconds that the second connection takes, one for each run; infinite: it does not complete."""
    part = Part("freed", f"{rate_mbps:g}", cca, f"{rtt_ms:g}")
    seconds = results.settings.freed.size_bytes * 8e-6 / results.column(part, "goodput_mbps")
    return np.where(results.column(part, "complete") == 1, seconds, np.inf)


def kept_limited(results: Results) -> list[Figure]:
    """For each base algorithm, R-TCP's retransmission rate over the base algorithm's.

    The figures are the mean over all cells, the number of cells above the bound, and the cell with the largest ratio.
    """
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
