# SPDX-License-Identifier: MIT
"""Database queries on the flows of current ensembles."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Float, and_, func, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session, aliased

from serving.database import NONE, ChannelRow, DeploymentRow, EnsembleRow, QosRow
from serving.drift.judgement import LiveRow

_SUMS = (QosRow.epochs, QosRow.visits, QosRow.delay_samples, QosRow.delay_us, QosRow.within_target)


def live_rows(session: Session, channel_ids: Collection[int], *, since_hour: int) -> dict[int, list[LiveRow]]:
    """Return the sums of flows that use the channels' current ensembles, by channel.

    Deployments of the same ensemble under other serials count, too. Flows that are held back do not.
    """
    current = aliased(DeploymentRow)
    # As floating point, for SQLite fails where a sum of integers exceeds 63 bits.
    sums = [func.sum(sql_cast(column, Float)) for column in _SUMS]
    query = (
        select(QosRow.channel_id, QosRow.state, QosRow.delay_class, *sums)
        .join(ChannelRow, ChannelRow.id == QosRow.channel_id)
        .join(current, and_(current.channel_id == ChannelRow.id, current.serial == ChannelRow.current_serial))
        .join(
            DeploymentRow,
            and_(
                DeploymentRow.channel_id == QosRow.channel_id,
                DeploymentRow.serial == QosRow.serial,
                DeploymentRow.digest == current.digest,
            ),
        )
        .where(QosRow.hour >= since_hour, QosRow.held_back.is_(False), QosRow.channel_id.in_(channel_ids))
        .group_by(QosRow.channel_id, QosRow.state, QosRow.delay_class)
    )
    found: dict[int, list[LiveRow]] = {}
    for channel_id, state, delay_class, *counts in session.execute(query):
        row = LiveRow(
            None if state == NONE else state, None if delay_class == NONE else delay_class, *(int(n) for n in counts)
        )
        found.setdefault(channel_id, []).append(row)
    return found


def documents(session: Session, digests: Collection[str]) -> dict[str, str]:
    """Return the documents of ensembles, by digest."""
    query = select(EnsembleRow.digest, EnsembleRow.document).where(EnsembleRow.digest.in_(digests))
    return dict(session.execute(query).all())
