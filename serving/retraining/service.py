# SPDX-License-Identifier: MIT
"""Rules for retrainings.

- A channel has at most one retraining that has not ended. Each change of one locks the channel's row first, reads the
  retraining again, and is one transaction with what it does elsewhere: the job is queued in the transaction that begins
  `training`, and the roll-out begins in the one that begins `rolling-out`. A process that is killed thus loses nothing,
  and two processes do nothing twice.
- A person approves the training and the roll-out, or the policy is `automatic`. A person's approval is carried out at
  once or refused. An automatic step that cannot be done stays, with its obstacle, and is tried again.
- An automatic policy never begins a roll-out against an objection. A person needs a reason for that.
- Objections are those of the shadow gate, and an earlier roll-out of the same candidate that was aborted.
- Before the roll-out, a retraining ends as superseded if the channel has another ensemble than it began with. By a
  roll-out of someone else the channel has its baseline, until it is promoted.
- Its job is cancelled with a retraining that is dismissed or superseded.
- Each change leaves a row in the audit log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.access.grants import local_caller
from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.service import Change
from serving.database import ChannelRow, RetrainingRow
from serving.drift.service import DEFAULT_HOURS, ChannelDrift
from serving.errors import (
    JobEndedError,
    JobNotFoundError,
    RetrainingNotFoundError,
    RetrainingRunningError,
    RetrainingStateError,
    ServingError,
    ShadowGateError,
)
from serving.jobs import repository as stored_jobs
from serving.jobs import service as jobs
from serving.jobs.schemas import JobCompare, JobSubmit
from serving.retraining import ACTOR, policies, repository
from serving.retraining.schemas import RetrainingPolicy, RetrainingState, policy_of, shadow_of
from serving.rollouts import repository as stored_rollouts
from serving.rollouts import service as rollouts
from serving.rollouts.schemas import RolloutStart
from serving.rollouts.shadow import objections
from serving.settings import ServingSettings

_UNCHANGED = (
    "The training gave the ensemble that the channel has: it is the best one for these recordings. Record the network "
    "anew, on each runner."
)


def drifted(session: Session, drift: ChannelDrift, *, now: datetime) -> list[tuple[ChannelRow, str, list[str]]]:
    """Return the channels to propose a retraining for, each with its ensemble's digest and the reasons."""
    watched = [
        (policy.channel, row)
        for policy, row in repository.watched(session)
        if not _rests(session, policy_of(policy), channel_id=row.channel_id, now=now)
    ]
    summaries = drift.summaries(session, [row for _, row in watched], now=now)
    found = []
    for (channel, row), summary in zip(watched, summaries, strict=True):
        if summary.verdict == "drifted":
            cca, name = channel.cca, channel.name
            details = drift.details(
                session, cca=cca, name=name, hours=DEFAULT_HOURS, now=now, caller=local_caller(ACTOR)
            )
            found.append((channel, row.digest, details.reasons))
    return found


def _rests(session: Session, policy: RetrainingPolicy, *, channel_id: int, now: datetime) -> bool:
    ended_at = repository.last_end(session, channel_id=channel_id)
    return ended_at is not None and now < ended_at + timedelta(hours=policy.rest_hours)


def propose(session: Session, change: Change, *, digest: str, reasons: Sequence[str]) -> None:
    """Propose a retraining of a channel whose ensemble, `digest`, has drifted, unless the channel changed meanwhile."""
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    policy = repository.policy(session, cca=change.cca, name=change.name)
    is_open = repository.find_open(session, channel_id=channel.id) is not None
    if policy is None or is_open or _digest_in_force(session, channel) != digest:
        return
    if not _rests(session, policy_of(policy), channel_id=channel.id, now=change.clock()):
        _open(session, channel, change, digest=digest, reasons=reasons, note="")


