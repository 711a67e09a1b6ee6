# SPDX-License-Identifier: MIT
"""Appendix I: how classification depends on the parameters of detection (Table 5, Figure 18).

One parameter at a time differs from its default, in the downloads of `detection` behind op1 to op5.
The access rates of the limited operators are those below.
The total error is the sum of two means over both detectors: the missed limits behind the limited operators, and the
false classifications behind the others. It is computed for each run number, because the runs of all values with the
same number have the same links. Differences from the default are differences of such pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from emulation.scenario.model import FlowSpec
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, markdown_table, within
from experiments.rtcp.cells import DETECTORS, Cell, RtcpResults, case_of
from experiments.rtcp.detection import behind, over_trace
from experiments.rtcp.settings import RtcpSettings

RUNS = 40  # of each cell
ACCESS_MBPS = (4.0, 8.0, 20.0, 50.0)  # in turn; theta matters where the link is only a few times R
SAME = 0.01  # "insensitive": the total error moves by no more
# The values of Table 5, of epsilon every other one: name of the parameter, values, and index of the default.
AXES: dict[str, tuple[str, tuple[int, ...], int]] = {
    "alpha": ("trigger_rounds", (4, 5, 6, 7, 8), 3),
    "beta": ("trigger_loss_permille", (100, 200, 300, 400), 1),
    "theta": ("reduction_permille", (200, 400, 600, 800), 2),
    "omega": ("candidates", (5, 9, 13, 17), 1),
    "epsilon": ("convergence_rounds", (2, 4, 6, 8, 10, 12, 14), 4),
}


def _value(axis: str, number: int) -> str:
    _, values, default = AXES[axis]
    return "default" if number == default else f"{axis}-{values[number]}"


def cases(settings: RtcpSettings, links: Links) -> Iterator[Case]:
    """Each value of each parameter, the defaults once, with each detector and operator without movement."""
    settings = settings.model_copy(update={"access_mbps": ACCESS_MBPS})
    params = {
        _value(axis, n): {name: value} for axis, (name, values, _) in AXES.items() for n, value in enumerate(values)
    }
    for value, changed in params.items():
        for cca in DETECTORS:
            flow = FlowSpec(cca=cca, params={} if value == "default" else changed)
            for place in settings.limited:
                yield case_of(Cell("sensitivity", place, cca, value), RUNS, partial(behind, settings, place, flow))
            for place, unlimited in settings.unlimited.items():
                scenario = partial(over_trace, settings, place, links.recordings[place], flow, runs=RUNS)
                if not unlimited.moving:
                    yield case_of(Cell("sensitivity", place, cca, value), RUNS, scenario)


def _errors(results: RtcpResults, axis: str, number: int) -> tuple[Values, Values]:
    """The means of the missed limits and of the false classifications, for each run number."""
    cells = [Cell(*key) for key in results.cases if key[0] == "sensitivity" and key[3] == _value(axis, number)]
    missed = [1 - results.get(cell, "limited") for cell in cells if cell.place in results.settings.limited]
    false = [results.get(cell, "limited") for cell in cells if cell.place not in results.settings.limited]
    return np.mean(missed, axis=0), np.mean(false, axis=0)


def _moved(results: RtcpResults, axis: str, number: int) -> tuple[Values, Values, Values]:
    """By how much the total error, missed limits and false classifications exceed those with the defaults."""
    missed, false = (
        one - other
        for one, other in zip(_errors(results, axis, number), _errors(results, axis, AXES[axis][2]), strict=True)
    )
    return missed + false, missed, false


def insensitive(*axes: str) -> Callable[[RtcpResults], list[Figure]]:
    """The value of each parameter with which the total error moves farthest."""

    def figures(results: RtcpResults) -> list[Figure]:
        out = []
        for axis in axes:
            moved = {n: _moved(results, axis, n)[0] for n in range(len(AXES[axis][1])) if n != AXES[axis][2]}
            worst = max(moved, key=lambda n: abs(float(moved[n].mean())))
            out.append(within(_value(axis, worst), moved[worst], least=-SAME, most=SAME))
        return out

    return figures


def more(axis: str, number: int, kind: int) -> Callable[[RtcpResults], list[Figure]]:
    """An increase that exceeds its interval. kind: 0 the total error, 1 missed limits, 2 false classifications."""

    def figures(results: RtcpResults) -> list[Figure]:
        figure = within(_value(axis, number), _moved(results, axis, number)[kind])
        return [replace(figure, agrees=figure.mean > figure.interval)]

    return figures


def balanced(results: RtcpResults) -> list[Figure]:
    return [within(_value("theta", n), _moved(results, "theta", n)[0], least=0.0) for n in (0, 1, 3)]


SENSITIVITY: tuple[Statement[RtcpResults], ...] = (
    Statement("I-1", "The total error is insensitive to alpha, omega and epsilon; the farthest value of each",
              "within 1 % of the default's", insensitive("alpha", "omega", "epsilon")),
    Statement("I-2", "A small beta, 0.1, hardly increases it", "<= 1 %",
              lambda results: [within(_value("beta", 0), _moved(results, "beta", 0)[0], most=SAME)]),
    Statement("I-3", "A large beta, 0.4, does, because it misses limits", "> 0, beyond the interval",
              more("beta", 3, 1)),
    Statement("I-4", "A small theta, 0.2, increases false classifications", "> 0, beyond the interval",
              more("theta", 0, 2)),
    Statement("I-5", "A large theta, 0.8, increases missed limits", "> 0, beyond the interval", more("theta", 3, 1)),
    Statement("I-6", "The default theta, 0.6, is a good balance: other values have no smaller total error", ">= 0",
              balanced),
)  # fmt: skip


def sensitivity_table(results: RtcpResults) -> list[str]:
    """For each value of each parameter, missed limits and false classifications in percent."""
    rows = [
        (axis, f"{value / (1000 if axis in {'beta', 'theta'} else 1):g}", *(f"{100 * e.mean():.1f}" for e in both))
        for axis, (_, values, _) in AXES.items() for n, value in enumerate(values)
        for both in [_errors(results, axis, n)]
    ]  # fmt: skip
    return markdown_table(("parameter", "value", "missed", "false"), rows)
