# SPDX-License-Identifier: MIT
""".../rollouts/start: the plan of a roll-out, a rehearsal of it on past figures, and its start.

The page keeps what was typed where the registry refuses it.
"""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request, Response
from sqlalchemy.orm import Session

from serving.access.check import Roller
from serving.channels import service as channels
from serving.channels.endpoints import wake_later
from serving.context import Context, InContext
from serving.dashboard.channel_forms import checked_change, move_fields
from serving.dashboard.channels import published
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PageRoute, form_of, page, see_other
from serving.errors import InvalidFormError, ServingError
from serving.names import CcaName, ChannelName
from serving.rollouts import repository, service
from serving.rollouts.plan import Plan, Switchback
from serving.rollouts.rehearsal import rehearse
from serving.rollouts.schemas import RolloutStart
from serving.rollouts.statistics import METRICS

router = APIRouter(prefix="/ui/channels/{cca}/{name}/rollouts", route_class=PageRoute, include_in_schema=False)

_HOUR_S, _MINUTE_S = 3600, 60
_PLAN = Plan()
_OWN = ("must_improve", "alpha", "looks_per_step", "least_servers", "least_samples", "silent_share", "stratify_by")


def defaults() -> dict[str, str]:
    """Return the fields of the form for the plan that the API has without one."""
    step, switchback = _PLAN.steps[0], Switchback()
    limits = {limit.metric: limit for limit in _PLAN.limits}
    return {
        "shares": ", ".join(f"{one.share:g}" for one in _PLAN.steps),
        "least_hours": f"{step.least_s / _HOUR_S:g}",
        "most_hours": f"{step.most_s / _HOUR_S:g}",
        "silent_minutes": f"{_PLAN.silent_s / _MINUTE_S:g}",
        "block_minutes": f"{switchback.block_s / _MINUTE_S:g}",
        "washout_minutes": f"{switchback.washout_s / _MINUTE_S:g}",
        **{name: "" if getattr(_PLAN, name) is None else f"{getattr(_PLAN, name)}" for name in _OWN},
        **{f"margin_{name}": f"{limits[name].margin:g}" if name in limits else "" for name in METRICS},
        **{f"role_{name}": limits[name].role if name in limits else "" for name in METRICS},
        "digest": "", "hold_back_permille": "0", "note": "", "force": "", "shadow": "", "switchback": "",
        "urgent": "",
    }  # fmt: skip


def plan_fields(fields: dict[str, str]) -> dict[str, Any]:
    """Return the plan of a form as the API has it. Raises InvalidFormError."""
    by_switchback = bool(fields.get("switchback"))
    shares = [0.5] if by_switchback else [_number(text, "shares") for text in fields.get("shares", "").split(",")]
    least_s, most_s = (_number(fields.get(name, ""), name) * _HOUR_S for name in ("least_hours", "most_hours"))
    found: dict[str, Any] = {
        "steps": [{"share": share, "least_s": least_s, "most_s": most_s} for share in shares],
        "limits": [
            {"metric": name, "margin": _number(fields.get(f"margin_{name}", ""), f"margin_{name}"), "role": role}
            for name in METRICS
            if (role := fields.get(f"role_{name}"))
        ],
        "silent_s": _number(fields.get("silent_minutes", ""), "silent_minutes") * _MINUTE_S,
        **{name: fields[name] for name in _OWN if fields.get(name)},
    }
    if by_switchback:
        found["switchback"] = {
            f"{name}_s": _number(fields.get(f"{name}_minutes", ""), f"{name}_minutes") * _MINUTE_S
            for name in ("block", "washout")
        }
    return found


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidFormError(f"{name}: expected a number, got {text.strip()!r}") from error


def start_of(fields: dict[str, str]) -> RolloutStart:
    """Return the roll-out that a form requests. Raises InvalidFormError."""
    wanted: dict[str, Any] = {**move_fields(fields), "plan": plan_fields(fields), "force": fields.get("force", "")}
    if shadow := fields.get("shadow"):
        try:
            wanted["shadow"] = json.loads(shadow)
        except (ValueError, RecursionError) as error:
            raise InvalidFormError(
                "shadow: expected the JSON that `ccatune evaluate CANDIDATE --baseline BASELINE --json` prints, got "
                "other text"
            ) from error
    return model_of(RolloutStart, wanted)


@router.get("/start")
async def ask_plan(
    *, request: Request, context: InContext, _caller: Roller, cca: CcaName, name: ChannelName, digest: str = ""
) -> Response:
    """Show the form with the usual plan."""
    found = await context.read(_shown, context, cca=cca, name=name)
    values = {**defaults(), "digest": digest, "key": secrets.token_urlsafe(16), "if_match": found["etag"]}
    return _page(request, cca, name, found, values)


@router.post("/start")
async def start(
    *, request: Request, context: InContext, caller: Roller, background: BackgroundTasks, cca: CcaName,
    name: ChannelName,
) -> Response:  # fmt: skip
    """Start the roll-out, or rehearse its plan."""
    fields = form_of(request)
    rehearses = fields.pop("do", "") == "rehearse"
    kept_days = context.settings.qos_agent_retention_days
    try:
        if rehearses:
            plan = model_of(Plan, plan_fields(fields))
            rehearsed = await context.read(
                rehearse, cca=cca, name=name, plan=plan, now=context.clock(), kept_days=kept_days
            )
        else:
            wanted = start_of(fields)
            change = checked_change(context, caller, (cca, name), fields, kind="roll-out", wanted=wanted)
            needs_shadow = context.settings.shadow_gate == "required"
            row = await context.write(service.start, change, wanted, kept_days=kept_days, needs_shadow=needs_shadow)
            wake_later(context, background, (cca, name), revision=row.channel.revision)
            return see_other(request, f"channels/{cca}/{name}/rollouts/{row.id}")
    except ServingError as error:
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        found = await context.read(_shown, context, cca=cca, name=name)
        return _page(request, cca, name, found, _typed(fields, found), error=error)
    found = await context.read(_shown, context, cca=cca, name=name)
    return _page(request, cca, name, found, _typed(fields, found), rehearsed=rehearsed)


def _typed(fields: dict[str, str], found: dict[str, Any]) -> dict[str, str]:
    """Return the fields of a form that is shown again, which is about the deployment that the page shows now."""
    # A field left empty, and a box that is not checked, are not sent.
    return {**dict.fromkeys(defaults(), ""), **fields, "if_match": found["etag"], "key": secrets.token_urlsafe(16)}


def _shown(session: Session, context: Context, *, cca: str, name: str) -> dict[str, Any]:
    row = channels.current(session, cca=cca, name=name)
    return {
        "row": row,
        "etag": channels.etag_of(row, registry=context.registry),
        "ensembles": published(session, cca=cca),
        "open_rollout": repository.find_open(session, channel_id=row.channel_id),
        "needs_shadow": context.settings.shadow_gate == "required",
    }


def _page(
    request: Request, cca: str, name: str, found: dict[str, Any], values: dict[str, str], *,
    error: ServingError | None = None, rehearsed: Any = None,
) -> Response:  # fmt: skip
    return page(
        request, "rollout_start.html", title=f"Roll out on {cca}/{name}",
        status=HTTPStatus.OK if error is None else HTTPStatus(error.status), cca=cca, name=name, values=values,
        error=None if error is None else str(error), rehearsed=rehearsed, metrics=METRICS, **found,
    )  # fmt: skip