def start(session: Session, change: Change, *, note: str, settings: ServingSettings) -> RetrainingRow:
    """Begin a retraining without a drift, and its training.

    Raises:
        RetrainingPolicyNotFoundError: the channel has no policy.
        ChannelNotFoundError: it has no deployment.
        RetrainingRunningError: it has a retraining that has not ended.
        StudyNotFoundError, DatasetNotFoundError, WrongAlgorithmError, TooManyJobsError: as for a job.
    """
    policies.find(session, cca=change.cca, name=change.name)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    policy = policy_of(policies.find(session, cca=change.cca, name=change.name))
    running = repository.find_open(session, channel_id=channel.id)
    if running is not None:
        raise RetrainingRunningError(
            f"{change.cca}/{change.name}: expected no retraining under way, retraining {running.id} is {running.state}"
        )
    digest = _digest_in_force(session, channel)
    if digest is None:
        moves.deployed_by(session, channel)
    reasons = [f"{change.by.name} requested it."]
    row = _open(session, channel, change, digest=str(digest), reasons=reasons, note=note)
    _train(session, row, change, policy, settings=settings)
    return row


def _open(
    session: Session, channel: ChannelRow, change: Change, *, digest: str, reasons: Sequence[str], note: str
) -> RetrainingRow:
    now = change.clock()
    row = RetrainingRow(
        channel=channel, state="proposed", reasons=json.dumps(list(reasons)), baseline=digest, objections="[]",
        note=note, started_by=change.by.name, started_at=now, changed_at=now,
    )  # fmt: skip
    session.add(row)
    session.flush()
    policies.record(session, change, "open-retraining", retraining=row.id, reasons=list(reasons), note=note)
    return row


def get(session: Session, *, cca: str, name: str, retraining_id: int) -> RetrainingRow:
    """Return a retraining of the channel. Raises RetrainingNotFoundError."""
    row = repository.find(session, retraining_id)
    if row is None or (row.channel.cca, row.channel.name) != (cca, name):
        raise RetrainingNotFoundError(
            f"expected the number of a retraining of {cca}/{name}, got {retraining_id}; `ccatune retrain list` shows "
            "them"
        )
    return row


def approve_training(
    session: Session, change: Change, retraining_id: int, *, note: str, settings: ServingSettings
) -> RetrainingRow:
    """Begin the training that was proposed.

    Raises:
        RetrainingNotFoundError.
        RetrainingStateError: it is not proposed, or the channel has another ensemble meanwhile.
        StudyNotFoundError, DatasetNotFoundError, WrongAlgorithmError, TooManyJobsError: as for a job.
    """
    row, policy = _for_approval(session, change, retraining_id, state="proposed")
    row.note = note
    _train(session, row, change, policy, settings=settings)
    return row


def approve_rollout(
    session: Session, change: Change, retraining_id: int, *, note: str, force: str, settings: ServingSettings
) -> RetrainingRow:
    """Begin the roll-out of the trained ensemble. force: a reason, which objections need.

    Raises:
        RetrainingNotFoundError.
        RetrainingStateError: it is not trained, or the channel has another ensemble meanwhile.
        ShadowGateError: there are objections, and `force` gives no reason.
        RolloutRunningError, RolloutImpossibleError, EnsembleUnsignedError, RootExpiredError: as for a roll-out.
    """
    row, policy = _for_approval(session, change, retraining_id, state="trained")
    row.note = note
    _roll_out(session, row, change, policy, force=force, settings=settings)
    return row


def dismiss(session: Session, change: Change, retraining_id: int, *, note: str) -> RetrainingRow:
    """End a retraining before its roll-out, and cancel its job.

    Raises:
        RetrainingNotFoundError.
        RetrainingStateError: it has ended, or its roll-out has begun.
    """
    row = _locked(session, change, retraining_id)
    if row.state not in {"proposed", "training", "trained"}:
        raise _state_error(row, "proposed, training or trained", "abort the roll-out instead")
    row.note = note
    _end_without_job(session, row, change, "dismissed", note or f"{change.by.name} dismissed it.")
    return row


