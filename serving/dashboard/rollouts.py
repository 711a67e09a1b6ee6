# SPDX-License-Identifier: MIT
"""/ui/rollouts: all roll-outs. .../rollouts/N: where one stands and why, the comparison over time, and who did what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request, Response
from sqlalchemy import and_, case, func, or_, select
from sqlalchemy.orm import Session, contains_eager

from serving.access.check import Reader, Roller
from serving.access.grants import Grant
from serving.channels.endpoints import change_of, wake_later
from serving.context import Context, InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PageRoute, form_of, page, see_other
from serving.dashboard.words import duration, percent, plural
from serving.database import AgentRow, ChannelRow, RolloutRow, RolloutServerRow, narrowed
from serving.names import CcaName, ChannelName
from serving.rollouts import repository, service
from serving.rollouts.endpoints import Action, Number
from serving.rollouts.plan import Plan
from serving.rollouts.schemas import RolloutEventRead, RolloutRead, RolloutRequest
from serving.rollouts.standing import n_treated
from serving.rollouts.statistics import METRICS, MetricName

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_MOST_ROLLOUTS = 100
_MOST_EVENTS = 300
_MOST_SILENT = 50
_KINDS = {"running": "idle", "paused": "warn", "aborted": "bad", "promoted": "well"}

Chart = dict[str, Any]


@router.get("/rollouts")
async def list_rollouts(*, request: Request, context: InContext, caller: Reader) -> Response:
    """Show the roll-outs of all channels: those that have not ended first."""
    found = await context.read(_newest, caller.grant)
    return page(request, "rollouts.html", title="Roll-outs", topics="rollouts", rollouts=found, kinds=_KINDS,
                is_cut=len(found) == _MOST_ROLLOUTS)  # fmt: skip


def _newest(session: Session, grant: Grant) -> list[RolloutRead]:
    query = select(RolloutRow).join(RolloutRow.channel).options(contains_eager(RolloutRow.channel))
    query = narrowed(query, (ChannelRow.cca, grant.ccas), (ChannelRow.name, grant.channels))
    query = query.order_by(RolloutRow.ended_at.is_not(None), RolloutRow.id.desc()).limit(_MOST_ROLLOUTS)
    return [RolloutRead.of(row) for row in session.scalars(query)]


@router.get("/channels/{cca}/{name}/rollouts/{number}")
async def rollout(
    *, request: Request, context: InContext, _caller: Reader, cca: CcaName, name: ChannelName, number: Number
) -> Response:
    """Show a roll-out."""
    found = await context.read(_shown, context, cca=cca, name=name, number=number)
    return page(request, "rollout.html", title=f"Roll-out {number} of {cca}/{name}", topics="rollouts agents", cca=cca,
                name=name, number=number, kinds=_KINDS, **found)  # fmt: skip


def _shown(session: Session, context: Context, *, cca: str, name: str, number: int) -> dict[str, Any]:
    row = service.get(session, cca=cca, name=name, rollout_id=number)
    read = RolloutRead.of(row)
    rows = repository.events(session, number, before_id=None, limit=_MOST_EVENTS + 1)
    events = [RolloutEventRead.of(one) for one in rows[:_MOST_EVENTS]]
    looks = [one for one in reversed(events) if "metrics" in one.evidence]
    start = next((one for one in events if one.action == "start"), None)
    return {
        "rollout": read,
        "verdict": verdict(read, events),
        "plan": plan_in_words(read.plan),
        "events": events,
        "n_more": len(rows) > _MOST_EVENTS,
        "charts": [chart for limit in read.plan.limits for chart in _charts(limit.metric, looks)],
        "last_look": _last_look(read.plan, looks[-1]) if looks else [],
        "arms": _arms(session, context, row, read.plan),
        "shadow": None if start is None else start.evidence.get("shadow"),
    }


def verdict(read: RolloutRead, events: Sequence[RolloutEventRead]) -> RolloutEventRead | None:
    """Return the entry that says why a roll-out is where it is: its end, its pause, or the newest one."""
    ends = {"aborted": "abort", "promoted": "promote", "paused": "pause"}
    wanted = ends.get(read.state)
    return next((one for one in events if wanted in {None, one.action}), None)


def plan_in_words(plan: Plan) -> list[str]:
    """Say what a plan does."""
    said = []
    if plan.switchback is not None:
        block, washout = duration(plan.switchback.block_s), duration(plan.switchback.washout_s)
        said.append(f"All servers alternate between both ensembles in blocks of {block}, of which the first {washout} "
                    "do not count.")  # fmt: skip
    for number, step in enumerate(plan.steps, start=1):
        share = "" if plan.switchback is not None else f"{100 * step.share:g} % of the servers have the candidate "
        least, most = duration(step.least_s), duration(step.most_s)
        said.append(f"Step {number}: {share}for at least {least} and at most {most}.")
    for limit in plan.limits:
        metric, ends = METRICS[limit.metric], {"guardrail": "aborts", "signal": "pauses"}[limit.role]
        said.append(f"More than {100 * limit.margin:g} {metric.unit} {metric.worse} {metric.title} {ends} it.")
    if plan.must_improve is not None:
        said.append(f"It is promoted only if the {METRICS[plan.must_improve].title} is better.")
    said.append(f"Each step is judged {plan.looks_per_step} times; any interval of the whole roll-out is wrong with a "
                f"probability of at most {100 * plan.alpha:g} %.")  # fmt: skip
    said.append(f"A server counts from {plural(plan.least_samples, 'delay sample')} on, and each arm needs "
                f"{plan.least_servers} such servers.")  # fmt: skip
    said.append(f"It pauses if more than {100 * plan.silent_share:g} % of the servers of an arm have not reported for "
                f"{duration(plan.silent_s)}.")  # fmt: skip
    if plan.stratify_by is not None:
        said.append(f"The shares hold for each value of the label {plan.stratify_by}.")
    return said


def _charts(name: MetricName, looks: Sequence[RolloutEventRead]) -> list[Chart]:
    """Return a metric over the looks: by how much the candidate is worse, and the figures of both arms."""
    metric = METRICS[name]
    harms, figures = [], []
    for look in looks:
        found = look.evidence["metrics"].get(name, {})
        harm = found.get("harm")
        if harm is None:
            continue
        at = (f"{look.at:%Y-%m-%d %H:%M}, look {look.evidence.get('look')}", look.at.timestamp())
        bounds = (harm["lower"], harm["upper"], harm["estimate"], found["margin"])
        harms.append([at, *((f"{100 * value:.3g}", round(100 * value, 4)) for value in bounds)])
        figures.append(
            [at, *((metric.text(harm[arm]), _plotted(metric.text(harm[arm]))) for arm in ("candidate", "baseline"))]
        )
    title, unit = metric.title.capitalize(), "Mbit/s" if metric.is_logarithm else "%"
    return [
        {"title": f"{title}: by how much the candidate is worse, {metric.unit}", "unit": "", "rows": harms,
         "columns": ["Look", "lower bound", "upper bound", "worse by", "margin"], "band": "1,2"},
        {"title": f"{title} of both arms", "unit": unit, "rows": figures,
         "columns": ["Look", "candidate", "baseline"], "band": ""},
    ]  # fmt: skip


def _plotted(text: str) -> float:
    return float(text.split(maxsplit=1)[0])


def _last_look(plan: Plan, look: RolloutEventRead) -> list[dict[str, str]]:
    """Return the newest comparison as words, a line for each metric."""
    lines = []
    for limit in plan.limits:
        metric = METRICS[limit.metric]
        unit = "%" if metric.is_logarithm else "points"
        found = look.evidence["metrics"].get(limit.metric, {})
        harm, tolerated = found.get("harm"), found.get("tolerated", limit.margin)
        line = {"title": metric.title, "role": limit.role, "margin": f"{100 * limit.margin:g} {unit}",
                "tolerated": f"{100 * tolerated:.3g} {unit}"}  # fmt: skip
        if harm is None:
            lines.append({**line, "candidate": "–", "baseline": "–", "difference": "too few figures", "kind": "idle"})
            continue
        is_worse = harm["lower"] > 0 and harm["estimate"] > limit.margin
        interval = f"[{_signed(harm['lower'])}, {_signed(harm['upper'])}]"
        lines.append({
            **line, "candidate": metric.text(harm["candidate"]), "baseline": metric.text(harm["baseline"]),
            "difference": f"{_signed(harm['estimate'])} {interval} {unit}",
            "kind": "bad" if is_worse else "well" if harm["upper"] < tolerated else "idle",
        })  # fmt: skip
    return lines


def _signed(harm: float) -> str:
    return f"{100 * harm:+.2g}"


def _arms(session: Session, context: Context, row: RolloutRow, plan: Plan) -> dict[str, Any]:
    """Return how many servers each arm has, how many are silent, and some of these."""
    since = context.clock() - timedelta(seconds=plan.silent_s)
    arm = case((RolloutServerRow.place < n_treated(row), "candidate"), else_="baseline").label("arm")
    agent = and_(AgentRow.id == RolloutServerRow.agent, AgentRow.agent_id == RolloutServerRow.agent_id)
    is_silent = or_(AgentRow.received_at.is_(None), AgentRow.received_at < since)
    counts = select(arm, func.count(), func.sum(case((is_silent, 1), else_=0)))
    counts = counts.outerjoin(AgentRow, agent).where(RolloutServerRow.rollout_id == row.id).group_by(arm)
    silent = select(RolloutServerRow.agent_id, arm, AgentRow.received_at).outerjoin(AgentRow, agent)
    silent = silent.where(RolloutServerRow.rollout_id == row.id, is_silent).order_by(AgentRow.received_at)
    sizes = {name: (number, n_silent) for name, number, n_silent in session.execute(counts)}
    return {
        "sizes": [(name, *sizes.get(name, (0, 0))) for name in ("candidate", "baseline")],
        "silent": session.execute(silent.limit(_MOST_SILENT)).all(),
        "n_silent": sum(n_silent for _, n_silent in sizes.values()),
        "share": percent(sizes.get("candidate", (0, 0))[0] / row.n_servers if row.n_servers else None),
    }


@router.post("/channels/{cca}/{name}/rollouts/{number}/{action}")
async def change_rollout(
    *, request: Request, context: InContext, caller: Roller, background: BackgroundTasks, cca: CcaName,
    name: ChannelName, number: Number, action: Action,
) -> Response:  # fmt: skip
    """Pause, resume, abort or promote a roll-out."""
    wanted = model_of(RolloutRequest, form_of(request))
    change = change_of(context, caller, (cca, name), if_match=None)
    row = await context.write(service.request, change, number, action, note=wanted.note)
    wake_later(context, background, (cca, name), revision=row.channel.revision)
    return see_other(request, f"channels/{cca}/{name}/rollouts/{number}")
