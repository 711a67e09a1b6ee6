# SPDX-License-Identifier: MIT
"""Where a roll-out stands, from its row: its plan, its clock, and the servers that have the candidate."""

from __future__ import annotations

from datetime import datetime

from serving.database import RolloutRow
from serving.rollouts.assignment import arm_of_block, n_candidates
from serving.rollouts.decision import Clock
from serving.rollouts.plan import Plan
from serving.rollouts.statistics import Arm


def plan_of(row: RolloutRow) -> Plan:
    """Return the roll-out's plan."""
    return Plan.model_validate_json(row.plan)


def arm_of(row: RolloutRow) -> Arm | None:
    """Return the table of all servers by switchback: that of the block, or of a pause or the end. None by servers."""
    if row.block is None:
        return None
    ended: dict[str, Arm] = {"paused": "baseline", "aborted": "baseline", "promoted": "candidate"}
    return ended.get(row.state) or arm_of_block(str(row.id), row.block)


def n_treated(row: RolloutRow) -> int:
    """Return how many of the roll-out's servers have the candidate in its step, by switchback all or none of them."""
    arm = arm_of(row)
    if arm is not None:
        return row.n_servers if arm == "candidate" else 0
    plan = plan_of(row)
    return n_candidates(plan.steps[row.step].share, n_servers=row.n_servers, least_servers=plan.least_servers)


def clock_of(row: RolloutRow, *, now: datetime) -> Clock:
    """Return where the roll-out stands in time."""
    return Clock(
        now_s=now.timestamp(),
        step=row.step,
        step_began_s=row.step_began_at.timestamp(),
        limit_from_s=row.limit_from_at.timestamp(),
        n_looks=row.n_looks,
        last_look_s=None if row.last_look_at is None else row.last_look_at.timestamp(),
        is_paused=row.state == "paused",
    )
