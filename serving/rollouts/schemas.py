# SPDX-License-Identifier: MIT
"""API schemas of roll-outs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from serving.channels.schemas import ChannelMove
from serving.database import RolloutEventRow, RolloutRow
from serving.names import CcaName, ChannelName, DigestText, Note
from serving.rollouts.plan import Plan
from serving.rollouts.shadow import Shadow
from serving.rollouts.standing import arm_of, n_treated, plan_of
from serving.rollouts.statistics import Arm
from serving.schemas import Schema, StrictSchema

RolloutAction = Literal["pause", "resume", "abort", "promote"]
RolloutState = Literal["running", "paused", "aborted", "promoted"]


class RolloutStart(ChannelMove):
    """A request to move a channel to an ensemble in steps."""

    plan: Plan = Field(default=Plan(), description="The steps, what is compared, and how much worse it may be.")
    shadow: Shadow | None = Field(default=None, description="Baseline and candidate in the simulator.", examples=[None])
    force: Note = Field(default="", description="Why the roll-out begins although the simulator speaks against it.")


class RolloutRequest(StrictSchema):
    """Why someone pauses, resumes, aborts or promotes a roll-out."""

    note: Note = ""


class RolloutRead(Schema):
    """A roll-out."""

    id: int = Field(description="Its number.")
    cca: CcaName
    channel: ChannelName
    state: RolloutState = Field(description="Whether it goes on, waits for someone, or how it ended.")
    digest: DigestText = Field(description="The candidate.")
    baseline_serial: int = Field(description="The deployment of the servers with the baseline.")
    candidate_serial: int = Field(
        description="The deployment of the servers with the candidate; by switchback each block has its own."
    )
    step: int = Field(description="The current step, or the last one; counted from 1.")
    n_steps: int = Field(description="Steps before the promotion.")
    n_servers: int = Field(description="Servers of the roll-out.")
    n_candidates: int = Field(description="Those that have the candidate in this step; by switchback all or none.")
    block: int | None = Field(
        description="By switchback, the last block that has begun; counted from 1. Null by servers.", examples=[None]
    )
    arm: Arm | None = Field(description="By switchback, the table of all servers; null by servers.", examples=[None])
    n_looks: int = Field(description="How often it was judged.")
    step_began_at: datetime = Field(description="When the step began (UTC).")
    started_at: datetime = Field(description="When the roll-out began (UTC).")
    ended_at: datetime | None = Field(description="When it ended (UTC); null before.")
    note: str = Field(description="What the starter said.")
    plan: Plan = Field(description="Its steps and limits.")

    @classmethod
    def of(cls, row: RolloutRow) -> RolloutRead:
        """Build it from the row. The row's channel must be loaded."""
        plan = plan_of(row)
        own = ("id", "state", "digest", "baseline_serial", "candidate_serial", "n_servers", "n_looks",
               "step_began_at", "started_at", "ended_at", "note")  # fmt: skip
        return cls(
            cca=row.channel.cca, channel=row.channel.name, step=row.step + 1, n_steps=len(plan.steps),
            n_candidates=n_treated(row), block=None if row.block is None else row.block + 1, arm=arm_of(row), plan=plan,
            **{name: getattr(row, name) for name in own},
        )  # fmt: skip


class RehearsedStep(Schema):
    """How a step would end for a candidate without effect, judged on past figures."""

    step: int = Field(description="Counted from 1.")
    share: float = Field(description="Share of the servers with the candidate.")
    n_candidates: int = Field(description="Servers with the candidate.")
    action: str = Field(description="advance, promote, pause or abort.")
    reasons: list[str] = Field(description="Why, in sentences.")
    evidence: dict[str, Any] = Field(description="The figures behind it.")


class RolloutEventRead(Schema):
    """An entry of a roll-out's record."""

    at: datetime = Field(description="When (UTC).")
    actor: str = Field(description="Who did it; `rollouts` is the registry itself.")
    action: str = Field(description="start, continue, advance, block, pause, resume, abort or promote.")
    reasons: list[str] = Field(description="Why, in sentences.")
    evidence: dict[str, Any] = Field(description="The figures behind a decision; empty for a request.")

    @classmethod
    def of(cls, row: RolloutEventRow) -> RolloutEventRead:
        """Build it from the row."""
        return cls(
            at=row.at, actor=row.actor, action=row.action, reasons=json.loads(row.reasons),
            evidence=json.loads(row.evidence),
        )  # fmt: skip
