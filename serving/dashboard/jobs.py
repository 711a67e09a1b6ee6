# SPDX-License-Identifier: MIT
"""/ui/jobs: the training jobs, and a form that starts one. /ui/jobs/ID: one job, while it runs and afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from serving.access.check import Reader, Trainer
from serving.access.grants import Caller, Grant
from serving.channels import repository as channels
from serving.context import Context, InContext
from serving.dashboard.forms import model_of
from serving.dashboard.pages import PageRoute, page, see_other
from serving.dashboard.words import percent, short
from serving.database import EnsembleRow, JobAttemptRow, narrowed
from serving.datasets import service as datasets
from serving.errors import InvalidFormError
from serving.http.paging import Cursor, cursor_position, page_of
from serving.jobs import repository, service
from serving.jobs.course import points_of
from serving.jobs.endpoints import JobId, submitted
from serving.jobs.schemas import JobRead, JobState, JobSubmit
from serving.jobs.studies import study_names
from serving.names import DatasetName, StudyName

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_PER_PAGE = 50
_MOST_BASELINES = 50
_MOST_CHANNELS = 200
_SEED_DIGITS = 19
_STATES: tuple[JobState, ...] = ("queued", "running", "done", "failed", "cancelled")


@router.get("/jobs")
async def jobs(
    *,
    request: Request,
    context: InContext,
    caller: Reader,
    state: Annotated[str, Query(max_length=16)] = "",
    cursor: Cursor = None,
    study: Annotated[StudyName | None, Query()] = None,
    dataset: Annotated[Sequence[DatasetName], Query(max_length=256)] = (),
    seed: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """List the jobs. study, dataset, seed: what the form has at first."""
    rows = await context.read(
        repository.page_newest_first, state=state or None, study=None, before_id=cursor_position(cursor),
        limit=_PER_PAGE + 1, within=caller.grant,
    )  # fmt: skip
    found = page_of(rows, limit=_PER_PAGE, item=JobRead.of, position=lambda row: row.id)
    form = await context.read(_choices, context, caller.grant)
    return page(
        request, "jobs.html", title="Jobs", topics="jobs audit", jobs=found.items, older=found.next_cursor,
        states=_STATES, state=state, chosen={"study": study, "datasets": set(dataset), "seed": seed},
        key=secrets.token_urlsafe(16), **form,
    )  # fmt: skip


def _choices(session: Session, context: Context, grant: Grant) -> dict[str, Any]:
    """Return what the form offers: studies, datasets, and ensembles to compare with."""
    rows = channels.list_page(session, cca=None, after_id=None, limit=_MOST_CHANNELS, within=grant)
    query = select(EnsembleRow.digest, EnsembleRow.cca).order_by(EnsembleRow.id.desc()).limit(_MOST_BASELINES)
    newest = session.execute(narrowed(query, (EnsembleRow.cca, grant.ccas)))
    names = [(row.digest, f"{row.channel.cca}/{row.channel.name}, serial {row.serial}") for row in rows]
    known = {digest for digest, _ in names}
    names += [(digest, f"{cca}, not in a channel") for digest, cca in newest if digest not in known]
    return {
        "studies": study_names(context.settings.studies),
        "datasets": datasets.known(session, context.settings),
        "baselines": [(digest, f"{words} ({short(digest)})") for digest, words in names],
    }


@router.post("/jobs")
async def start(*, request: Request, context: InContext, caller: Trainer) -> Response:
    """Queue a job. A form that is sent twice queues one."""
    fields: dict[str, list[str]] = request.state.form
    body = model_of(JobSubmit, _wanted(fields))
    row = await submitted(context, body, by=caller, key=_first(fields, "key") or None)
    return see_other(request, f"jobs/{row.id}")


def _wanted(fields: dict[str, list[str]]) -> dict[str, Any]:
    seed, baseline = _first(fields, "seed"), _first(fields, "baseline")
    wanted: dict[str, Any] = {
        "study": _first(fields, "study"), "datasets": fields.get("datasets", []), "note": _first(fields, "note")
    }  # fmt: skip
    if seed:
        wanted["seed"] = int(seed) if seed.isascii() and seed.isdigit() and len(seed) <= _SEED_DIGITS else seed
    compared, paths = fields.get("compare_datasets", []), _first(fields, "paths")
    if baseline:
        over = compared or wanted["datasets"]
        wanted["compare"] = {"baseline": baseline, "datasets": over, "paths": paths or None}
    elif compared or paths:
        raise InvalidFormError("baseline: expected an ensemble to compare with, got none; choose one, or clear the "
                               "datasets and the paths of the comparison")  # fmt: skip
    return wanted


def _first(fields: dict[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[0]


@router.get("/jobs/{job_id}")
async def job(*, request: Request, context: InContext, caller: Reader, job_id: JobId) -> Response:
    """Show a job: how far it is, its best points, its attempts and its logs."""
    shown = await context.read(_job, context, caller, job_id=job_id)
    return page(request, "job.html", title=f"Job {job_id}", topics="jobs audit", **shown)


def _job(session: Session, context: Context, caller: Caller, *, job_id: int) -> dict[str, Any]:
    row = JobRead.of(service.job(session, job_id, by=caller))
    attempts = service.logs(session, job_id, by=caller)
    best = row.progress.best if row.progress else []
    heard_at = None
    if row.lease_until is not None:
        heard_at = row.lease_until - timedelta(seconds=context.settings.job_lease_s)
    return {
        "job": row,
        "attempts": attempts[::-1],
        "advice": _advice(row),
        "metrics": sorted({name for one in best for name in one.metrics}),
        "heard_at": heard_at,
        "is_late": row.lease_until is not None and row.lease_until <= context.clock(),
        "is_own": row.submitted_by == caller.name,
        **_charts(attempts),
    }


def _advice(job: JobRead) -> str:
    """Return what a person can do about the job, or nothing."""
    if job.state == "failed" and "lease was lost" in (job.error or ""):
        return (
            "Each time its runner ended without a word, or no longer reached the registry. Look at the log below, and "
            "at the memory and the network of the runner's machine. Then start the job again: a runner with the same "
            "folder of work continues from what was kept."
        )
    if job.state == "failed":
        return (
            "Training refused its input, so that another attempt would end alike. The end of the log says more. "
            "Correct the study or the recordings, and start the job again."
        )
    if job.state == "done" and job.error is not None:
        return (
            "The ensemble is published; only its comparison is missing. A roll-out that needs one takes it from "
            "ccatune evaluate CANDIDATE --baseline BASELINE --json."
        )
    return ""


def _charts(attempts: Sequence[JobAttemptRow]) -> dict[str, Any]:
    """Return the course of the latest attempt as rows of charts, over minutes since it began."""
    points = points_of(attempts[-1].course) if attempts else []
    times = [(f"{at_s / 60:.1f} min", round(at_s / 60, 3)) for at_s, *_ in points]
    return {
        "shares": [
            [at, (percent(share), round(100 * share, 2))] for at, (_, share, _, _) in zip(times, points, strict=True)
        ],
        "found": [
            [at, (str(found), found), (str(meeting), meeting)]
            for at, (_, _, found, meeting) in zip(times, points, strict=True)
        ],
    }


@router.post("/jobs/{job_id}/cancel")
async def cancel(*, request: Request, context: InContext, caller: Trainer, job_id: JobId) -> Response:
    """Cancel a job of the caller."""
    await context.write(service.cancel, job_id, by=caller, now=context.clock())
    return see_other(request, f"jobs/{job_id}")
