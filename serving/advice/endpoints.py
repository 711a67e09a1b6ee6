# SPDX-License-Identifier: MIT
"""The HTTP endpoint /v1/channels/{cca}/{name}/advice."""

from __future__ import annotations

from fastapi import APIRouter

from serving.access.check import Trainer, needs
from serving.access.routes import ApiRoute
from serving.advice import service
from serving.advice.schemas import AdviceRead, AdviceReport
from serving.channels.endpoints import change_of
from serving.context import InContext
from serving.http.problems import problems
from serving.names import CcaName, ChannelName

router = APIRouter(prefix="/v1/channels/{cca}/{name}/advice", tags=["channels"], route_class=ApiRoute)


@router.put("", responses=problems(404, 409, 413))
async def set_advice(
    *, context: InContext, caller: Trainer, cca: CcaName, name: ChannelName, body: AdviceReport
) -> AdviceRead:
    """Give the channel an advice, as `ccatune advise --json` prints it. It replaces the one before."""
    change = change_of(context, caller, (cca, name), if_match=None)
    return AdviceRead.of(await context.write(service.put, change, body))


@router.get("", dependencies=[needs("read")], responses=problems(404))
async def get_advice(*, context: InContext, cca: CcaName, name: ChannelName) -> AdviceRead:
    """Return the newest advice of the channel."""
    return AdviceRead.of(await context.read(service.find, cca=cca, name=name))
