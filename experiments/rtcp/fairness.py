# SPDX-License-Identifier: MIT
"""Appendix P: two files to one client share a limiter. R-TCP-BBRv1 meets BBRv1, with two BBRv1 for comparison.

    first flow    |----- alone -----|--- both send ---|
    second flow                     |--- both send ---|----- after -----|

A cell's cca is the first flow's algorithm, and its value is the second flow's. Its runs have these figures, too. Rates
are measured after the limiter, in wire bytes; only the pacing rate is the sender's, in payload bytes. None: the phase
or event did not happen.

    alone_mbps, pacing_mbps   of the first flow in the last seconds in which it is alone
    first_mbps, second_mbps   while both send
    after_mbps                of the second flow after the end of the first
    found_s                   from the start of the flow with R-TCP to its classification as limited
    both_s                    how long both send

The share of the second flow is its part of the rate of both flows, while both send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import WIRE, Cca, FlowSpec, Scenario
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, quotients, share, within
from experiments.rtcp.cells import Cell, RtcpResults, case_of, link_at
from experiments.rtcp.settings import RtcpSettings

# Pairs of a first flow and the flow that joins it.
MEETINGS: tuple[tuple[Cca, Cca], ...] = (("bbr", "rtcp_bbr"), ("rtcp_bbr", "bbr"), ("bbr", "bbr"))
EVERY_S = 0.1
SETTLED_S = 5.0  # the last seconds in which the first flow is alone
GIVEN_UP_S = 0.5  # after the first flow's end, for packets that were in flight
SAME_SHARE = 0.1  # largest difference of two shares; the paper: "the same inherent fairness behavior"
MOST_AWARE = 0.5  # largest share of the runs; the paper shows one run
MOST_PACED = 1.05  # largest multiple of R; probes exceed the cap
LEAST_RATE = 0.95  # smallest multiple of R, once the other flow has ended
MOST_KEPT = 0.75  # largest share of the first flow's rate alone, once the other has joined; an equal share is 0.5


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each pair of flows."""
    for first, second in MEETINGS:
        yield case_of(
            Cell("fairness", settings.fairness.limited, first, second), settings.seeds,
            partial(two_files, settings, first, second), together=True, every_s=EVERY_S, more=partial(shared, settings),
        )  # fmt: skip


def two_files(settings: RtcpSettings, first: Cca, second: Cca, seed: int) -> Scenario:
    """The second flow starts during the first flow's file."""
    fairness = settings.fairness
    place = settings.limited[fairness.limited]
    flows = (
        FlowSpec(cca=first, size_bytes=fairness.size_bytes),
        FlowSpec(cca=second, size_bytes=fairness.size_bytes, start_s=fairness.joins_s),
    )
    most_s = 8 * fairness.size_bytes * 8e-6 / place.rate_mbps + fairness.joins_s + 30
    return Scenario(link=link_at(settings, place), flows=flows, duration_s=most_s, seed=seed)


