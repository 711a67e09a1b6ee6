# SPDX-License-Identifier: MIT
"""Database queries for the figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Float, and_, case, func, select, text
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
    RolloutServerRow,
)


class AgentGroup(NamedTuple):
    """How many agents of one algorithm and channel are in one state, and how many of them are silent."""

    cca: str
    channel: str
    state: str
    number: int
    silent: int


class Behind(NamedTuple):
    """Agents of a channel that report and do not have what it offers. lowest: the lowest serial that one has."""

    number: int
    lowest: int


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


def agents(session: Session, *, silent_before: datetime) -> list[AgentGroup]:
    """Return the agents by algorithm, channel and state."""
    silent = func.sum(case((AgentRow.received_at < silent_before, 1), else_=0))
    keys = (AgentRow.cca, AgentRow.channel, AgentRow.state)
    found = session.execute(select(*keys, func.count(), silent).group_by(*keys))
    return [AgentGroup(cca, channel, state, number, int(quiet)) for cca, channel, state, number, quiet in found]


def behind(session: Session, *, silent_before: datetime) -> dict[int, Behind]:
    """Return the agents without their channel's current deployment, by channel. Silent ones do not count."""
    query = (
        select(ChannelRow.id, func.count(), func.min(AgentRow.effective_serial))
        .join(AgentRow, and_(AgentRow.cca == ChannelRow.cca, AgentRow.channel == ChannelRow.name))
        .where(AgentRow.received_at >= silent_before, AgentRow.effective_serial < ChannelRow.current_serial)
        .group_by(ChannelRow.id)
    )
    return {channel_id: Behind(number, lowest) for channel_id, number, lowest in session.execute(query)}


def candidates_behind(session: Session, row: RolloutRow, *, n_treated: int, silent_before: datetime) -> Behind:
    """Return the agents of a roll-out's candidate arm that have the baseline and not the candidate yet."""
    query = (
        select(func.count(), func.min(AgentRow.effective_serial))
        .join(RolloutServerRow, RolloutServerRow.agent == AgentRow.id)
        .where(
            RolloutServerRow.rollout_id == row.id,
            RolloutServerRow.place < n_treated,
            AgentRow.received_at >= silent_before,
            AgentRow.effective_serial >= row.baseline_serial,
            AgentRow.effective_serial < row.candidate_serial,
        )
    )
    number, lowest = session.execute(query).one()
    return Behind(number, lowest or 0)


def open_rollouts(session: Session) -> Sequence[RolloutRow]:
    """Return the roll-outs that have not ended."""
    return session.scalars(select(RolloutRow).where(RolloutRow.ended_at.is_(None))).all()


def rollouts_by_state(session: Session) -> dict[tuple[int, str], int]:
    """Return the number of roll-outs by channel and state."""
    keys = (RolloutRow.channel_id, RolloutRow.state)
    found = session.execute(select(*keys, func.count()).group_by(*keys))
    return {(channel_id, state): number for channel_id, state, number in found}


def deployed_after(session: Session, *, channel_id: int, serial: int) -> datetime | None:
    """Return when the first deployment after a serial was made. After the serial 0: when the last one was."""
    query = select(DeploymentRow.deployed_at).where(
        DeploymentRow.channel_id == channel_id, DeploymentRow.serial > serial
    )
    # An agent without any table has just come. It has not missed all deployments since the first.
    order = DeploymentRow.serial if serial > 0 else DeploymentRow.serial.desc()
    return session.scalar(query.order_by(order).limit(1))


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
