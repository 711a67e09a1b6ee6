# SPDX-License-Identifier: MIT
"""HTTP endpoints /v1/channels/{cca}/{name}/retraining, which is the policy, and those below .../retrainings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Path, status

from serving.access.check import Roller, Trainer, needs
from serving.access.routes import ApiRoute
from serving.channels.endpoints import change_of, wake_later
from serving.context import Context, InContext
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.jobs.runners import RunnersSeen
from serving.names import CcaName, ChannelName
from serving.retraining import policies, repository, service
from serving.retraining.controller import RetrainingController
from serving.retraining.schemas import (
    PolicyRead,
    RetrainingPolicy,
    RetrainingRead,
    RetrainingRequest,
    RolloutApproval,
)

router = APIRouter(prefix="/v1/channels/{cca}/{name}", tags=["retraining"], route_class=ApiRoute)

Number = Annotated[int, Path(ge=1, le=2**63 - 1, description="The retraining's number.")]


def add_parts(context: Context) -> None:
    """Add the steps of retrainings."""
    context.add(RetrainingController(context))


@router.put("/retraining", responses=problems(404, 409, 413))
async def set_retraining_policy(
    *, context: InContext, caller: Roller, cca: CcaName, name: ChannelName, body: RetrainingPolicy
) -> PolicyRead:
    """Set how the channel is trained anew when its flows drift. An automatic policy needs the scope `train`, too."""
    if body.automatic:
        caller.require("train", cca=cca, channel=name)
    context.part(RunnersSeen).require_paths(body.compare.paths)
    change = change_of(context, caller, (cca, name), if_match=None)
    return PolicyRead.of(await context.write(policies.set_policy, change, body, settings=context.settings))


@router.get("/retraining", dependencies=[needs("read")], responses=problems(404))
async def get_retraining_policy(*, context: InContext, cca: CcaName, name: ChannelName) -> PolicyRead:
    """Return how the channel is trained anew."""
    return PolicyRead.of(await context.read(policies.find, cca=cca, name=name))


@router.delete("/retraining", status_code=status.HTTP_204_NO_CONTENT, responses=problems(404, 409))
async def remove_retraining_policy(*, context: InContext, caller: Roller, cca: CcaName, name: ChannelName) -> None:
    """Remove the policy, so that nothing is proposed for the channel any more."""
    await context.write(policies.remove, change_of(context, caller, (cca, name), if_match=None))


@router.post("/retrainings", status_code=status.HTTP_201_CREATED, responses=problems(404, 409, 413))
async def start_retraining(
    *, context: InContext, caller: Trainer, cca: CcaName, name: ChannelName, body: RetrainingRequest | None = None
) -> RetrainingRead:
    """Begin a retraining without a drift. Its training is queued at once."""
    note = "" if body is None else body.note
    change = change_of(context, caller, (cca, name), if_match=None)
    return RetrainingRead.of(await context.write(service.start, change, note=note, settings=context.settings))


@router.get("/retrainings", dependencies=[needs("read")])
async def list_retrainings(
    *, context: InContext, cca: CcaName, name: ChannelName, limit: Limit = 50, cursor: Cursor = None
) -> Page[RetrainingRead]:
    """List the channel's retrainings, newest first."""
    rows = await context.read(repository.page, cca=cca, name=name, before_id=cursor_position(cursor), limit=limit + 1)
    return page_of(rows, limit=limit, item=RetrainingRead.of, position=lambda row: row.id)


@router.get("/retrainings/{number}", dependencies=[needs("read")], responses=problems(404))
async def get_retraining(*, context: InContext, cca: CcaName, name: ChannelName, number: Number) -> RetrainingRead:
    """Return where a retraining stands."""
    return RetrainingRead.of(await context.read(service.get, cca=cca, name=name, retraining_id=number))


@router.post("/retrainings/{number}/training", responses=problems(404, 409, 413))
async def approve_training(
    *, context: InContext, caller: Trainer, cca: CcaName, name: ChannelName, number: Number,
    body: RetrainingRequest | None = None,
) -> RetrainingRead:  # fmt: skip
    """Approve the training that was proposed. Its job is queued at once."""
    note = "" if body is None else body.note
    change = change_of(context, caller, (cca, name), if_match=None)
    row = await context.write(service.approve_training, change, number, note=note, settings=context.settings)
    return RetrainingRead.of(row)


@router.post("/retrainings/{number}/roll-out", responses=problems(404, 409, 413))
async def approve_retraining_rollout(
    *, context: InContext, caller: Roller, background: BackgroundTasks, cca: CcaName, name: ChannelName,
    number: Number, body: RolloutApproval | None = None,
) -> RetrainingRead:  # fmt: skip
    """Approve the roll-out of the trained ensemble. It begins at once. Objections need a reason as `force`."""
    given = RolloutApproval() if body is None else body
    change = change_of(context, caller, (cca, name), if_match=None)
    row = await context.write(
        service.approve_rollout, change, number, note=given.note, force=given.force, settings=context.settings
    )
    wake_later(context, background, (cca, name), revision=row.channel.revision)
    return RetrainingRead.of(row)


@router.post("/retrainings/{number}/dismiss", responses=problems(404, 409, 413))
async def dismiss_retraining(
    *, context: InContext, caller: Trainer, cca: CcaName, name: ChannelName, number: Number,
    body: RetrainingRequest | None = None,
) -> RetrainingRead:  # fmt: skip
    """End a retraining before its roll-out, and cancel its job."""
    note = "" if body is None else body.note
    change = change_of(context, caller, (cca, name), if_match=None)
    return RetrainingRead.of(await context.write(service.dismiss, change, number, note=note))
