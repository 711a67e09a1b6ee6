# SPDX-License-Identifier: MIT
"""Database queries for the figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Float, func, select, text
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session, contains_eager

from serving.agent.sums import COUNTS
from serving.database import (
    AgentRow,
    ChannelRow,
    DeploymentRow,
    JobRow,
    QosRow,
    RolloutRow,
)


class QosSums(NamedTuple):
    """The sums of an hour, in the order of COUNTS."""

    hour: int
    channel_id: int
    serial: int
    held_back: bool
    delay_class: int
    sums: tuple[int, ...]


def ping(session: Session) -> None:
    """Query nothing. Raises SQLAlchemyError if the database does not answer."""
    session.execute(text("SELECT 1"))


def schema_revision(session: Session) -> str | None:
    """Return the revision of the database's schema."""
    return MigrationContext.configure(session.connection()).get_current_revision()


def size_bytes(session: Session) -> int:
    """Return the size of a PostgreSQL database."""
    return int(session.scalar(text("SELECT pg_database_size(current_database())")) or 0)


def channels(session: Session, *, limit: int) -> Sequence[DeploymentRow]:
    """Return the current deployments of the oldest channels, with the channels."""
    query = (
        select(DeploymentRow)
        .join(DeploymentRow.channel)
        .where(DeploymentRow.serial == ChannelRow.current_serial)
        .options(contains_eager(DeploymentRow.channel))
    )
    return session.scalars(query.order_by(ChannelRow.id).limit(limit)).all()


def agents_by_state(session: Session) -> list[tuple[str, str, str, int]]:
    """Return algorithm, channel, state and number of the agents."""
    keys = (AgentRow.cca, AgentRow.channel, AgentRow.state)
    return [(*row,) for row in session.execute(select(*keys, func.count()).group_by(*keys))]


def rollouts_by_state(session: Session) -> dict[tuple[int, str], int]:
    """Return the number of roll-outs by channel and state."""
    keys = (RolloutRow.channel_id, RolloutRow.state)
    found = session.execute(select(*keys, func.count()).group_by(*keys))
    return {(channel_id, state): number for channel_id, state, number in found}


def deployed_after(session: Session, *, channel_id: int, serial: int) -> datetime | None:
    """Return when the first deployment after a serial was made, or None."""
    query = select(DeploymentRow.deployed_at).where(
        DeploymentRow.channel_id == channel_id, DeploymentRow.serial > serial
    )
    return session.scalar(query.order_by(DeploymentRow.serial).limit(1))


def jobs_by_state(session: Session) -> dict[str, int]:
    """Return the number of stored jobs by state."""
    return dict(session.execute(select(JobRow.state, func.count()).group_by(JobRow.state)).all())


def oldest_queued(session: Session) -> datetime | None:
    """Return when the oldest queued job was submitted, or None."""
    return session.scalar(select(func.min(JobRow.submitted_at)).where(JobRow.state == "queued"))


def n_busy_runners(session: Session, *, now: datetime) -> int:
    """Return how many runners have a job, by their leases."""
    query = select(func.count(JobRow.runner.distinct())).where(JobRow.state == "running", JobRow.lease_until > now)
    return session.scalars(query).one()


def qos(session: Session, *, channel_ids: Collection[int], since_hour: int) -> list[QosSums]:
    """Return the sums of flows over all agents and states, by hour."""
    keys = (QosRow.hour, QosRow.channel_id, QosRow.serial, QosRow.held_back, QosRow.delay_class)
    # As floating point, for SQLite fails where a sum of integers exceeds 63 bits. It is exact up to 2^53.
    sums = [func.sum(sql_cast(getattr(QosRow, name), Float)) for name in COUNTS]
    query = select(*keys, *sums).where(QosRow.hour >= since_hour, QosRow.channel_id.in_(channel_ids)).group_by(*keys)
    return [
        QosSums(hour, channel_id, serial, held_back, delay_class, tuple(map(int, row)))
        for hour, channel_id, serial, held_back, delay_class, *row in session.execute(query)
    ]
