# SPDX-License-Identifier: MIT
"""HTTP endpoints below /v1/jobs. Those for runners are POST /v1/jobs/leases and the last two."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response, status

from serving.access.check import JobRunner, Reader, Trainer
from serving.access.grants import Caller
from serving.access.routes import LARGE_BODY, ApiRoute
from serving.channels.schemas import IdempotencyKey, idempotency_of
from serving.context import Context, InContext
from serving.database import JobRow
from serving.datasets import service as datasets
from serving.ensembles.service import prepare
from serving.http.openapi import LOCATION, answered
from serving.http.paging import Cursor, Limit, Page, cursor_position, page_of
from serving.http.problems import problems
from serving.jobs import repository, service
from serving.jobs.runners import RunnersSeen
from serving.jobs.schemas import (
    AttemptEnd,
    Heartbeat,
    HeartbeatAnswer,
    JobAttempt,
    JobLogs,
    JobRead,
    JobState,
    JobSubmit,
    LeasedJob,
    LeaseRequest,
)
from serving.jobs.studies import read_study
from serving.jobs.upkeep import JobUpkeep
from serving.names import StudyName

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=ApiRoute)

JobId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The job's number.", examples=[7])]


def add_parts(context: Context) -> None:
    """Add the upkeep of leases and old jobs, and the runners that were seen."""
    context.add(JobUpkeep(context))
    context.add(RunnersSeen(within_s=2 * context.settings.job_lease_s))


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses={201: answered("The queued job", LOCATION), **problems(404, 409, 413)},
)
async def submit_job(
    *,
    context: InContext,
    caller: Trainer,
    response: Response,
    body: JobSubmit,
    idempotency_key: IdempotencyKey = None,
) -> JobRead:
    """Queue the training of a registered study. Its ensemble is published when it is done; no channel moves.

    With `compare` the runner then runs it beside a published ensemble in the simulator.
    """
    row = await submitted(context, body, by=caller, key=idempotency_key)
    response.headers["Location"] = f"jobs/{row.id}"
    return JobRead.of(row)


async def submitted(context: Context, body: JobSubmit, *, by: Caller, key: str | None) -> JobRow:
    """Queue a job, and return it. key: of idempotency.

    Raises as `require_known`, `require_paths`, `read_study` and `submit` do.
    """
    settings = context.settings
    await context.read(datasets.require_known, settings, body.all_datasets)
    if body.compare is not None:
        context.part(RunnersSeen).require_paths(body.compare.paths)
    study = await context.reads.run(lambda: read_study(settings.studies, body.study, datasets=body.datasets))
    by.require("train", cca=study.cca)
    return await context.write(
        service.submit,
        body,
        study,
        by=by,
        now=context.clock(),
        most=settings.jobs_per_principal,
        idempotency=idempotency_of(key, kind="submit-job", body=body.model_dump()),
    )


@router.get("")
async def list_jobs(
    *,
    context: InContext,
    caller: Reader,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    study: Annotated[StudyName | None, Query(description="Only jobs of this study.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[JobRead]:
    """List the jobs, newest first. A limited token sees those of its algorithms."""
    rows = await context.read(
        repository.page_newest_first,
        state=state,
        study=study,
        before_id=cursor_position(cursor),
        limit=limit + 1,
        within=caller.grant,
    )
    return page_of(rows, limit=limit, item=JobRead.of, position=lambda row: row.id)


@router.post(
    "/leases",
    response_model=LeasedJob,
    responses={204: {"description": "No queued job is for this runner"}, **problems(413)},
)
async def lease_job(context: InContext, caller: JobRunner, body: LeaseRequest) -> LeasedJob | Response:
    """Lease the first queued job whose datasets the runner has. A repeated request gets it again."""
    settings = context.settings
    context.part(RunnersSeen).see(body.runner, paths=body.paths)
    # Idle runners ask every few seconds. They must not take the write lock for nothing.
    row = None
    if await context.read(repository.may_lease, lease=body.lease, now=context.clock()):
        row = await context.write(
            service.lease,
            body,
            by=caller,
            now=context.clock(),
            lease_s=settings.job_lease_s,
            most_losses=settings.job_losses,
        )
    if row is None:
        return Response(status_code=status.HTTP_204_NO_CONTENT)
    own = ("id", "attempt", "study", "study_text", "cca", "seed")
    compare = None if row.compare is None else await context.read(service.leased_compare, row.compare)
    return LeasedJob(
        registry=context.registry,
        datasets=row.datasets.split(),
        lease_s=settings.job_lease_s,
        compare=compare,
        **{name: getattr(row, name) for name in own},
    )


@router.get("/{job_id}", responses=problems(404))
async def get_job(context: InContext, caller: Reader, job_id: JobId) -> JobRead:
    """Return a job with its state and progress."""
    return JobRead.of(await context.read(service.job, job_id, by=caller))


@router.get("/{job_id}/logs", responses=problems(404))
async def get_job_logs(context: InContext, caller: Reader, job_id: JobId) -> JobLogs:
    """Return the ends of the logs of a job's latest attempts."""
    rows = await context.read(service.logs, job_id, by=caller)
    return JobLogs(attempts=[JobAttempt.model_validate(row) for row in rows])


@router.post("/{job_id}/cancel", responses=problems(404, 409))
async def cancel_job(context: InContext, caller: Trainer, job_id: JobId) -> JobRead:
    """Cancel a job of the caller. A queued one ends at once, a running one with its runner's next heartbeat."""
    return JobRead.of(await context.write(service.cancel, job_id, by=caller, now=context.clock()))


@router.post("/{job_id}/heartbeat", responses=problems(404, 409, 413))
async def beat_job(context: InContext, caller: JobRunner, job_id: JobId, body: Heartbeat) -> HeartbeatAnswer:
    """Renew a runner's lease of a job, and store the job's progress and log."""
    lease_s = context.settings.job_lease_s
    row = await context.write(service.beat, job_id, body, by=caller, now=context.clock(), lease_s=lease_s)
    if row.runner is not None:
        context.part(RunnersSeen).see(row.runner)
    return HeartbeatAnswer(is_cancelling=row.is_cancelling, lease_s=lease_s)


@router.post("/{job_id}/end", openapi_extra=LARGE_BODY, responses=problems(404, 409, 413))
async def end_job(context: InContext, caller: JobRunner, job_id: JobId, body: AttemptEnd) -> JobRead:
    """End a runner's attempt at a job. The ensemble of a job that is done is published in the same transaction."""
    document = body.ensemble
    ensemble = None if document is None else await context.reads.run(lambda: prepare(document))
    row = await context.write(
        service.end,
        job_id,
        body,
        ensemble,
        by=caller,
        now=context.clock(),
        most_losses=context.settings.job_losses,
    )
    return JobRead.of(row)
