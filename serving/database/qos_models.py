# SPDX-License-Identifier: MIT
"""The tables of the sums of flows, by hour.

    qos          over all agents:  (hour, channel, serial, group, class, state) -> sums
    qos_agents   of each agent:    (hour, agent, channel, serial, group, class) -> sums

`hour` counts the hours since 1970 (UTC). `delay_class` and `state` are NONE where the reported row has none. A sum
stays at MAX_SUM once it would exceed it, so that no report makes a later one fail.

Each row is reached by its primary key, which begins with the hour: the rows of an hour are near each other on disk, and
old hours are deleted together. SQLite keeps the row in the index of the key itself (WITHOUT ROWID).

No foreign keys: their locks would make a batch of reports wait for the move of a channel, and an agent's removal would
search the whole table. Channels are never deleted. The sums of a deleted agent are not listed any more, because its row
number is never used again.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from serving.database.models import Base

MAX_SUM: Final = 2**63 - 1
NONE: Final = -1


class _Sums:
    """The columns that both tables have. The sums are those of `serving.agent.sums.COUNTS`."""

    # Before the last column of the key, which the classes below have.
    hour: Mapped[int] = mapped_column(primary_key=True, sort_order=-1)
    channel_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, sort_order=-1)
    serial: Mapped[int] = mapped_column(BigInteger, primary_key=True, sort_order=-1)
    held_back: Mapped[bool] = mapped_column(primary_key=True, sort_order=-1)
    delay_class: Mapped[int] = mapped_column(primary_key=True, sort_order=-1)

    epochs: Mapped[int] = mapped_column(BigInteger)
    visits: Mapped[int] = mapped_column(BigInteger)
    time_us: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    segments: Mapped[int] = mapped_column(BigInteger)
    retransmitted: Mapped[int] = mapped_column(BigInteger)
    delay_samples: Mapped[int] = mapped_column(BigInteger)
    delay_us: Mapped[int] = mapped_column(BigInteger)
    within_target: Mapped[int] = mapped_column(BigInteger)


class QosRow(_Sums, Base):
    """Sums over all agents. channel_id: of `ChannelRow`. held_back: the group of flows."""

    __tablename__ = "qos"
    __table_args__ = ({"sqlite_with_rowid": False},)

    state: Mapped[int] = mapped_column(primary_key=True)


class AgentQosRow(_Sums, Base):
    """Sums of one agent. agent: the id of its `AgentRow`, which belongs to one algorithm."""

    __tablename__ = "qos_agents"
    __table_args__ = ({"sqlite_with_rowid": False},)

    agent: Mapped[int] = mapped_column(BigInteger, primary_key=True)