def step(session: Session, change: Change, retraining_id: int, *, settings: ServingSettings) -> int | None:
    """Take the next step of a retraining if it is due. Return the channel's revision if a roll-out began."""
    row = _locked(session, change, retraining_id)
    if row.ended_at is not None:
        return None
    channel, policy = row.channel, policy_of(policies.find(session, cca=change.cca, name=change.name))
    before = channel.revision
    if row.state == "rolling-out":
        _follow_rollout(session, row, change)
    elif _digest_in_force(session, channel) != row.baseline:
        _end_without_job(session, row, change, "superseded", "The channel was moved to another ensemble meanwhile.")
    elif row.state == "training":
        _follow_job(session, row, change, policy)
    else:
        if row.shadow is not None:
            row.objections = json.dumps(_objections(session, row, policy))
        if policy.automatic:
            _try(session, row, change, policy, settings=settings)
    session.flush()
    return channel.revision if channel.revision != before else None


def _try(
    session: Session, row: RetrainingRow, change: Change, policy: RetrainingPolicy, *, settings: ServingSettings
) -> None:
    """Train, or roll out without objections. What cannot be done changes nothing but the obstacle."""
    obstacle = None
    try:
        with session.begin_nested():
            if row.state == "proposed":
                _train(session, row, change, policy, settings=settings)
            elif not _objections(session, row, policy):
                _roll_out(session, row, change, policy, force="", settings=settings)
    except ServingError as error:
        obstacle = str(error)
    row.obstacle = obstacle


def _train(
    session: Session, row: RetrainingRow, change: Change, policy: RetrainingPolicy, *, settings: ServingSettings
) -> None:
    study = policies.study_of(session, policy, cca=change.cca, settings=settings)
    wanted = JobSubmit(
        study=policy.study, datasets=policy.datasets, note=f"retraining {row.id} of {change.cca}/{change.name}",
        compare=JobCompare(baseline=row.baseline, **policy.compare.model_dump()),
    )  # fmt: skip
    job = jobs.submit(
        session, wanted, study, by=change.by, now=change.clock(), most=settings.jobs_per_principal, idempotency=None
    )
    row.job_id = job.id
    _advance(session, row, change, "training", job=job.id)


def _roll_out(
    session: Session,
    row: RetrainingRow,
    change: Change,
    policy: RetrainingPolicy,
    *,
    force: str,
    settings: ServingSettings,
) -> None:
    against = _objections(session, row, policy)
    if against and not force:
        raise ShadowGateError(f"{' '.join(against)} Give a reason as `force` to begin nevertheless")
    wanted = RolloutStart(
        digest=str(row.candidate), plan=policy.plan, hold_back_permille=policy.hold_back_permille,
        note=row.note or f"retraining {row.id}", shadow=shadow_of(row), force=force,
    )  # fmt: skip
    kept_days = settings.qos_agent_retention_days
    rollout = rollouts.start(session, change, wanted, kept_days=kept_days, needs_shadow=True)
    row.rollout_id = rollout.id
    _advance(session, row, change, "rolling-out", rollout=rollout.id, objections=against, force=force)


def _follow_job(session: Session, row: RetrainingRow, change: Change, policy: RetrainingPolicy) -> None:
    job = stored_jobs.job(session, row.job_id or 0)
    if job is None:
        _end(session, row, change, "failed", f"Job {row.job_id} was deleted before its end was seen.")
    elif job.state in {"failed", "cancelled"}:
        _end(session, row, change, "failed", f"Job {job.id} {job.state}: {job.error}" if job.error else
             f"Job {job.id} was cancelled.")  # fmt: skip
    elif job.state == "done" and job.digest == row.baseline:
        _end(session, row, change, "unchanged", _UNCHANGED)
    elif job.state == "done":
        row.candidate, row.shadow = job.digest, job.shadow
        against = _objections(session, row, policy)
        if job.shadow is None:
            against.append(f"The comparison failed: {job.error}")
        row.objections = json.dumps(against)
        _advance(session, row, change, "trained", candidate=job.digest, objections=against)


