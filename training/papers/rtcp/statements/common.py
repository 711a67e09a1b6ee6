# SPDX-License-Identifier: MIT
"""What algorithms are called, and figures that several subjects are judged by.

error    |estimate - truth| / truth, of the runs that were found limited (equations 37 and 38)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulation.scenario import Cca
from training.papers.figures import UNVALIDATED, Figure, Statement, share, within
from training.papers.rtcp.campaign import PAIRS, Kind, Part, Results, Values

__all__ = ["BASES", "LEAST_GOODPUT", "MOST_ERROR", "NAMES", "NONE", "ByKind", "errors", "hits", "rate_errors"]

# By what has to be run for them.
ByKind = Mapping[Kind, tuple[Statement[Results], ...]]
NAMES: dict[Cca, str] = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": f"BBRv3{UNVALIDATED}", "rtcp_cubic": "R-TCP-CUBIC",
                         "rtcp_bbr": "R-TCP-BBRv1", "rtcp_bbr3": f"R-TCP-BBRv3{UNVALIDATED}"}  # fmt: skip
BASES: dict[Cca, Cca] = {capped: plain for plain, capped in PAIRS.items()}
NONE = 0.0005
LEAST_GOODPUT = 0.95
MOST_ERROR = 0.05  # of R, on the map and with several objects or connections


def hits(results: Results, part: Part, column: str) -> tuple[int, int]:
    """In how many of its runs a column is 1."""
    values = results.column(part, column)
    return int(values.sum()), len(values)


def errors(results: Results, part: Part, *, truth: tuple[float, float]) -> tuple[Values, Values]:
    """Of B and of R, of the runs that were found limited."""
    found = results.column(part, "limited") == 1
    bucket = results.column(part, "bucket_bytes")[found]
    mbps = results.column(part, "rate_mbps")[found]
    return np.abs(bucket / truth[0] - 1), np.abs(mbps / truth[1] - 1)


def rate_errors(of_r: Values) -> list[Figure]:
    """The mean error of R, of which at most 5 % is asked, and beside it in how many runs it is more, where any."""
    above = int((of_r > MOST_ERROR).sum())
    mean = within("mean error of R", of_r, most=MOST_ERROR)
    return [mean, share("> 5 % in", above, len(of_r))] if above else [mean]
