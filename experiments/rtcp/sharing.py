# SPDX-License-Identifier: MIT
"""Two files to one client behind its limiter. The second one joins the first (R-TCP 2026, Appendix P).

    first flow    |----- alone -----|--- both send ---|
    second flow                     |--- both send ---|----- after -----|

Rates are measured after the limiter, in wire bytes; only the pacing rate is the sender's, in payload bytes. A part's
cca is the first flow's algorithm, and its value is the second flow's.
"""

from __future__ import annotations

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from experiments.rtcp.settings import RtcpSettings

__all__ = ["SHARING_COLUMNS", "shared", "sharing"]

SHARING_COLUMNS = ("alone_mbps", "pacing_mbps", "first_mbps", "second_mbps", "after_mbps", "found_s", "both_s")
EVERY_S = 0.1
SETTLED_S = 5.0  # the last seconds in which the first flow is alone
GIVEN_UP_S = 0.5  # after the first flow's end, for packets that were in flight


def sharing(settings: RtcpSettings, link: LinkSpec, cca: Cca, value: str, *, seed: int) -> Scenario:
    """The second flow uses the algorithm `value`, and starts during the first flow's file."""
    fairness = settings.fairness
    first = FlowSpec(cca=cca, size_bytes=fairness.size_bytes)
    second = FlowSpec(cca=value, size_bytes=fairness.size_bytes, start_s=fairness.joins_s)
    most_s = 8 * fairness.size_bytes * 8e-6 / settings.limited[fairness.limited].rate_mbps + fairness.joins_s + 30
    return Scenario(link=link, flows=(first, second), duration_s=most_s, seed=seed)


def shared(settings: RtcpSettings, scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    """SHARING_COLUMNS of a run with a sample every EVERY_S. None: the phase or event did not happen.

    alone_mbps, pacing_mbps (in payload bytes): of the first flow while it is alone. first_mbps, second_mbps: while both
    send. after_mbps: of the second flow after the end of the first. found_s: time from the start of the flow with R-TCP
    to its classification as limited. both_s: how long both send.
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
