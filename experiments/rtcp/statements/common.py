# SPDX-License-Identifier: MIT
"""Names of the algorithms, and figures that statements on several subjects use.

The error of an estimate is |estimate - truth| / truth, over the runs that end as limited (equations 37 and 38).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulation.scenario.model import Cca
from experiments.figures import UNVALIDATED, Figure, Statement, share, within
from experiments.rtcp.campaign import PAIRS, Kind, Part, Results, Values

__all__ = ["BASES", "LEAST_GOODPUT", "MOST_ERROR", "NAMES", "NONE", "ByKind", "errors", "hits", "rate_errors"]

# Statements by the kind of part that they need.
ByKind = Mapping[Kind, tuple[Statement[Results], ...]]
NAMES: dict[Cca, str] = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": f"BBRv3{UNVALIDATED}", "rtcp_cubic": "R-TCP-CUBIC",
                         "rtcp_bbr": "R-TCP-BBRv1", "rtcp_bbr3": f"R-TCP-BBRv3{UNVALIDATED}"}  # fmt: skip
BASES: dict[Cca, Cca] = {capped: plain for plain, capped in PAIRS.items()}
NONE = 0.0005
LEAST_GOODPUT = 0.95
MOST_ERROR = 0.05  # largest error of R, on the map and with several objects or connections


def hits(results: Results, part: Part, column: str) -> tuple[int, int]:
    """The number of a part's runs in which a column is 1, and the number of all its runs."""
    values = results.column(part, column)
    return int(values.sum()), len(values)


def errors(results: Results, part: Part, *, truth: tuple[float, float]) -> tuple[Values, Values]:
    """The errors of B and of R, over the runs that end as limited; truth: B in bytes, R in Mbit/s."""
    found = results.column(part, "limited") == 1
    bucket = results.column(part, "bucket_bytes")[found]
    mbps = results.column(part, "rate_mbps")[found]
    return np.abs(bucket / truth[0] - 1), np.abs(mbps / truth[1] - 1)


def rate_errors(of_r: Values) -> list[Figure]:
    """The mean error of R, which must be at most 5 %.

    If some runs exceed 5 %, a second figure gives their share.
    """
    above = int((of_r > MOST_ERROR).sum())
    mean = within("mean error of R", of_r, most=MOST_ERROR)
    return [mean, share("> 5 % in", above, len(of_r))] if above else [mean]
