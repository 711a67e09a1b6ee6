# SPDX-License-Identifier: MIT
"""The shadow gate: baseline and candidate in the simulator, before servers get the candidate.

The registry has no simulator. Whoever starts the roll-out runs `ccatune evaluate CANDIDATE --baseline BASELINE` and
hands in its figures. The registry checks that they are of these two ensembles, and applies the margins of the plan
itself. It cannot check that the figures are true: who may start a roll-out may also override the gate. The audit log
keeps both.

A candidate is worse if it is worse than the baseline by more than the plan's margin, and the interval excludes that
both are equal. The same holds on live figures (decision.py).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from serving.names import DatasetName, DigestText
from serving.rollouts.plan import Plan
from serving.schemas import Schema

_Change = Annotated[float, Field(allow_inf_nan=False)]


class ShadowChange(Schema):
    """How much more the candidate has than the baseline."""

    change: _Change = Field(description="Candidate less baseline; for goodput as a share of the baseline's.")
    interval: tuple[_Change, _Change] = Field(description="Its 95 % interval.", examples=[[-0.01, 0.02]])


class ShadowTarget(Schema):
    """The comparison for one delay class."""

    target_ms: float = Field(gt=0, allow_inf_nan=False, description="Target of the class.", examples=[100.0])
    within_target: ShadowChange = Field(description="Share of the packets within the target.")
    goodput: ShadowChange = Field(description="Delivered bytes.")


class Shadow(Schema):
    """What `ccatune evaluate --baseline --json` prints. Unknown fields are ignored."""

    baseline_digest: DigestText
    candidate_digest: DigestText
    recordings: int = Field(ge=1, description="Recordings of links that both ran over.")
    hours: float = Field(gt=0, allow_inf_nan=False, description="Length of these recordings.", examples=[2.5])
    datasets: list[DatasetName] = Field(max_length=256, description="Names of their datasets.")
    path: dict[str, Any] = Field(max_length=32, description="The path around the links.", examples=[{"rtt_ms": 100.0}])
    targets: list[ShadowTarget] = Field(min_length=1, max_length=8, description="One for each delay class.")


def objections(shadow: Shadow | None, *, baseline: str, candidate: str, plan: Plan) -> list[str]:
    """Return why the gate is closed, in sentences; none if it is open. baseline, candidate: digests."""
    if shadow is None:
        return ["Baseline and candidate were not compared in the simulator."]
    for name, expected, got in (
        ("baseline", baseline, shadow.baseline_digest),
        ("candidate", candidate, shadow.candidate_digest),
    ):
        if got != expected:
            return [f"The comparison in the simulator has {got} as its {name}, and the roll-out has {expected}."]
    found = []
    for limit in plan.limits:
        if limit.metric not in {"within_target", "goodput"}:
            continue
        for row in shadow.targets:
            by: ShadowChange = getattr(row, limit.metric)
            if by.change < -limit.margin and by.interval[1] < 0:
                found.append(
                    f"In the simulator {limit.metric} of the target {row.target_ms:g} ms is worse by "
                    f"{-100 * by.change:.1f} % [{-100 * by.interval[1]:.1f}, {-100 * by.interval[0]:.1f}], "
                    f"the margin is {100 * limit.margin:g} %."
                )
    return found
