# SPDX-License-Identifier: MIT
"""The tables of retraining.

    retraining_policies   how each channel is trained anew: study, datasets, comparison, plan of the roll-out
    retrainings           each retraining of a channel, from the drift to the promotion

A channel has at most one retraining that has not ended. Retrainings are never deleted.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from serving.database.models import DIGEST_CHARS, PRINCIPAL_CHARS, Base, ChannelRow
from serving.database.rollout_models import RolloutRow
from serving.database.types import BigId

_OPEN = text("ended_at IS NULL")


class RetrainingPolicyRow(Base):
    """The policy of a channel. policy: as JSON (serving/retraining/schemas.py)."""

    __tablename__ = "retraining_policies"

    channel_id: Mapped[int] = mapped_column(BigId, ForeignKey(ChannelRow.id), primary_key=True, autoincrement=False)
    policy: Mapped[str] = mapped_column(Text)
    set_by: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    set_at: Mapped[datetime]

    channel: Mapped[ChannelRow] = relationship(lazy="raise")


class RetrainingRow(Base):
    """A retraining of a channel.

    reasons: why it began, and objections: why the roll-out needs a reason. Both are sentences, as JSON.
    baseline, candidate: digests. job_id: without a foreign key, because jobs are deleted some days after their end.
    shadow: the comparison, as JSON. obstacle: why an automatic policy could not do the next step. outcome: why it ended
    so.
    """

    __tablename__ = "retrainings"
    __table_args__ = (
        Index(None, "channel_id", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        Index(None, "channel_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    channel_id: Mapped[int] = mapped_column(BigId, ForeignKey(ChannelRow.id))
    state: Mapped[str] = mapped_column(String(16))
    reasons: Mapped[str] = mapped_column(Text)
    baseline: Mapped[str] = mapped_column(String(DIGEST_CHARS))
    job_id: Mapped[int | None] = mapped_column(BigInteger)
    candidate: Mapped[str | None] = mapped_column(String(DIGEST_CHARS))
    shadow: Mapped[str | None] = mapped_column(Text)
    objections: Mapped[str] = mapped_column(Text)
    rollout_id: Mapped[int | None] = mapped_column(BigId, ForeignKey(RolloutRow.id))
    obstacle: Mapped[str | None] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(Text)
    note: Mapped[str] = mapped_column(Text)
    started_by: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    started_at: Mapped[datetime]
    changed_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]

    channel: Mapped[ChannelRow] = relationship(lazy="raise")
