# SPDX-License-Identifier: MIT
"""The tables of roll-outs.

    rollouts         each roll-out of a channel: its plan, its state, and where it stands
    rollout_servers  the servers of each roll-out, in the order in which they get the candidate
    rollout_blocks   by switchback, the deployments of all servers: the blocks, and the baseline during a pause
    rollout_events   what was done and why, with the figures: an entry for each look and each request
    leases           which process does a task that one process at a time does

A channel has at most one roll-out that has not ended. Rows are never deleted.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from serving.database.models import DIGEST_CHARS, NAME_CHARS, PRINCIPAL_CHARS, Base, ChannelRow
from serving.database.types import BigId

_OPEN = text("ended_at IS NULL")


class RolloutRow(Base):
    """A roll-out. The steps are counted from 0.

    state: running, paused, aborted or promoted. plan: as JSON.
    baseline_serial, candidate_serial: the deployments of the two arms. digest: of the candidate.
    limit_from_at: when the step's time limit began to run. n_looks: how often it was judged. last_look_at: when this
    step was last judged. block: the last block that has begun, counted from 0; None without switchback.
    """

    __tablename__ = "rollouts"
    __table_args__ = (
        Index(None, "channel_id", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        Index(None, "channel_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    channel_id: Mapped[int] = mapped_column(BigId, ForeignKey(ChannelRow.id))
    state: Mapped[str] = mapped_column(String(16))
    plan: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(DIGEST_CHARS))
    baseline_serial: Mapped[int] = mapped_column(BigInteger)
    candidate_serial: Mapped[int] = mapped_column(BigInteger)
    note: Mapped[str] = mapped_column(Text)
    n_servers: Mapped[int]
    step: Mapped[int]
    step_began_at: Mapped[datetime]
    limit_from_at: Mapped[datetime]
    n_looks: Mapped[int]
    last_look_at: Mapped[datetime | None]
    block: Mapped[int | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]

    channel: Mapped[ChannelRow] = relationship(lazy="raise")


class RolloutServerRow(Base):
    """A server of a roll-out. place: in the order in which the servers get the candidate, from 0.

    agent: the id of its `AgentRow`. before: its sums of the day before the roll-out, as JSON.
    begun: its sums with its table in the hour in which the step began, before the step, as JSON.
    """

    __tablename__ = "rollout_servers"

    rollout_id: Mapped[int] = mapped_column(BigId, ForeignKey(RolloutRow.id), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    agent: Mapped[int] = mapped_column(BigInteger)
    agent_id: Mapped[str] = mapped_column(String(128))
    before: Mapped[str] = mapped_column(Text)
    begun: Mapped[str] = mapped_column(Text)


class RolloutBlockRow(Base):
    """A block of a roll-out by switchback, or a pause of it: the deployment with this serial, of all servers.

    block: counted from 0; None for a pause. arm: baseline or candidate.
    counts_from, washed_out: when the wash-out was over, and the fleet's sums with this serial until then, as JSON;
    None before. ended_at: when the next block began; None before, and for a block that was cut short.
    """

    __tablename__ = "rollout_blocks"

    rollout_id: Mapped[int] = mapped_column(BigId, ForeignKey(RolloutRow.id), primary_key=True)
    serial: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    block: Mapped[int | None]
    arm: Mapped[str] = mapped_column(String(16))
    began_at: Mapped[datetime]
    counts_from: Mapped[datetime | None]
    washed_out: Mapped[str | None] = mapped_column(Text)
    ended_at: Mapped[datetime | None]


class RolloutEventRow(Base):
    """An entry of a roll-out's record. reasons: sentences, as JSON. evidence: the figures, as JSON."""

    __tablename__ = "rollout_events"
    __table_args__ = (Index(None, "rollout_id", "id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    rollout_id: Mapped[int] = mapped_column(BigId, ForeignKey(RolloutRow.id))
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    action: Mapped[str] = mapped_column(String(16))
    reasons: Mapped[str] = mapped_column(Text)
    evidence: Mapped[str] = mapped_column(Text)


class LeaseRow(Base):
    """A task that one process at a time does. The owner renews it; after `until` another may take it."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(String(NAME_CHARS), primary_key=True)
    owner: Mapped[str] = mapped_column(String(NAME_CHARS))
    until: Mapped[datetime]
