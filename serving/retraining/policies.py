# SPDX-License-Identifier: MIT
"""Rules for the policies of channels.

- A policy names a registered study of the channel's algorithm, and datasets of the registry's settings.
- It is not removed while a retraining has not ended.
- Each change leaves a row in the audit log, in the same transaction.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from serving.access import audit
from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.service import Change
from serving.database import RetrainingPolicyRow
from serving.datasets import service as datasets
from serving.errors import RetrainingPolicyNotFoundError, RetrainingRunningError, WrongAlgorithmError
from serving.jobs.studies import RegisteredStudy, read_study
from serving.retraining import repository
from serving.retraining.schemas import RetrainingPolicy
from serving.settings import ServingSettings


def study_of(session: Session, wanted: RetrainingPolicy, *, cca: str, settings: ServingSettings) -> RegisteredStudy:
    """Return the policy's study.

    Raises:
        StudyNotFoundError, DatasetNotFoundError: the registry does not know it, or one of its datasets.
        DatasetMissingError: it needs recordings, and the policy names no dataset to train on.
        WrongAlgorithmError: it trains another algorithm.
    """
    datasets.require_known(session, settings, [*wanted.datasets, *wanted.compare.datasets])
    study = read_study(settings.studies, wanted.study, datasets=wanted.datasets)
    if study.cca != cca:
        raise WrongAlgorithmError(f"study {study.name}: expected a study of {cca}, got one of {study.cca}")
    return study


def set_policy(
    session: Session, change: Change, wanted: RetrainingPolicy, *, settings: ServingSettings
) -> RetrainingPolicyRow:
    """Set the policy of the channel, and return it.

    Raises:
        ChannelNotFoundError: the channel has no deployment.
        StudyNotFoundError, DatasetNotFoundError, WrongAlgorithmError: see `study_of`.
    """
    study_of(session, wanted, cca=change.cca, settings=settings)
    moves.current(session, cca=change.cca, name=change.name)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    row = repository.policy(session, cca=change.cca, name=change.name)
    if row is None:
        row = RetrainingPolicyRow(channel=channel)
        session.add(row)
    row.policy, row.set_by, row.set_at = wanted.model_dump_json(), change.by.name, change.clock()
    record(session, change, "set-retraining", policy=wanted.model_dump(mode="json"))
    session.flush()
    return row


def find(session: Session, *, cca: str, name: str) -> RetrainingPolicyRow:
    """Return the policy of the channel. Raises RetrainingPolicyNotFoundError."""
    row = repository.policy(session, cca=cca, name=name)
    if row is None:
        raise RetrainingPolicyNotFoundError(
            f"expected a channel with a policy of retraining, got {cca}/{name}; set one (`ccatune retrain set`)"
        )
    return row


def remove(session: Session, change: Change) -> None:
    """Remove the policy of the channel.

    Raises:
        RetrainingPolicyNotFoundError: there is none.
        RetrainingRunningError: a retraining of the channel has not ended.
    """
    find(session, cca=change.cca, name=change.name)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    row = find(session, cca=change.cca, name=change.name)
    running = repository.find_open(session, channel_id=channel.id)
    if running is not None:
        raise RetrainingRunningError(
            f"{change.cca}/{change.name}: expected no retraining under way, retraining {running.id} is "
            f"{running.state}; dismiss it, or abort its roll-out, and remove the policy then"
        )
    session.delete(row)
    record(session, change, "remove-retraining")


def record(session: Session, change: Change, action: str, **details: object) -> None:
    """Write a row about the channel into the audit log."""
    target = f"channel {change.cca}/{change.name}"
    audit.record(session, by=change.by, action=action, target=target, now=change.clock(), **details)
