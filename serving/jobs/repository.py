# SPDX-License-Identifier: MIT
"""Database queries on jobs and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, func, or_, select
from sqlalchemy.orm import Session, undefer

from serving.access.grants import Grant
from serving.database import JobAttemptRow, JobRow, RegistryRow, narrowed

_IS_QUEUED = JobRow.state == "queued"
_IS_ACTIVE = JobRow.state.in_(("queued", "running"))


def _has_run_out(now: datetime) -> ColumnElement[bool]:
    return and_(JobRow.state == "running", JobRow.lease_until <= now)


def lock_queue(session: Session) -> None:
    """Let other submissions and leases wait until the transaction ends. Numbers, keys and leases stay as found."""
    session.execute(select(RegistryRow.id).with_for_update())


def n_active_of(session: Session, principal: str) -> int:
    """Return the number of queued and running jobs of a principal."""
    query = select(func.count()).select_from(JobRow).where(JobRow.submitted_by == principal, _IS_ACTIVE)
    return session.scalars(query).one()


def job_of_key(session: Session, *, principal: str, key: str) -> JobRow | None:
    """Return the job that the principal submitted with this idempotency key, or None."""
    return session.scalar(select(JobRow).where(JobRow.submitted_by == principal, JobRow.idempotency_key == key))


def job(session: Session, job_id: int) -> JobRow | None:
    """Return the job with that id, or None."""
    return session.get(JobRow, job_id)


def job_for_update(session: Session, job_id: int) -> JobRow | None:
    """Return the job with that id, locked until the transaction ends, or None."""
    query = select(JobRow).where(JobRow.id == job_id).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def may_lease(session: Session, *, lease: str, now: datetime) -> bool:
    """Whether a job is queued, or could be taken from its runner, or has this lease already."""
    query = select(JobRow.id).where(or_(_IS_QUEUED, _has_run_out(now), JobRow.lease == lease)).limit(1)
    return session.scalar(query) is not None


def running_with_lease(session: Session, lease: str) -> JobRow | None:
    """Return the running job with this lease, with its study, or None."""
    query = select(JobRow).where(JobRow.state == "running", JobRow.lease == lease).options(undefer(JobRow.study_text))
    return session.scalar(query)


def queued(session: Session, *, within: Grant) -> Sequence[JobRow]:
    """Return the queued jobs within the grant, in their order."""
    query = select(JobRow).where(_IS_QUEUED).order_by(JobRow.id)
    return session.scalars(narrowed(query, (JobRow.cca, within.ccas))).all()


def lock_queued(session: Session, job_id: int) -> JobRow | None:
    """Return the job, with its study, locked, or None if another transaction has it, as one that cancels it."""
    query = select(JobRow).where(JobRow.id == job_id, _IS_QUEUED).with_for_update(skip_locked=True)
    return session.scalar(query.options(undefer(JobRow.study_text)).execution_options(populate_existing=True))


def run_out(session: Session, *, now: datetime) -> Sequence[JobRow]:
    """Return the running jobs whose lease has run out, locked until the transaction ends."""
    return session.scalars(select(JobRow).where(_has_run_out(now)).with_for_update(skip_locked=True)).all()


def any_run_out(session: Session, *, now: datetime) -> bool:
    """Whether the lease of a running job has run out."""
    return session.scalar(select(JobRow.id).where(_has_run_out(now)).limit(1)) is not None


def attempt(session: Session, row: JobRow) -> JobAttemptRow:
    """Return the latest attempt at a job that has one."""
    query = select(JobAttemptRow).where(JobAttemptRow.job_id == row.id, JobAttemptRow.attempt == row.attempt)
    return session.scalars(query).one()


def latest_attempts(session: Session, job_id: int, *, limit: int) -> Sequence[JobAttemptRow]:
    """Return the latest attempts at a job, in their order."""
    query = select(JobAttemptRow).where(JobAttemptRow.job_id == job_id).order_by(JobAttemptRow.attempt.desc())
    return session.scalars(query.limit(limit)).all()[::-1]


def page_newest_first(
    session: Session, *, state: str | None, study: str | None, before_id: int | None, limit: int, within: Grant
) -> Sequence[JobRow]:
    """Return jobs within the grant with an id below `before_id`, newest first."""
    query = select(JobRow).order_by(JobRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(JobRow.id < before_id)
    asked = ((JobRow.state, state), (JobRow.study, study), (JobRow.cca, within.ccas))
    return session.scalars(narrowed(query, *asked)).all()


def ids_ended(session: Session, *, before: datetime, limit: int) -> Sequence[int]:
    """Return ids of jobs that ended before that time."""
    return session.scalars(select(JobRow.id).where(JobRow.ended_at < before).limit(limit)).all()


def delete_jobs(session: Session, ids: Sequence[int]) -> None:
    """Delete jobs with their attempts."""
    session.execute(delete(JobAttemptRow).where(JobAttemptRow.job_id.in_(ids)))
    session.execute(delete(JobRow).where(JobRow.id.in_(ids)))
