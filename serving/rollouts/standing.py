# SPDX-License-Identifier: MIT
"""Where a roll-out stands, from its row: its plan, its clock, and the servers that have the candidate."""

from __future__ import annotations

from datetime import datetime

from serving.database import RolloutRow
from serving.rollouts.assignment import n_candidates
from serving.rollouts.decision import Clock
from serving.rollouts.plan import Plan


def plan_of(row: RolloutRow) -> Plan:
    """Return the roll-out's plan."""
    return Plan.model_validate_json(row.plan)


def n_treated(row: RolloutRow) -> int:
    """Return how many of the roll-out's servers have the candidate in its step."""
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
