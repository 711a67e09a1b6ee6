# SPDX-License-Identifier: MIT
"""The forms of a channel: move, roll-back, and the steps of a retraining.

A form that changes what is in force sends back two hidden fields. `if_match` is the entity tag of the deployment that
the page showed: after a move by someone else the form is refused. `key` is an idempotency key: a form that is sent
twice moves once.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any, Literal

from fastapi import APIRouter, BackgroundTasks, Path, Request, Response
from pydantic import BaseModel
from sqlalchemy.orm import Session

from serving.access.check import Mover, Reader, Trainer
from serving.access.grants import Caller
from serving.agents import standing
from serving.channels import service
from serving.channels.endpoints import change_of, wake_later
from serving.channels.schemas import ChannelMove, Idempotency, RollBack, idempotency_of
from serving.context import Context, InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PageRoute, form_of, page, see_other
from serving.dashboard.state_map import Document, changes, states_differ
from serving.database import IDEMPOTENCY_KEY_CHARS
from serving.ensembles import service as ensembles
from serving.errors import InvalidFormError
from serving.names import CcaName, ChannelName
from serving.retraining import service as retrainings
from serving.retraining.schemas import RetrainingRequest, RolloutApproval
from serving.rollouts import repository as rollouts
from serving.rollouts.standing import n_treated

router = APIRouter(prefix="/ui/channels/{cca}/{name}", route_class=PageRoute, include_in_schema=False)

_KEY = re.compile(rf"[!-~]{{1,{IDEMPOTENCY_KEY_CHARS}}}")
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


def checked_change(
    context: Context, caller: Caller, key: tuple[str, str], fields: dict[str, str], *, kind: str, wanted: BaseModel
) -> service.Change:
    """Return the request of a form to change a channel, with the conditions of its hidden fields.

    kind: as for `idempotency_of`. Raises InvalidFormError.
    """
    if_match, word = fields.get("if_match"), fields.get("key", "")
    if if_match is None or _KEY.fullmatch(word) is None:
        raise InvalidFormError("expected the fields if_match and key of the page, got others; load the page anew")
    body = wanted.model_dump(mode="json")
    # The fields of the API's requests, so that a key means the same wherever it comes from.
    more = {"if_none_match": None} if kind == "move" else {}
    idempotency: Idempotency | None = idempotency_of(word, kind=kind, body=body, if_match=if_match, **more)
    return change_of(context, caller, key, if_match=if_match, idempotency=idempotency)


def move_of(fields: dict[str, str]) -> ChannelMove:
    """Return the move that a form requests. Raises InvalidFormError."""
    return model_of(ChannelMove, move_fields(fields))


def move_fields(fields: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a move as the API has them."""
    permille = fields.get("hold_back_permille", "0")
    if not re.fullmatch("[0-9]{1,4}", permille):
        raise InvalidFormError(f"hold_back_permille: expected a whole number from 0 to 1000, got {permille}")
    return {
        "digest": fields.get("digest", ""), "hold_back_permille": int(permille), "urgent": bool(fields.get("urgent")),
        "note": fields.get("note", ""),
    }  # fmt: skip


@router.post("/move")
async def move(
    *, request: Request, context: InContext, caller: Mover, background: BackgroundTasks, cca: CcaName, name: ChannelName
) -> Response:
    """Move a channel to an ensemble."""
    fields = form_of(request)
    wanted = move_of(fields)
    change = checked_change(context, caller, (cca, name), fields, kind="move", wanted=wanted)
    row, _ = await context.write(service.move, change, wanted)
    wake_later(context, background, (cca, name), revision=row.channel.revision)
    return see_other(request, f"channels/{cca}/{name}")


@router.get("/rollback")
async def ask_roll_back(
    *, request: Request, context: InContext, caller: Mover, cca: CcaName, name: ChannelName
) -> Response:
    """Say what a roll-back would do, and ask."""
    found = await context.read(_roll_back_shown, context, caller, cca=cca, name=name)
    return page(request, "roll_back.html", title=f"Roll back {cca}/{name}", cca=cca, name=name,
                key=secrets.token_urlsafe(16), **found)  # fmt: skip


def _roll_back_shown(session: Session, context: Context, caller: Caller, *, cca: str, name: str) -> dict[str, Any]:
    row = service.current(session, cca=cca, name=name)
    rollout = rollouts.find_open(session, channel_id=row.channel_id)
    if rollout is None:
        target = service.roll_back_target(session, row.channel, row)
    else:
        before = rollout.baseline_serial + 1
        target = service.history(session, cca=cca, name=name, before_serial=before, limit=1)[0]
    leaving = row.digest if rollout is None else rollout.digest
    now = Document(ensembles.document(session, leaving, by=caller))
    then = Document(ensembles.document(session, target.digest, by=caller))
    counted = standing.counts(session, now=context.clock(), within=caller.grant).get((cca, name))
    return {
        "row": row, "target": target, "rollout": rollout, "leaving": leaving,
        "n_candidates": 0 if rollout is None else n_treated(rollout),
        "etag": service.etag_of(row, registry=context.registry),
        "n_agents": 0 if counted is None else counted.total(), "structure": states_differ(then, now),
        "changes": changes(then, now) if then.has_states_of(now) else [],
    }  # fmt: skip


@router.post("/rollback")
async def roll_back(
    *, request: Request, context: InContext, caller: Mover, background: BackgroundTasks, cca: CcaName, name: ChannelName
) -> Response:
    """Roll a channel back, as the page before asked."""
    fields = form_of(request)
    wanted = model_of(RollBack, {"urgent": "urgent" in fields, "note": fields.get("note", "")})
    change = checked_change(context, caller, (cca, name), fields, kind="roll-back", wanted=wanted)
    row = await context.write(service.roll_back, change, wanted)
    wake_later(context, background, (cca, name), revision=row.channel.revision)
    return see_other(request, f"channels/{cca}/{name}")


@router.post("/retrainings")
async def start_retraining(
    *, request: Request, context: InContext, caller: Trainer, cca: CcaName, name: ChannelName
) -> Response:
    """Begin a retraining without a drift."""
    wanted = model_of(RetrainingRequest, form_of(request))
    change = change_of(context, caller, (cca, name), if_match=None)
    await context.write(retrainings.start, change, note=wanted.note, settings=context.settings)
    return see_other(request, f"channels/{cca}/{name}#retraining")


@router.post("/retrainings/{number}/{action}")
async def decide_retraining(
    *, request: Request, context: InContext, caller: Reader, background: BackgroundTasks, cca: CcaName,
    name: ChannelName, number: Number, action: Literal["training", "roll-out", "dismiss"],
) -> Response:  # fmt: skip
    """Approve the training or the roll-out of a retraining, or dismiss it."""
    caller.require("roll-out" if action == "roll-out" else "train", cca=cca, channel=name)
    wanted = model_of(RolloutApproval, form_of(request))
    change = change_of(context, caller, (cca, name), if_match=None)
    settings = context.settings
    if action == "dismiss":
        await context.write(retrainings.dismiss, change, number, note=wanted.note)
    elif action == "training":
        await context.write(retrainings.approve_training, change, number, note=wanted.note, settings=settings)
    else:
        row = await context.write(retrainings.approve_rollout, change, number, note=wanted.note, force=wanted.force,
                                  settings=settings)  # fmt: skip
        wake_later(context, background, (cca, name), revision=row.channel.revision)
    return see_other(request, f"channels/{cca}/{name}#retraining")
