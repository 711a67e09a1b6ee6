# SPDX-License-Identifier: MIT
"""Appendix J: a file by eta and gamma.

Eta is the number of RTTs between two probes of the cap. Gamma is how much a probe exceeds the cap. The statements are
about the paper's probing (`probing` 1). The table has this project's probing beside it.

What an axis saves is 1 - the retransmission rate at one end of the axis over that at the other end. The rates are
paired by seed, and the saving is a mean over the other axis. For gamma it is the lowest value over the highest one, for
eta the highest over the lowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from emulation.scenario.model import Cca, FlowSpec, Scenario
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, markdown_table, quotients, within
from experiments.rtcp.cells import (
    DETECTORS,
    LEAST_GOODPUT,
    NAMES,
    NONE,
    Cell,
    RtcpResults,
    case_of,
    one_file,
)
from experiments.rtcp.settings import Probing, RtcpSettings

# Tables 6 and 7, by eta and by gamma in permille: retransmission rate in percent, and goodput in Mbit/s.
ROWS = tuple((eta, gamma) for eta in (15, 20, 25) for gamma in (100, 150, 200, 250))
PAPER: dict[Cca, dict[str, tuple[tuple[float, float], ...]]] = {
    "rtcp_bbr": {
        "op2": ((3.38, 1.25), (3.97, 1.25), (4.70, 1.27), (5.07, 1.27), (3.15, 1.24), (3.51, 1.25), (3.95, 1.27),
                (4.43, 1.27), (2.93, 1.22), (3.36, 1.24), (3.61, 1.25), (3.99, 1.26)),
        "op3": ((4.18, 0.84), (5.91, 0.92), (6.13, 0.95), (7.00, 0.95), (3.85, 0.80), (5.04, 0.87), (5.79, 0.95),
                (6.38, 0.95), (4.06, 0.79), (4.17, 0.82), (5.39, 0.87), (5.87, 0.91)),
    },
    "rtcp_cubic": {
        "op2": ((4.60, 1.27), (4.62, 1.27), (4.65, 1.27), (4.69, 1.27), (4.44, 1.27), (4.46, 1.27), (4.47, 1.27),
                (4.61, 1.27), (4.42, 1.27), (4.44, 1.27), (4.45, 1.27), (4.60, 1.27)),
        "op3": ((4.57, 0.98), (4.61, 0.98), (4.65, 0.98), (4.75, 0.98), (4.44, 0.98), (4.51, 0.98), (4.55, 0.98),
                (4.66, 0.98), (4.40, 0.98), (4.42, 0.98), (4.44, 0.98), (4.52, 0.98)),
    },
}  # fmt: skip
ORDER = 3.0  # figures of similar size differ by at most this factor
SAME_GOODPUT = 0.01  # R-TCP-CUBIC's goodput is "insensitive" if it differs by no more
At = tuple[int, int]  # eta in rounds, gamma in permille
Axis = Literal["eta", "gamma"]
Rules = Literal[0, 1]
PAPER_RULES: Rules = 1  # the values of the parameter `probing`
OWN_RULES: Rules = 0


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each algorithm of Tables 6 and 7, operator, eta and gamma, with both rules of probing."""
    chosen = settings.probing
    for rules, cca, place, at in product((PAPER_RULES, OWN_RULES), DETECTORS, chosen.limited, chosen.cells):
        key = probing_cell(place, cca, at, rules=rules)
        params = {"probe_every_rounds": at[0], "probe_gain_permille": at[1], "probing": rules}
        yield case_of(key, chosen.runs, partial(_file, settings, place, FlowSpec(cca=cca, params=params)))


def probing_cell(place: str, cca: Cca, at: At, *, rules: Rules = PAPER_RULES) -> Cell:
    """The cell of a file with probes every eta rounds that exceed the cap by gamma."""
    return Cell("probing", place, cca, f"{at[0]}-{at[1]}" + ("-own" if rules == OWN_RULES else ""))


def _file(settings: RtcpSettings, place: str, flow: FlowSpec, seed: int) -> Scenario:
    size_bytes = settings.probing.size_bytes
    flow = flow.model_copy(update={"size_bytes": size_bytes})
    return one_file(settings, settings.limited[place], flow, size_bytes, seed)


