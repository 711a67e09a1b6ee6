# SPDX-License-Identifier: MIT
"""Two files to one client behind its limiter, one of which joins the other (R-TCP 2026, Appendix P).

    first flow    |----- alone -----|--- both send ---|
    second flow                     |--- both send ---|----- after -----|

Rates are those behind the limiter, in wire bytes, but for pacing. A part's cca is the first flow's algorithm, its value
the second's.
"""

from __future__ import annotations

import numpy as np

from emulation.qos import QoS
from emulation.scenario import Cca, FlowSpec, LinkSpec, Scenario
from training.papers.rtcp.settings import RtcpSettings

__all__ = ["SHARING_COLUMNS", "shared", "sharing"]

SHARING_COLUMNS = ("alone_mbps", "pacing_mbps", "first_mbps", "second_mbps", "after_mbps", "found_s", "both_s")
EVERY_S = 0.1
SETTLED_S = 5.0  # of the first flow's time alone: the last of it
GIVEN_UP_S = 0.5  # behind the first flow's end: what was on its way


def sharing(settings: RtcpSettings, link: LinkSpec, cca: Cca, value: str, *, seed: int) -> Scenario:
    """The second flow, of the algorithm `value`, begins while the first one's file is under way."""
    fairness = settings.fairness
    first = FlowSpec(cca=cca, size_bytes=fairness.size_bytes)
    second = FlowSpec(cca=value, size_bytes=fairness.size_bytes, start_s=fairness.joins_s)
    most_s = 8 * fairness.size_bytes * 8e-6 / settings.limited[fairness.limited].rate_mbps + fairness.joins_s + 30
    return Scenario(link=link, flows=(first, second), duration_s=most_s, seed=seed)


def shared(settings: RtcpSettings, scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    """SHARING_COLUMNS of a run with a series of EVERY_S; None: there was no such time.

    alone_mbps, pacing_mbps (in payload bytes): of the first flow alone; first_mbps, second_mbps: while both send;
    after_mbps: of the second behind the first one's end; found_s: from the start of the flow with R-TCP to its
    classification; both_s: for how long both send.
    """
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
