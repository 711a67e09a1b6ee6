# SPDX-License-Identifier: MIT
"""Statements of Appendix P: R-TCP-BBRv1 and BBRv1 share one limiter, with two BBRv1 for comparison.

The share of the second flow is its part of the rate of both flows, while both send.
"""

from __future__ import annotations

from collections.abc import Callable

from emulation.scenario.model import WIRE, Cca
from experiments.figures import Figure, Statement, quotients, share, within
from experiments.rtcp.campaign import Part, Results, Values
from experiments.rtcp.statements.common import ByKind

__all__ = ["STATEMENTS"]

SAME_SHARE = 0.1  # largest difference of two shares; the paper: "the same inherent fairness behavior"
MOST_AWARE = 0.5  # largest share of the runs; the paper shows one run
MOST_PACED = 1.05  # largest multiple of R; probes exceed the cap
LEAST_RATE = 0.95  # smallest multiple of R, once the other flow has ended
MOST_KEPT = 0.75  # largest share of the first flow's rate alone, once the other has joined; an equal share is 0.5


def meeting(results: Results, first: Cca, second: Cca, column: str) -> Values:
    """A column of the runs in which `second` joins `first`."""
    return results.column(Part("fairness", results.settings.fairness.limited, first, second), column)


def second_share(results: Results, first: Cca, second: Cca) -> Values:
    """The second flow's part of the rate of both, while both send, one for each seed."""
    own, other = (meeting(results, first, second, column) for column in ("second_mbps", "first_mbps"))
    return quotients(own, own + other)


def joins_unaware(results: Results) -> list[Figure]:
    """The share of runs in which the joining R-TCP flow finds the limit while both send."""
    found_s, both_s = (meeting(results, "bbr", "rtcp_bbr", column) for column in ("found_s", "both_s"))
    return [share("R-TCP-BBRv1 found it", int((found_s < both_s).sum()), len(found_s), most=MOST_AWARE)]


def found_alone(results: Results) -> list[Figure]:
    """The share of runs in which the first R-TCP flow has found the limit when the other joins."""
    found_s = meeting(results, "rtcp_bbr", "bbr", "found_s")
    found = int((found_s < results.settings.fairness.joins_s).sum())
    return [share("found", found, len(found_s), least=1.0), within("after", found_s, unit="s")]


def paced(results: Results) -> list[Figure]:
    """The first flow's pacing rate before the other joins, in wire bytes, over R."""
    rate_mbps = results.settings.limited[results.settings.fairness.limited].rate_mbps
    over = [WIRE * meeting(results, first, "bbr", "pacing_mbps") / rate_mbps for first in ("rtcp_bbr", "bbr")]
    return [within("R-TCP-BBRv1", over[0], least=LEAST_RATE, most=MOST_PACED), within("BBRv1 in its place", over[1])]


def alike(first: Cca, second: Cca) -> Callable[[Results], list[Figure]]:
    """The second flow's share, compared seed by seed with its share if both were BBRv1."""

    def figures(results: Results) -> list[Figure]:
        with_it, without = second_share(results, first, second), second_share(results, "bbr", "bbr")
        apart = with_it - without
        return [within("apart", apart, least=-SAME_SHARE, most=SAME_SHARE),
                within("share of the second", with_it), within("of two BBRv1", without)]  # fmt: skip

    return figures


def regains(results: Results) -> list[Figure]:
    """The joining R-TCP flow's rate after the end of the other flow, over R."""
    rate_mbps = results.settings.limited[results.settings.fairness.limited].rate_mbps
    return [within("R-TCP-BBRv1", meeting(results, "bbr", "rtcp_bbr", "after_mbps") / rate_mbps, least=LEAST_RATE)]


def releases(results: Results) -> list[Figure]:
    """The first flow's rate once the other has joined, over its rate alone."""
    kept = [quotients(*(meeting(results, first, "bbr", column) for column in ("first_mbps", "alone_mbps")))
            for first in ("rtcp_bbr", "bbr")]  # fmt: skip
    return [within("R-TCP-BBRv1", kept[0], most=MOST_KEPT), within("BBRv1 in its place", kept[1])]


STATEMENTS: ByKind = {
    "fairness": (
        Statement("P-1", "R-TCP-BBRv1 that joins a BBRv1 does not find the limit while both send",
                  "in most runs; the paper shows one", joins_unaware),
        Statement("P-2", "and shares it as BBRv1 would in its place", "a share -10 to 10 % of the limit apart",
                  alike("bbr", "rtcp_bbr")),
        Statement("P-3", "Behind the other's end it goes up to R", ">= 95 % of R", regains),
        Statement("P-4", "R-TCP-BBRv1 that came first finds the limit before a BBRv1 joins", "all runs",
                  found_alone),
        Statement("P-5", "and paces at it", "95 to 105 % of R", paced),
        Statement("P-6", "Once the other has joined, it gives way", "<= 75 % of what it had", releases),
        Statement("P-7", "and shares as BBRv1 would in its place", "a share -10 to 10 % of the limit apart",
                  alike("rtcp_bbr", "bbr")),
    ),
}  # fmt: skip