def paper_cell(cca: Cca, place: str, at: At) -> tuple[float, float] | None:
    """The paper's retransmission rate, a share, and goodput in Mbit/s; None: the paper has no such cell."""
    rows = PAPER.get(cca, {}).get(place)
    if rows is None or at not in ROWS:
        return None
    percent, mbps = rows[ROWS.index(at)]
    return percent / 100, mbps


def cell(
    results: RtcpResults, place: str, cca: Cca, at: At, *, column: str = "retransmission_rate",
    rules: Rules = PAPER_RULES,
) -> Values:  # fmt: skip
    """A column of a cell, one value for each seed."""
    return results.get(probing_cell(place, cca, at, rules=rules), column)


def tables(results: RtcpResults) -> Iterator[tuple[Cca, str]]:
    """The two halves of Table 6, then those of Table 7, as far as the paper has the settings' operators."""
    for cca in DETECTORS:
        yield from ((cca, place) for place in results.settings.probing.limited if place in PAPER[cca])


def in_both(results: RtcpResults, place: str, cca: Cca) -> list[tuple[At, tuple[float, float]]]:
    """The cells that were run and are in the paper, with the paper's figures."""
    cells = ((at, paper_cell(cca, place, at)) for at in results.settings.probing.cells)
    return [(at, theirs) for at, theirs in cells if theirs is not None]


def ends(probing: Probing, axis: Axis) -> list[tuple[At, At]]:
    """The two ends of an axis, at each value of the other axis.

    The first end has fewer or lower probes than the second one.
    """
    etas, gammas = probing.every_rounds, probing.gains_permille
    if axis == "gamma":
        return [((eta, gammas[0]), (eta, gammas[-1])) for eta in etas]
    return [((etas[-1], gamma), (etas[0], gamma)) for gamma in gammas]


def saved(results: RtcpResults, place: str, cca: Cca, *, axis: Axis) -> Values:
    """What lower (gamma) or rarer (eta) probes save, from one end of the settings to the other."""
    pairs = ends(results.settings.probing, axis)
    less = [1 - quotients(*(cell(results, place, cca, at) for at in pair)) for pair in pairs]
    values: Values = np.mean(less, axis=0)
    return values


def paper_saved(probing: Probing, place: str, cca: Cca, *, axis: Axis) -> float | None:
    """The same figure as `saved`, from the paper's cells; None: the paper lacks some of them."""
    pairs = [(paper_cell(cca, place, less), paper_cell(cca, place, more)) for less, more in ends(probing, axis)]
    found = [1 - less[0] / more[0] for less, more in pairs if less is not None and more is not None]
    return float(np.mean(found)) if len(found) == len(pairs) else None


def fewer(axis: Axis, *, by_order: bool = False) -> Callable[[RtcpResults], list[Figure]]:
    """Check that less probing along an axis does not increase retransmissions.

    by_order: check instead that it saves a third to three times (ORDER) as much as in the paper.
    """

    def figures(results: RtcpResults) -> list[Figure]:
        out = []
        for cca, place in tables(results):
            theirs = paper_saved(results.settings.probing, place, cca, axis=axis)
            if theirs is None:
                continue
            least, most = (theirs / ORDER, theirs * ORDER) if by_order else (0.0, 1.0)
            label = f"{NAMES[cca]} {place} (paper: {100 * theirs:.1f} %)"
            out.append(within(label, saved(results, place, cca, axis=axis), least=least, most=most))
        return out

    return figures


def levels(results: RtcpResults) -> list[Figure]:
    """For each half of a table, the cell whose retransmission rate differs most from the paper's, as a ratio."""
    out = []
    for cca, place in tables(results):
        cells = [(at, theirs, cell(results, place, cca, at)) for at, (theirs, _) in in_both(results, place, cca)]
        if not cells:
            continue
        at, theirs, values = max(cells, key=lambda c: abs(math.log(max(float(c[2].mean()), NONE) / c[1])))
        label = f"{NAMES[cca]} {place} {at[0]}, {at[1] / 10:g} % (paper: {100 * theirs:.2f} %)"
        out.append(within(label, values, least=theirs / ORDER, most=theirs * ORDER))
    return out


