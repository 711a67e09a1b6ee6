# SPDX-License-Identifier: MIT
"""/ui/: is the fleet well? What needs attention, the agents by standing, and the channels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.access.grants import Grant
from serving.agents import standing
from serving.channels import repository as channels
from serving.context import Context, InContext
from serving.dashboard.pages import PageRoute, page
from serving.dashboard.words import plural
from serving.database import ChannelRow, DeploymentRow, JobRow, RetrainingRow, RolloutRow, narrowed
from serving.drift.schemas import DriftSummary
from serving.drift.service import ChannelDrift
from serving.qos import repository as qos
from serving.qos.schemas import hour_of

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_MOST_CHANNELS = 200
_RECENT = timedelta(hours=24)
_MAX_HOUR = 2**31 - 1

Finding = tuple[str, str, str]


@dataclass(frozen=True)
class ChannelLine:
    """A channel as the first page shows it."""

    cca: str
    name: str
    serial: int
    digest: str
    deployed_at: datetime
    n_agents: int
    share_current: float | None
    within_target: float | None
    drift: str
    drift_reason: str
    rollout: RolloutRow | None


@router.get("/")
async def overview(request: Request, context: InContext, caller: Reader) -> Response:
    """Show the first page."""
    return page(
        request,
        "overview.html",
        title="Overview",
        topics="channels rollouts jobs agents audit",
        **await context.read(_shown, context, caller.grant),
    )


def _shown(session: Session, context: Context, grant: Grant) -> dict[str, Any]:
    now = context.clock()
    counted = standing.counts(session, now=now, within=grant)
    total = standing.total(counted)
    lines = channel_lines(session, context, grant, counted)
    jobs: dict[str, int] = dict(session.execute(narrowed(_jobs_by_state(), (JobRow.cca, grant.ccas))).all())
    findings = [
        *_of_agents(total),
        *_of_channels(lines),
        *_of_rollouts(session, grant, since=now - _RECENT),
        *_of_jobs(session, jobs, grant, since=now - _RECENT),
        *_of_retrainings(session, grant),
    ]
    findings.sort(key=lambda found: found[0] != "bad")
    parts = [(name, total[name], name) for name in reversed(standing.STANDINGS)]
    return {"findings": findings, "n_agents": total.total(), "parts": parts, "channels": lines, "jobs": jobs}


def channel_lines(
    session: Session, context: Context, grant: Grant, counted: dict[tuple[str, str], Counter[standing.Standing]]
) -> list[ChannelLine]:
    """Return the channels within the grant, each with its agents, its flows' figures and its drift."""
    now = context.clock()
    rows = channels.list_page(session, cca=None, after_id=None, limit=_MOST_CHANNELS, within=grant)
    drifts = context.part(ChannelDrift).summaries(session, rows, now=now)
    within = _within_target(session, grant, now=now)
    query = select(RolloutRow.channel_id, RolloutRow).where(RolloutRow.ended_at.is_(None))
    running = dict(session.execute(query).all())
    return [
        _line(row, drift, counted.get((row.channel.cca, row.channel.name), Counter()), within, running)
        for row, drift in zip(rows, drifts, strict=True)
    ]


def _line(
    row: DeploymentRow,
    drift: DriftSummary,
    agents: Counter[standing.Standing],
    within: dict[tuple[str, str], float],
    running: dict[int, RolloutRow],
) -> ChannelLine:
    n_agents = agents.total()
    return ChannelLine(
        cca=row.channel.cca, name=row.channel.name, serial=row.serial, digest=row.digest, deployed_at=row.deployed_at,
        n_agents=n_agents, share_current=agents["well"] / n_agents if n_agents else None,
        within_target=within.get((row.channel.cca, row.channel.name)), drift=drift.verdict, drift_reason=drift.reason,
        rollout=running.get(row.channel_id),
    )  # fmt: skip


