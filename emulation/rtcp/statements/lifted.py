# SPDX-License-Identifier: MIT
"""Appendix H: a limit that is lifted while data flow."""

from __future__ import annotations

import numpy as np

from emulation.figures import Figure, Statement, quotients, within
from emulation.rtcp.campaign import Part, Results, Values
from emulation.rtcp.clients import FOR_S
from emulation.rtcp.statements.common import BASES, NAMES, ByKind
from emulation.scenario import Cca

__all__ = ["STATEMENTS"]

LEAST_SPEED = 0.8  # of the unmodified version's, behind a lift; "overlap" in Appendix H
MOST_REGAINED_S = 3.0


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


STATEMENTS: ByKind = {
    "lifted": (
        Statement("H-1", "From 3 s behind a limit's end on, its speed is that of the unmodified version",
                  ">= 80 % of it", lifted_speed),
        Statement("H-2", "Half of the new limit is reached within 3 s", "<= 3 s; never counts as 10 s; half is ours",
                  lifted_in_time),
    ),
}  # fmt: skip