def _objections(session: Session, row: RetrainingRow, policy: RetrainingPolicy) -> list[str]:
    """Return why the candidate needs a reason, by the policy of now."""
    candidate = str(row.candidate)
    against = objections(shadow_of(row), baseline=row.baseline, candidate=candidate, plan=policy.plan)
    aborted = repository.aborted_rollout(session, channel_id=row.channel_id, digest=candidate)
    if aborted is not None:
        against.append(f"Roll-out {aborted} of the same candidate was aborted.")
    return against


def _follow_rollout(session: Session, row: RetrainingRow, change: Change) -> None:
    rollout = stored_rollouts.find(session, row.rollout_id or 0)
    if rollout is not None and rollout.ended_at is not None:
        state: RetrainingState = "promoted" if rollout.state == "promoted" else "aborted"
        _end(session, row, change, state, f"Roll-out {rollout.id} was {rollout.state}.")


def _digest_in_force(session: Session, channel: ChannelRow) -> str | None:
    """Return the digest of the channel's deployment, or of the baseline of its roll-out; None without a deployment."""
    rollout = stored_rollouts.find_open(session, channel_id=channel.id)
    serial = channel.current_serial if rollout is None else rollout.baseline_serial
    row = channels.deployment(session, channel_id=channel.id, serial=serial)
    return None if row is None else row.digest


def _locked(session: Session, change: Change, retraining_id: int) -> RetrainingRow:
    """Return a retraining with its channel, both locked until the transaction ends. Raises RetrainingNotFoundError."""
    get(session, cca=change.cca, name=change.name, retraining_id=retraining_id)
    channels.channel_for_move(session, cca=change.cca, name=change.name)
    return get(session, cca=change.cca, name=change.name, retraining_id=retraining_id)


def _for_approval(
    session: Session, change: Change, retraining_id: int, *, state: RetrainingState
) -> tuple[RetrainingRow, RetrainingPolicy]:
    row = _locked(session, change, retraining_id)
    if row.state != state:
        raise _state_error(row, state, "look at it again")
    if _digest_in_force(session, row.channel) != row.baseline:
        raise _state_error(row, "about the channel's ensemble", "the channel was moved, so it will end as superseded")
    return row, policy_of(policies.find(session, cca=change.cca, name=change.name))


def _state_error(row: RetrainingRow, expected: str, advice: str) -> RetrainingStateError:
    return RetrainingStateError(f"retraining {row.id}: expected it to be {expected}, it is {row.state}; {advice}")


def _end_without_job(
    session: Session, row: RetrainingRow, change: Change, state: RetrainingState, outcome: str
) -> None:
    if row.state == "training" and row.job_id is not None:
        # Someone else may have submitted the job. Who ends the retraining ends it, too.
        by = dataclasses.replace(change.by, grant=local_caller(change.by.name).grant)
        with contextlib.suppress(JobEndedError, JobNotFoundError):
            jobs.cancel(session, row.job_id, by=by, now=change.clock())
    _end(session, row, change, state, outcome)


def _end(session: Session, row: RetrainingRow, change: Change, state: RetrainingState, outcome: str) -> None:
    row.outcome, row.ended_at = outcome, change.clock()
    _advance(session, row, change, state, outcome=outcome)


def _advance(session: Session, row: RetrainingRow, change: Change, state: RetrainingState, **details: object) -> None:
    row.state, row.changed_at, row.obstacle = state, change.clock(), None
    action = "advance-retraining" if row.ended_at is None else "end-retraining"
    policies.record(session, change, action, retraining=row.id, state=state, note=row.note, **details)
    session.flush()