def _within_target(session: Session, grant: Grant, *, now: datetime) -> dict[tuple[str, str], float]:
    rows = qos.grouped(
        session, by=["cca", "channel"], of_agents=False, hours=(hour_of(now - _RECENT), _MAX_HOUR),
        wanted={"group": False}, within=grant, offset=0, limit=_MOST_CHANNELS,
    )  # fmt: skip
    return {(keys["cca"], keys["channel"]): sums["within_target"] / targets for keys, sums, targets in rows if targets}


def _jobs_by_state() -> Any:
    return select(JobRow.state, func.count()).group_by(JobRow.state)


def _of_agents(total: Counter[standing.Standing]) -> list[Finding]:
    said: dict[standing.Standing, tuple[str, str, str]] = {
        "silent": ("bad", "has not reported for three minutes", "have not reported for three minutes"),
        "trouble": ("bad", "reports a problem", "report a problem"),
        "behind": (
            "warn",
            "has an older table than its channel offers",
            "have an older table than their channel offers",
        ),
    }
    return [
        (kind, f"{plural(total[name], 'agent')} {one if total[name] == 1 else several}.", f"fleet?standing={name}")
        for name, (kind, one, several) in said.items()
        if total[name]
    ]


def _of_channels(lines: list[ChannelLine]) -> list[Finding]:
    kinds = {"drifted": "bad", "watch": "warn"}
    return [
        (kinds[line.drift], f"Flows of {line.cca}/{line.name} differ from the training: {line.drift_reason}",
         f"channels/{line.cca}/{line.name}")
        for line in lines
        if line.drift in kinds
    ]  # fmt: skip


def _of_rollouts(session: Session, grant: Grant, *, since: datetime) -> list[Finding]:
    query = select(RolloutRow.id, RolloutRow.state, ChannelRow.cca, ChannelRow.name).join(
        ChannelRow, ChannelRow.id == RolloutRow.channel_id
    )
    query = query.where(
        (RolloutRow.state == "paused") | ((RolloutRow.state == "aborted") & (RolloutRow.ended_at > since))
    )
    query = narrowed(query, (ChannelRow.cca, grant.ccas), (ChannelRow.name, grant.channels))
    said = {"paused": "is paused and waits for a person.", "aborted": "was aborted in the last 24 hours."}
    return [
        ("bad" if state == "aborted" else "warn", f"The roll-out {number} of {cca}/{name} {said[state]}",
         f"channels/{cca}/{name}/rollouts/{number}")
        for number, state, cca, name in session.execute(query)
    ]  # fmt: skip


def _of_jobs(session: Session, jobs: dict[str, int], grant: Grant, *, since: datetime) -> list[Finding]:
    failed = select(func.count()).where(JobRow.state == "failed", JobRow.ended_at > since)
    n_failed = session.scalar(narrowed(failed, (JobRow.cca, grant.ccas))) or 0
    found = []
    if n_failed:
        found.append(("bad", f"{plural(n_failed, 'job')} failed in the last 24 hours.", "jobs?state=failed"))
    if jobs.get("queued") and not jobs.get("running"):
        number = plural(jobs["queued"], "job is", "jobs are")
        found.append(("warn", f"{number} queued, and none runs. Look whether a runner is there.", "jobs?state=queued"))
    return found


def _of_retrainings(session: Session, grant: Grant) -> list[Finding]:
    query = select(ChannelRow.cca, ChannelRow.name, RetrainingRow.state, RetrainingRow.id)
    query = query.join(ChannelRow, ChannelRow.id == RetrainingRow.channel_id).where(
        RetrainingRow.state.in_(("proposed", "trained"))
    )
    query = narrowed(query, (ChannelRow.cca, grant.ccas), (ChannelRow.name, grant.channels))
    said = {"proposed": "is proposed", "trained": "has a candidate that waits for approval"}
    return [
        ("warn", f"A new training of {cca}/{name} {said[state]}.", f"channels/{cca}/{name}#retraining")
        for cca, name, state, _ in session.execute(query)
    ]