def goodputs(results: RtcpResults) -> list[Figure]:
    """For each half of a table, the cell with the lowest ratio of its goodput to the paper's."""
    out = []
    for cca, place in tables(results):
        over = [
            cell(results, place, cca, at, column="goodput_mbps") / mbps
            for at, (_, mbps) in in_both(results, place, cca)
        ]  # fmt: skip
        if over:
            worst = min(over, key=lambda values: float(values.mean()))
            out.append(within(f"{NAMES[cca]} {place}", worst, least=LEAST_GOODPUT))
    return out


def at_its_expense(results: RtcpResults) -> list[Figure]:
    """R-TCP-BBRv1's goodput with the rarest and lowest probes, over that with the most frequent and highest."""
    etas, gammas = results.settings.probing.every_rounds, results.settings.probing.gains_permille
    few, many = (etas[-1], gammas[0]), (etas[0], gammas[-1])
    out = []
    for place in results.settings.probing.limited:
        over = quotients(*(cell(results, place, "rtcp_bbr", at, column="goodput_mbps") for at in (few, many)))
        paper = [paper_cell("rtcp_bbr", place, at) for at in (few, many)]
        theirs = f" (paper: {100 * paper[0][1] / paper[1][1]:.1f} %)" if paper[0] and paper[1] else ""
        out.append(within(f"{NAMES['rtcp_bbr']} {place}{theirs}", over, most=1 + NONE))
    return out


def insensitive(results: RtcpResults) -> list[Figure]:
    """R-TCP-CUBIC's goodput in its lowest cell, over that in its highest cell."""
    out = []
    for place in results.settings.probing.limited:
        cells = [cell(results, place, "rtcp_cubic", at, column="goodput_mbps") for at in results.settings.probing.cells]
        low, *_, high = sorted(cells, key=lambda values: float(values.mean()))
        out.append(within(f"{NAMES['rtcp_cubic']} {place}", quotients(low, high), least=1 - SAME_GOODPUT))
    return out


PROBING: tuple[Statement[RtcpResults], ...] = (
    Statement("J-1", "Lower probes of the cap, gamma 10 instead of 25 %, retransmit less of 8 MB",
              "not more", fewer("gamma")),
    Statement("J-2", "and so do rarer ones, eta 25 instead of 15 round trips", "not more", fewer("eta")),
    Statement("J-3", "Retransmission is of the paper's size; the farthest cell of each half of a table",
              "a third to three times", levels),
    Statement("J-4", "So is what lower probes save", "a third to three times",
              fewer("gamma", by_order=True)),
    Statement("J-5", "and what rarer ones save", "a third to three times", fewer("eta", by_order=True)),
    Statement("J-6", "R-TCP-BBRv1 may pay with goodput: gamma 10 %, eta 25 over gamma 25 %, eta 15",
              "<= 100 %", at_its_expense),
    Statement("J-7", "R-TCP-CUBIC does not: its lowest cell over its highest", ">= 99 %", insensitive),
    Statement("J-8", "Goodput is the paper's; the cell that is lowest beside it", ">= 95 %", goodputs),
)  # fmt: skip


def probing_table(results: RtcpResults) -> list[str]:
    """Mean retransmission rates in percent by eta and gamma.

    A cell is: with this project's probing > with the paper's (the paper's own figure).
    """
    halves = [(cca, place) for cca in DETECTORS for place in results.settings.probing.limited]
    rows = []
    heads = ("eta", "gamma", *(f"{NAMES[cca]} {place}" for cca, place in halves))
    for at in results.settings.probing.cells:
        cells = []
        for cca, place in halves:
            theirs = paper_cell(cca, place, at)
            rates = (cell(results, place, cca, at, rules=rules).mean() for rules in (OWN_RULES, PAPER_RULES))
            found = " > ".join(f"{100 * rate:.2f}" for rate in rates)
            cells.append(found if theirs is None else f"{found} ({100 * theirs[0]:.2f})")
        rows.append((f"{at[0]}", f"{at[1] / 10:g} %", *cells))
    return markdown_table(heads, rows)
