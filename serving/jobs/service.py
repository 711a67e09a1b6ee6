# SPDX-License-Identifier: MIT
"""Rules for jobs.

- A job is queued, then running under a lease, and then done, failed or cancelled, for ever.
- One runner has a job at a time. Its reports carry the random word of its lease; those with another are refused.
- A lease ends when no heartbeat came for `job_lease_s`. The job is then queued again, and so it is if its runner stops.
- A job fails if training refused its input, or if its lease was lost `job_losses` times.
- A done job's ensemble is published in the transaction that ends the job. Channels do not move.
- A job that compares goes to runners that say that they can. Its end has the comparison, or says why there is none.
- A job whose cancellation was requested ends as cancelled, whatever its runner reports afterwards.
- A principal has at most `jobs_per_principal` queued and running jobs.
- A submission that is repeated with its idempotency key makes no second job, and a repeated end changes nothing.
- A submission, a cancellation, and an end as done or failed leave a row in the audit log, in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.grants import Caller, local_caller
from serving.channels.schemas import Idempotency
from serving.channels.service import require_ensemble
from serving.database import EnsembleRow, JobAttemptRow, JobRow
from serving.ensembles import repository as stored_ensembles
from serving.ensembles import service as ensembles
from serving.errors import (
    JobEndedError,
    JobNotFoundError,
    LeaseLostError,
    NotPermittedError,
    ShadowMismatchError,
    TooManyJobsError,
    WrongAlgorithmError,
)
from serving.jobs import repository
from serving.jobs.course import extended
from serving.jobs.schemas import (
    AttemptEnd,
    Heartbeat,
    JobCompare,
    JobState,
    JobSubmit,
    LeasedCompare,
    LeaseRequest,
    Outcome,
)
from serving.jobs.studies import RegisteredStudy

_SHOWN_ATTEMPTS = 20
# The audit log calls the registry so where it ends a job by itself.
_REGISTRY = local_caller("registry")


def submit(
    session: Session,
    wanted: JobSubmit,
    study: RegisteredStudy,
    *,
    by: Caller,
    now: datetime,
    most: int,
    idempotency: Idempotency | None,
) -> JobRow:
    """Queue a job. most: queued and running jobs of the principal.

    Raises:
        TooManyJobsError: the principal has that many jobs already.
        EnsembleNotFoundError, WrongAlgorithmError: the baseline is not published, or is of another algorithm.
        IdempotencyKeyReusedError: another request of the principal had the same idempotency key.
    """
    repository.lock_queue(session)
    if idempotency is not None:
        known = repository.job_of_key(session, principal=by.name, key=idempotency.key)
        if known is not None:
            idempotency.require_same_request(known.request_digest, of=f"job {known.id}")
            return known
    compare = wanted.compare
    if compare is not None:
        require_ensemble(session, compare.baseline, cca=study.cca)
    n_active = repository.n_active_of(session, by.name)
    if n_active >= most:
        raise TooManyJobsError(
            f"expected fewer than {most} queued and running jobs of {by.name}, got {n_active}; "
            "wait until one ends, or cancel one"
        )
    row = JobRow(
        study=study.name,
        study_text=study.text,
        cca=study.cca,
        datasets=" ".join(sorted(set(wanted.datasets))),
        seed=wanted.seed,
        note=wanted.note,
        submitted_by=by.name,
        submitted_at=now,
        idempotency_key=None if idempotency is None else idempotency.key,
        request_digest=None if idempotency is None else idempotency.request_digest,
        state="queued",
        is_cancelling=False,
        attempt=0,
        losses=0,
        compare=None if compare is None else compare.model_dump_json(),
    )
    session.add(row)
    session.flush()
    details: dict[str, object] = {
        "study": row.study, "datasets": row.datasets.split(), "seed": row.seed, "note": row.note
    }  # fmt: skip
    details |= {} if compare is None else {"compare": compare.model_dump()}
    _record(session, row, "submit-job", by=by, now=now, **details)
    return row


def lease(
    session: Session, wanted: LeaseRequest, *, by: Caller, now: datetime, lease_s: float, most_losses: int
) -> JobRow | None:
    """Lease the first queued job whose datasets the runner has, or None. A repeated request gets the same job."""
    repository.lock_queue(session)
    held = repository.running_with_lease(session, wanted.lease)
    if held is not None:
        return held
    end_leases(session, now=now, most_losses=most_losses)
    for candidate in repository.queued(session, within=by.grant):
        if _can_run(wanted, candidate):
            row = repository.lock_queued(session, candidate.id)
            if row is not None:
                _begin(session, row, wanted, now=now, lease_s=lease_s)
                return row
    return None


def _can_run(wanted: LeaseRequest, row: JobRow) -> bool:
    compare = _compare_of(row)
    needed = {*row.datasets.split(), *(compare.datasets if compare else ())}
    return needed.issubset(wanted.datasets) and (compare is None or wanted.compares)


def _compare_of(row: JobRow) -> JobCompare | None:
    return None if row.compare is None else JobCompare.model_validate_json(row.compare)


def leased_compare(session: Session, compare: str) -> LeasedCompare:
    """Return a job's comparison with the baseline's document, for its runner. compare: as JSON."""
    wanted = JobCompare.model_validate_json(compare)
    found = stored_ensembles.cca_and_document(session, wanted.baseline)
    assert found is not None  # noqa: S101 - ensembles are never deleted
    return LeasedCompare(**wanted.model_dump(), document=json.loads(found[1]))


def _begin(session: Session, row: JobRow, wanted: LeaseRequest, *, now: datetime, lease_s: float) -> None:
    row.state, row.attempt = "running", row.attempt + 1
    row.runner, row.lease, row.lease_until = wanted.runner, wanted.lease, now + timedelta(seconds=lease_s)
    row.started_at, row.progress = row.started_at or now, None
    session.add(JobAttemptRow(job_id=row.id, attempt=row.attempt, runner=wanted.runner, began_at=now, log=""))
    session.flush()


def beat(session: Session, job_id: int, said: Heartbeat, *, by: Caller, now: datetime, lease_s: float) -> JobRow:
    """Renew the lease, and store progress and log.

    Raises:
        JobNotFoundError, NotPermittedError.
        LeaseLostError: the runner has no lease of the job.
    """
    row = _held(session, job_id, said.lease, by=by)
    if row.state != "running":
        raise _lost(row)
    row.lease_until = now + timedelta(seconds=lease_s)
    if said.progress is not None:
        row.progress = json.dumps(said.progress.model_dump())
        attempt = repository.attempt(session, row)
        at_s = (now - attempt.began_at).total_seconds()
        attempt.course = extended(attempt.course, said.progress, at_s=at_s)
    if said.log is not None:
        repository.attempt(session, row).log = said.log
    return row


def end(
    session: Session,
    job_id: int,
    said: AttemptEnd,
    ensemble: EnsembleRow | None,
    *,
    by: Caller,
    now: datetime,
    most_losses: int,
) -> JobRow:
    """End an attempt, and the job unless it is queued again. ensemble: the prepared row of a job that is done.

    Raises:
        JobNotFoundError, NotPermittedError.
        LeaseLostError: the runner has no lease of the job.
        WrongAlgorithmError: the ensemble belongs to another algorithm than the job.
        ShadowMismatchError: the comparison is of other ensembles, or is missing.
    """
    row = _held(session, job_id, said.lease, by=by)
    if row.state != "running":
        return row
    if said.log is not None:
        repository.attempt(session, row).log = said.log
    if row.is_cancelling or said.outcome == "cancelled":
        _end(session, row, "cancelled", outcome=said.outcome, now=now)
    elif ensemble is not None:
        if ensemble.cca != row.cca:
            raise WrongAlgorithmError(f"expected an ensemble of {row.cca}, got {ensemble.digest} of {ensemble.cca}")
        _require_compared(row, said, digest=ensemble.digest)
        stored, _ = ensembles.publish(session, ensemble, by=by, now=now)
        row.digest, row.error = stored.digest, said.error
        row.shadow = None if said.shadow is None else said.shadow.model_dump_json()
        _end(session, row, "done", outcome="done", now=now)
        _record(session, row, "finish-job", by=by, now=now, digest=stored.digest, attempt=row.attempt)
    elif said.outcome == "failed":
        _fail(session, row, said.error or "", outcome="failed", by=by, now=now)
    else:
        error = said.error if said.outcome == "lost" else None
        _queue_again(session, row, error, outcome=said.outcome, by=by, now=now, most_losses=most_losses)
    return row


def _require_compared(row: JobRow, said: AttemptEnd, *, digest: str) -> None:
    compare, shadow = _compare_of(row), said.shadow
    expected = None if compare is None or compare.baseline == digest else (compare.baseline, digest)
    got = None if shadow is None else (shadow.baseline_digest, shadow.candidate_digest)
    if got != expected and not (got is None and said.error is not None):
        words = ["none" if one is None else f"one of {one[0]} with {one[1]}" for one in (expected, got)]
        raise ShadowMismatchError(f"job {row.id}: shadow: expected {words[0]}, got {words[1]}")


def cancel(session: Session, job_id: int, *, by: Caller, now: datetime) -> JobRow:
    """Cancel a queued job at once, and a running one with the next heartbeat of its runner.

    Raises:
        JobNotFoundError.
        NotPermittedError: another principal submitted the job, and the token is no administrator's.
        JobEndedError: it is done or has failed.
    """
    row = _found(repository.job_for_update(session, job_id), job_id)
    by.require("train", cca=row.cca)
    if row.submitted_by != by.name and "admin" not in by.grant.scopes:
        raise NotPermittedError(
            f"expected a job of {by.name}, got one of {row.submitted_by}; an administrator may cancel it"
        )
    if row.state == "cancelled" or row.is_cancelling:
        return row
    if row.ended_at is not None:
        raise JobEndedError(f"job {row.id}: expected a queued or running job, got one that is {row.state}")
    row.is_cancelling = True
    if row.state == "queued":
        _leave(row, "cancelled", now=now)
    _record(session, row, "cancel-job", by=by, now=now)
    return row


def end_leases(session: Session, *, now: datetime, most_losses: int) -> None:
    """Queue the jobs again whose lease has run out, or end those that were lost too often or are cancelled."""
    for row in repository.run_out(session, now=now):
        if row.is_cancelling:
            _end(session, row, "cancelled", outcome="lost", now=now)
            continue
        error = f"the lease of {row.runner} ran out: no heartbeat came"
        _queue_again(session, row, error, outcome="lost", by=_REGISTRY, now=now, most_losses=most_losses)


def job(session: Session, job_id: int, *, by: Caller) -> JobRow:
    """Return a job. Raises JobNotFoundError, NotPermittedError."""
    row = _found(repository.job(session, job_id), job_id)
    by.require("read", cca=row.cca)
    return row


def logs(session: Session, job_id: int, *, by: Caller) -> Sequence[JobAttemptRow]:
    """Return the latest attempts at a job, in their order. Raises JobNotFoundError, NotPermittedError."""
    row = job(session, job_id, by=by)
    return repository.latest_attempts(session, row.id, limit=_SHOWN_ATTEMPTS)


def _found(row: JobRow | None, job_id: int) -> JobRow:
    if row is None:
        raise JobNotFoundError(
            f"expected the id of a job, got {job_id}; `ccatune jobs list` shows them, and jobs are deleted some days "
            "after their end"
        )
    return row


def _held(session: Session, job_id: int, lease_word: str, *, by: Caller) -> JobRow:
    """Return the job of a runner, locked."""
    row = _found(repository.job_for_update(session, job_id), job_id)
    by.require("run-jobs", cca=row.cca)
    if row.lease != lease_word:
        raise _lost(row)
    return row


def _lost(row: JobRow) -> LeaseLostError:
    return LeaseLostError(f"job {row.id}: expected the lease of a running job, got another; the job is {row.state}")


def _queue_again(
    session: Session, row: JobRow, error: str | None, *, outcome: Outcome, by: Caller, now: datetime, most_losses: int
) -> None:
    """error: of a loss; None for a runner that stops, which may do so any number of times."""
    if error is not None:
        row.losses += 1
        if row.losses >= most_losses:
            error = f"its lease was lost {row.losses} times, most recently: {error}"
            _fail(session, row, error, outcome=outcome, by=by, now=now)
            return
    _end_attempt(session, row, outcome=outcome, now=now)
    row.state, row.lease, row.lease_until, row.progress = "queued", None, None, None


def _fail(session: Session, row: JobRow, error: str, *, outcome: Outcome, by: Caller, now: datetime) -> None:
    row.error = error
    _end(session, row, "failed", outcome=outcome, now=now)
    _record(session, row, "fail-job", by=by, now=now, error=error, attempt=row.attempt)


def _end(session: Session, row: JobRow, state: JobState, *, outcome: Outcome, now: datetime) -> None:
    _end_attempt(session, row, outcome=outcome, now=now)
    _leave(row, state, now=now)


def _end_attempt(session: Session, row: JobRow, *, outcome: Outcome, now: datetime) -> None:
    attempt = repository.attempt(session, row)
    attempt.ended_at, attempt.outcome = now, outcome


def _leave(row: JobRow, state: JobState, *, now: datetime) -> None:
    row.state, row.ended_at, row.lease_until = state, now, None


def _record(session: Session, row: JobRow, action: str, *, by: Caller, now: datetime, **details: object) -> None:
    audit.record(session, by=by, action=action, target=f"job {row.id}", now=now, **details)