def shared(settings: RtcpSettings, scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    """The figures of a run with a sample every EVERY_S."""
    joins_s = settings.fairness.joins_s
    ends_s = [scenario.duration_s if flow.complete_s is None else flow.complete_s for flow in qos.flows]
    both_until_s = max(min(ends_s), joins_s)
    after_s = both_until_s + GIVEN_UP_S
    flows = zip(scenario.flows, qos.flows, strict=True)
    found_s = [limit.at_ms / 1000 - spec.start_s for spec, f in flows for limit in f.limits if limit.kind == "limited"]
    return {
        "alone_mbps": _mean_mbps(qos, 0, joins_s - SETTLED_S, joins_s),
        "pacing_mbps": _mean_mbps(qos, 0, joins_s - SETTLED_S, joins_s, column="pacing_mbps"),
        "first_mbps": _mean_mbps(qos, 0, joins_s, both_until_s),
        "second_mbps": _mean_mbps(qos, 1, joins_s, both_until_s),
        "after_mbps": _mean_mbps(qos, 1, after_s, ends_s[1] - GIVEN_UP_S),
        "found_s": min(found_s, default=None),
        "both_s": both_until_s - joins_s,
    }


def _mean_mbps(qos: QoS, flow: int, from_s: float, to_s: float, *, column: str = "rate_mbps") -> float | None:
    series = qos.series
    chosen = (series["flow"] == flow) & (series["time_s"] > from_s) & (series["time_s"] <= to_s)
    return float(np.mean(series[column][chosen])) if chosen.any() else None


def meeting(results: RtcpResults, first: Cca, second: Cca, column: str) -> Values:
    """A column of the runs in which `second` joins `first`."""
    return results.get(Cell("fairness", results.settings.fairness.limited, first, second), column)


def second_share(results: RtcpResults, first: Cca, second: Cca) -> Values:
    """The second flow's part of the rate of both, while both send, one for each seed."""
    own, other = (meeting(results, first, second, column) for column in ("second_mbps", "first_mbps"))
    return quotients(own, own + other)


def joins_unaware(results: RtcpResults) -> list[Figure]:
    """The share of runs in which the joining R-TCP flow finds the limit while both send."""
    found_s, both_s = (meeting(results, "bbr", "rtcp_bbr", column) for column in ("found_s", "both_s"))
    return [share("R-TCP-BBRv1 found it", int((found_s < both_s).sum()), len(found_s), most=MOST_AWARE)]


def found_alone(results: RtcpResults) -> list[Figure]:
    """The share of runs in which the first R-TCP flow has found the limit when the other joins."""
    found_s = meeting(results, "rtcp_bbr", "bbr", "found_s")
    found = int((found_s < results.settings.fairness.joins_s).sum())
    return [share("found", found, len(found_s), least=1.0), within("after", found_s, unit="s")]


def paced(results: RtcpResults) -> list[Figure]:
    """The first flow's pacing rate before the other joins, in wire bytes, over R."""
    rate_mbps = results.settings.limited[results.settings.fairness.limited].rate_mbps
    over = [WIRE * meeting(results, first, "bbr", "pacing_mbps") / rate_mbps for first in ("rtcp_bbr", "bbr")]
    return [within("R-TCP-BBRv1", over[0], least=LEAST_RATE, most=MOST_PACED), within("BBRv1 in its place", over[1])]


def alike(first: Cca, second: Cca) -> Callable[[RtcpResults], list[Figure]]:
    """The second flow's share, compared seed by seed with its share if both were BBRv1."""

    def figures(results: RtcpResults) -> list[Figure]:
        with_it, without = second_share(results, first, second), second_share(results, "bbr", "bbr")
        apart = with_it - without
        return [within("apart", apart, least=-SAME_SHARE, most=SAME_SHARE),
                within("share of the second", with_it), within("of two BBRv1", without)]  # fmt: skip

    return figures


def regains(results: RtcpResults) -> list[Figure]:
    """The joining R-TCP flow's rate after the end of the other flow, over R."""
    rate_mbps = results.settings.limited[results.settings.fairness.limited].rate_mbps
    return [within("R-TCP-BBRv1", meeting(results, "bbr", "rtcp_bbr", "after_mbps") / rate_mbps, least=LEAST_RATE)]


def releases(results: RtcpResults) -> list[Figure]:
    """The first flow's rate once the other has joined, over its rate alone."""
    kept = [quotients(*(meeting(results, first, "bbr", column) for column in ("first_mbps", "alone_mbps")))
            for first in ("rtcp_bbr", "bbr")]  # fmt: skip
    return [within("R-TCP-BBRv1", kept[0], most=MOST_KEPT), within("BBRv1 in its place", kept[1])]


FAIRNESS: tuple[Statement[RtcpResults], ...] = (
    Statement("P-1", "R-TCP-BBRv1 that joins a BBRv1 does not find the limit while both send",
              "in most runs; the paper shows one", joins_unaware),
    Statement("P-2", "and shares it as BBRv1 would in its place", "a share -10 to 10 % of the limit apart",
              alike("bbr", "rtcp_bbr")),
    Statement("P-3", "After the other's end it rises to R", ">= 95 % of R", regains),
    Statement("P-4", "R-TCP-BBRv1 that came first finds the limit before a BBRv1 joins", "all runs",
              found_alone),
    Statement("P-5", "and paces at it", "95 to 105 % of R", paced),
    Statement("P-6", "Once the other has joined, it gives way", "<= 75 % of what it had", releases),
    Statement("P-7", "and shares as BBRv1 would in its place", "a share -10 to 10 % of the limit apart",
              alike("rtcp_bbr", "bbr")),
)  # fmt: skip
