# SPDX-License-Identifier: MIT
"""API schemas of retraining."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Literal

from pydantic import Field

from serving.database import RetrainingPolicyRow, RetrainingRow
from serving.jobs.schemas import MAX_DATASETS, Comparison
from serving.names import CcaName, ChannelName, DatasetName, DigestText, Note, StudyName
from serving.retraining import ACTOR
from serving.rollouts.plan import Plan
from serving.rollouts.shadow import Shadow
from serving.schemas import Schema, StrictSchema

RetrainingState = Literal[
    "proposed", "training", "trained", "rolling-out",
    "promoted", "aborted", "failed", "unchanged", "dismissed", "superseded",
]  # fmt: skip

_REST_HOURS = 168.0
_MOST_REST_HOURS = 24.0 * 366


class RetrainingPolicy(StrictSchema):
    """How a channel is trained anew when its flows drift."""

    study: StudyName
    datasets: list[DatasetName] = Field(
        default=[], max_length=MAX_DATASETS, description="Names of the datasets to train on."
    )
    compare: Comparison = Field(description="The channel's recordings and path model, for the comparison.")
    plan: Plan = Field(default=Plan(), description="The plan of the roll-out.")
    hold_back_permille: int = Field(
        default=0, ge=0, le=1000, strict=True, description="Share of flows that do not use the ensemble, in permille."
    )
    automatic: bool = Field(
        default=False, strict=True, description="Whether the registry takes each step by itself. It never forces one."
    )
    rest_hours: float = Field(
        default=_REST_HOURS,
        ge=0,
        le=_MOST_REST_HOURS,
        allow_inf_nan=False,
        description="Time after the end of a retraining in which no other one is proposed.",
    )


class PolicyRead(RetrainingPolicy):
    """The policy of a channel."""

    cca: CcaName
    channel: ChannelName
    set_by: str = Field(description="The principal who set it.", examples=["alice"])
    set_at: datetime = Field(description="When it was set (UTC).")

    @classmethod
    def of(cls, row: RetrainingPolicyRow) -> PolicyRead:
        """Build it from the row. The row's channel must be loaded."""
        own = dict(policy_of(row))
        return cls(cca=row.channel.cca, channel=row.channel.name, set_by=row.set_by, set_at=row.set_at, **own)


def policy_of(row: RetrainingPolicyRow) -> RetrainingPolicy:
    """Return the policy of a row."""
    return RetrainingPolicy.model_validate_json(row.policy)


class RetrainingRequest(StrictSchema):
    """Why someone starts, approves or dismisses a retraining."""

    note: Note = ""


class RolloutApproval(RetrainingRequest):
    """Why someone approves the roll-out of a trained ensemble."""

    force: Note = Field(default="", description="Why the roll-out begins although there are objections.")


class RetrainingRead(Schema):
    """A retraining of a channel."""

    id: int = Field(description="Its number.")
    cca: CcaName
    channel: ChannelName
    state: RetrainingState = Field(description="Where it stands, or how it ended.")
    reasons: list[str] = Field(description="Why it began, in sentences.")
    baseline: DigestText = Field(description="The channel's ensemble when it began.")
    job_id: int | None = Field(description="The job that trains, or trained; null before.", examples=[None])
    candidate: DigestText | None = Field(description="The trained ensemble; null before.", examples=[None])
    shadow: Shadow | None = Field(description="Both in the simulator; null before or without one.", examples=[None])
    objections: list[str] = Field(description="Why the roll-out needs a person and a reason, in sentences.")
    rollout_id: int | None = Field(description="The roll-out of the candidate; null before.", examples=[None])
    obstacle: str | None = Field(
        description="Why an automatic policy could not take the next step yet; it is tried again.", examples=[None]
    )
    outcome: str | None = Field(description="Why it ended so; null before its end.", examples=[None])
    note: str = Field(description="What a person said last.", examples=[""])
    started_by: str = Field(description="Who began it; `retraining` is the registry itself.", examples=[ACTOR])
    started_at: datetime = Field(description="When it began (UTC).")
    changed_at: datetime = Field(description="When its state changed last (UTC).")
    ended_at: datetime | None = Field(description="When it ended (UTC); null before.")

    @classmethod
    def of(cls, row: RetrainingRow) -> RetrainingRead:
        """Build it from the row. The row's channel must be loaded."""
        own = ("id", "state", "baseline", "job_id", "candidate", "rollout_id", "obstacle", "outcome", "note",
               "started_by", "started_at", "changed_at", "ended_at")  # fmt: skip
        return cls(
            cca=row.channel.cca, channel=row.channel.name, reasons=json.loads(row.reasons),
            objections=json.loads(row.objections), shadow=shadow_of(row), **{name: getattr(row, name) for name in own},
        )  # fmt: skip


def shadow_of(row: RetrainingRow) -> Shadow | None:
    """Return the comparison of a retraining, or None."""
    return None if row.shadow is None else Shadow.model_validate_json(row.shadow)
