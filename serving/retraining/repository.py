# SPDX-License-Identifier: MIT
"""Database queries on retrainings and policies. Nothing here decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, exists, func, select
from sqlalchemy.orm import Session, contains_eager

from serving.database import ChannelRow, DeploymentRow, RetrainingPolicyRow, RetrainingRow, RolloutRow


def policy(session: Session, *, cca: str, name: str) -> RetrainingPolicyRow | None:
    """Return the policy of a channel, with the channel, or None."""
    query = select(RetrainingPolicyRow).join(RetrainingPolicyRow.channel)
    query = query.options(contains_eager(RetrainingPolicyRow.channel))
    query = query.where(ChannelRow.cca == cca, ChannelRow.name == name)
    return session.scalar(query.execution_options(populate_existing=True))


def any_policy(session: Session) -> bool:
    """Whether a channel has a policy. A retraining that has not ended needs one."""
    return session.scalar(select(RetrainingPolicyRow.channel_id).limit(1)) is not None


def find(session: Session, retraining_id: int) -> RetrainingRow | None:
    """Return the retraining with its channel, or None."""
    query = select(RetrainingRow).join(RetrainingRow.channel).options(contains_eager(RetrainingRow.channel))
    return session.scalar(query.where(RetrainingRow.id == retraining_id).execution_options(populate_existing=True))


def find_open(session: Session, *, channel_id: int) -> RetrainingRow | None:
    """Return the channel's retraining that has not ended, or None."""
    query = select(RetrainingRow).where(RetrainingRow.channel_id == channel_id, RetrainingRow.ended_at.is_(None))
    return session.scalar(query)


def open_ones(session: Session) -> Sequence[tuple[int, str, str]]:
    """Return number, algorithm and channel of each retraining that has not ended."""
    query = select(RetrainingRow.id, ChannelRow.cca, ChannelRow.name).join(RetrainingRow.channel)
    rows = session.execute(query.where(RetrainingRow.ended_at.is_(None)).order_by(RetrainingRow.id))
    return [(number, cca, name) for number, cca, name in rows]


def page(session: Session, *, cca: str, name: str, before_id: int | None, limit: int) -> Sequence[RetrainingRow]:
    """Return retrainings of a channel with a number below `before_id`, newest first."""
    query = select(RetrainingRow).join(RetrainingRow.channel).options(contains_eager(RetrainingRow.channel))
    query = query.where(ChannelRow.cca == cca, ChannelRow.name == name)
    if before_id is not None:
        query = query.where(RetrainingRow.id < before_id)
    return session.scalars(query.order_by(RetrainingRow.id.desc()).limit(limit)).all()


def last_end(session: Session, *, channel_id: int) -> datetime | None:
    """Return when the channel's last retraining ended, or None."""
    return session.scalar(select(func.max(RetrainingRow.ended_at)).where(RetrainingRow.channel_id == channel_id))


def watched(session: Session) -> Sequence[tuple[RetrainingPolicyRow, DeploymentRow]]:
    """Return policy and current deployment of each channel with a policy, without a retraining or a roll-out."""
    query = (
        select(RetrainingPolicyRow, DeploymentRow)
        .join(RetrainingPolicyRow.channel)
        .join(
            DeploymentRow,
            and_(DeploymentRow.channel_id == ChannelRow.id, DeploymentRow.serial == ChannelRow.current_serial),
        )
        .options(contains_eager(RetrainingPolicyRow.channel))
    )
    for table in (RetrainingRow, RolloutRow):
        query = query.where(~exists().where(table.channel_id == ChannelRow.id, table.ended_at.is_(None)))
    return [(policy_row, deployment) for policy_row, deployment in session.execute(query)]


def aborted_rollout(session: Session, *, channel_id: int, digest: str) -> int | None:
    """Return the last roll-out of this candidate that was aborted, or None."""
    query = select(func.max(RolloutRow.id)).where(
        RolloutRow.channel_id == channel_id, RolloutRow.digest == digest, RolloutRow.state == "aborted"
    )
    return session.scalar(query)
