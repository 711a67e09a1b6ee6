# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/datasets."""

from __future__ import annotations

from fastapi import APIRouter, status

from serving.access.check import JobRunner, needs
from serving.access.routes import ApiRoute
from serving.context import InContext
from serving.datasets import service
from serving.datasets.schemas import DatasetList, DatasetReport
from serving.http.problems import problems
from serving.names import DatasetName

router = APIRouter(prefix="/v1/datasets", tags=["jobs"], route_class=ApiRoute)


@router.get("", dependencies=[needs("read")])
async def list_datasets(context: InContext) -> DatasetList:
    """List the datasets that jobs may name, with what runners say of their recordings."""
    return DatasetList(items=await context.read(service.known, context.settings))


@router.put("/{dataset}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(413))
async def describe_dataset(context: InContext, caller: JobRunner, dataset: DatasetName, body: DatasetReport) -> None:
    """Say which recordings a runner has under this name. Jobs may name the dataset from then on."""
    del caller
    await context.write(service.say, dataset, body, settings=context.settings, now=context.clock())
