# SPDX-License-Identifier: MIT
"""The tables of training jobs.

    jobs            each submitted job with its study, its state, its lease and its latest progress
    job_attempts    each lease of a job: which runner had it, how the attempt ended, and the end of its log

Both are deleted some days after the job ended. Ids are never used twice, so a later job has no id of a deleted one.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from serving.database.models import DIGEST_CHARS, IDEMPOTENCY_KEY_CHARS, NAME_CHARS, PRINCIPAL_CHARS, Base, EnsembleRow
from serving.database.types import BigId

LEASE_CHARS = 64
RUNNER_CHARS = 128
_STATE_CHARS = 16


class JobRow(Base):
    """A training job.

    study, study_text: name and text (YAML) of the study when the job was submitted. datasets: names with one space
    between two. seed: replaces the study's; None keeps it.
    attempt: number of the latest lease, 0 before the first. losses: leases that ran out, or ended with a passing fault.
    lease: the random word of the runner that has the job, or had it at its end; None while the job is queued.
    progress: the latest progress of this attempt as JSON.
    compare: what the ensemble is compared with, as JSON (serving/jobs/schemas.py, JobCompare). shadow: the comparison.
    error: why it failed; of a job that is done, why there is no comparison.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "state"),
        Index(None, "submitted_by", "idempotency_key", unique=True),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    study: Mapped[str] = mapped_column(String(NAME_CHARS))
    study_text: Mapped[str] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    cca: Mapped[str] = mapped_column(String(NAME_CHARS))
    datasets: Mapped[str] = mapped_column(Text)
    seed: Mapped[int | None] = mapped_column(BigInteger)
    note: Mapped[str] = mapped_column(Text)
    submitted_by: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    submitted_at: Mapped[datetime]
    idempotency_key: Mapped[str | None] = mapped_column(String(IDEMPOTENCY_KEY_CHARS))
    request_digest: Mapped[str | None] = mapped_column(String(DIGEST_CHARS))
    state: Mapped[str] = mapped_column(String(_STATE_CHARS))
    is_cancelling: Mapped[bool]
    attempt: Mapped[int]
    losses: Mapped[int]
    runner: Mapped[str | None] = mapped_column(String(RUNNER_CHARS))
    lease: Mapped[str | None] = mapped_column(String(LEASE_CHARS))
    lease_until: Mapped[datetime | None]
    progress: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    digest: Mapped[str | None] = mapped_column(String(DIGEST_CHARS), ForeignKey(EnsembleRow.digest))
    error: Mapped[str | None] = mapped_column(Text)
    compare: Mapped[str | None] = mapped_column(Text)
    shadow: Mapped[str | None] = mapped_column(Text)


class JobAttemptRow(Base):
    """A lease of a job. outcome: how it ended; None while it runs. log: the end of the attempt's log.

    course: its progress over time, as JSON (serving/jobs/course.py).
    """

    __tablename__ = "job_attempts"
    __table_args__ = (UniqueConstraint("job_id", "attempt"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    job_id: Mapped[int] = mapped_column(BigId, ForeignKey(JobRow.id))
    attempt: Mapped[int]
    runner: Mapped[str] = mapped_column(String(RUNNER_CHARS))
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(_STATE_CHARS))
    log: Mapped[str] = mapped_column(Text)
    course: Mapped[str] = mapped_column(Text, default="[]", server_default="[]")
