# SPDX-License-Identifier: MIT
"""Database queries on roll-outs. Nothing here decides."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, Float, Select, case, func, or_, select, update
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session, contains_eager

from serving.database import (
    NONE,
    AgentQosRow,
    AgentRow,
    ChannelRow,
    LeaseRow,
    RolloutBlockRow,
    RolloutEventRow,
    RolloutRow,
    RolloutServerRow,
    insert_for,
)
from serving.rollouts.statistics import Sums

# The end of the hours of a query for all sums that have arrived.
AS_OF_NOW = 2**31 - 1


def find_open(session: Session, *, channel_id: int) -> RolloutRow | None:
    """Return the channel's roll-out that has not ended, or None."""
    return session.scalar(select(RolloutRow).where(RolloutRow.channel_id == channel_id, RolloutRow.ended_at.is_(None)))


def open_ids(session: Session) -> Sequence[int]:
    """Return the roll-outs that have not ended."""
    return session.scalars(select(RolloutRow.id).where(RolloutRow.ended_at.is_(None)).order_by(RolloutRow.id)).all()


def find(session: Session, rollout_id: int) -> RolloutRow | None:
    """Return the roll-out with its channel, or None."""
    query = select(RolloutRow).join(RolloutRow.channel).options(contains_eager(RolloutRow.channel))
    return session.scalar(query.where(RolloutRow.id == rollout_id).execution_options(populate_existing=True))


def of_serial(session: Session, *, channel_id: int, candidate_serial: int) -> RolloutRow | None:
    """Return the roll-out whose candidate is this deployment, or None."""
    return session.scalar(
        select(RolloutRow).where(RolloutRow.channel_id == channel_id, RolloutRow.candidate_serial == candidate_serial)
    )


def page(session: Session, *, cca: str, name: str, before_id: int | None, limit: int) -> Sequence[RolloutRow]:
    """Return roll-outs of a channel with a number below `before_id`, newest first."""
    query = select(RolloutRow).join(RolloutRow.channel).options(contains_eager(RolloutRow.channel))
    query = query.where(ChannelRow.cca == cca, ChannelRow.name == name)
    if before_id is not None:
        query = query.where(RolloutRow.id < before_id)
    return session.scalars(query.order_by(RolloutRow.id.desc()).limit(limit)).all()


def events(session: Session, rollout_id: int, *, before_id: int | None, limit: int) -> Sequence[RolloutEventRow]:
    """Return entries of the record with an id below `before_id`, newest first."""
    query = select(RolloutEventRow).where(RolloutEventRow.rollout_id == rollout_id)
    if before_id is not None:
        query = query.where(RolloutEventRow.id < before_id)
    return session.scalars(query.order_by(RolloutEventRow.id.desc()).limit(limit)).all()


def note(
    session: Session,
    row: RolloutRow,
    *,
    at: datetime,
    actor: str,
    action: str,
    reasons: Sequence[str],
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry to the roll-out's record."""
    session.add(
        RolloutEventRow(
            rollout_id=row.id,
            at=at,
            actor=actor,
            action=action,
            reasons=json.dumps(list(reasons)),
            evidence=json.dumps(evidence or {}),
        )
    )


def servers_of(
    session: Session, *, channel: ChannelRow, since: datetime, label: str | None
) -> dict[str, tuple[int, str]]:
    """Return the agents that follow the channel and have reported since.

    Each has the id of its row and the value of the label, which is empty without one.
    """
    query = select(AgentRow.agent_id, AgentRow.id, AgentRow.labels).where(
        AgentRow.cca == channel.cca, AgentRow.channel == channel.name, AgentRow.received_at >= since
    )
    return {
        agent_id: (row_id, "" if label is None else json.loads(labels).get(label, ""))
        for agent_id, row_id, labels in session.execute(query)
    }


def servers(session: Session, rollout_id: int) -> Sequence[RolloutServerRow]:
    """Return the roll-out's servers in the order in which they get the candidate."""
    query = select(RolloutServerRow).where(RolloutServerRow.rollout_id == rollout_id)
    return session.scalars(query.order_by(RolloutServerRow.place)).all()


def candidates(session: Session, rollout_id: int, *, number: int) -> frozenset[str]:
    """Return the agents that have the candidate, if the first `number` servers have it."""
    query = select(RolloutServerRow.agent_id).where(
        RolloutServerRow.rollout_id == rollout_id, RolloutServerRow.place < number
    )
    return frozenset(session.scalars(query))


def blocks(session: Session, rollout_id: int) -> Sequence[RolloutBlockRow]:
    """Return the blocks and pauses of a roll-out in their order."""
    query = select(RolloutBlockRow).where(RolloutBlockRow.rollout_id == rollout_id)
    return session.scalars(query.order_by(RolloutBlockRow.serial)).all()


def last_block(session: Session, row: RolloutRow) -> RolloutBlockRow:
    """Return the last block of a roll-out that has begun one."""
    query = select(RolloutBlockRow).where(RolloutBlockRow.rollout_id == row.id, RolloutBlockRow.block == row.block)
    return session.scalars(query.execution_options(populate_existing=True)).one()


def last_reports(session: Session, rollout_id: int) -> dict[int, datetime]:
    """Return when each server of the roll-out last reported, by the id of its row. A removed agent is left out."""
    query = select(AgentRow.id, AgentRow.received_at).join(RolloutServerRow, RolloutServerRow.agent == AgentRow.id)
    return dict(session.execute(query.where(RolloutServerRow.rollout_id == rollout_id)).all())


def sums_of_agents(
    session: Session, *, channel_id: int, hours: tuple[int, int], serials: Collection[int] | None = None
) -> dict[tuple[int, int], Sums]:
    """Return the sums of flows that use their table, by agent's row and serial.

    hours: the first one, and the one after the last. serials: None for all of the channel.
    """
    query = _summed(AgentQosRow.agent, AgentQosRow.serial, channel_id=channel_id, hours=hours)
    query = query.group_by(AgentQosRow.agent, AgentQosRow.serial)
    if serials is not None:
        query = query.where(AgentQosRow.serial.in_(serials))
    return {(agent, serial): _sums(sums) for agent, serial, *sums in session.execute(query)}


def sums_of_rollout(
    session: Session, row: RolloutRow, *, since_serial: int, hours: tuple[int, int]
) -> dict[int, tuple[Sums, int]]:
    """Return the sums over the roll-out's servers, and how many of them have any, by serial from `since_serial` on."""
    n_servers = func.count(AgentQosRow.agent.distinct())
    servers = select(RolloutServerRow.agent).where(RolloutServerRow.rollout_id == row.id)
    query = _summed(AgentQosRow.serial, n_servers, channel_id=row.channel_id, hours=hours)
    query = query.where(AgentQosRow.serial >= since_serial, AgentQosRow.agent.in_(servers))
    found = session.execute(query.group_by(AgentQosRow.serial))
    return {serial: (_sums(sums), n) for serial, n, *sums in found}


def _summed(*keys: Any, channel_id: int, hours: tuple[int, int]) -> Select[Any]:
    """Return a query for the sums of flows that use their table, after the keys."""
    timed = AgentQosRow.delay_class != NONE
    # As floating point, for SQLite fails where a sum of integers exceeds 63 bits.
    columns = [
        func.sum(sql_cast(column, Float))
        for column in (
            case((timed, AgentQosRow.delay_samples), else_=0),
            case((timed, AgentQosRow.within_target), else_=0),
            AgentQosRow.bytes,
            AgentQosRow.time_us,
            AgentQosRow.segments,
            AgentQosRow.retransmitted,
        )
    ]
    return select(*keys, *columns).where(
        AgentQosRow.hour >= hours[0],
        AgentQosRow.hour < hours[1],
        AgentQosRow.channel_id == channel_id,
        AgentQosRow.held_back.is_(False),
    )


def _sums(columns: Sequence[float]) -> Sums:
    samples, within, size_bytes, time_us, sent, retransmitted = columns
    return Sums(samples, within, size_bytes, time_us / 1e6, sent, retransmitted)


def as_text(sums: Sums) -> str:
    """Return sums as the tables keep them."""
    return json.dumps(astuple(sums))


def of_text(text: str) -> Sums:
    """Return the sums of a text that `as_text` made."""
    return Sums(*json.loads(text))


def take_lease(session: Session, *, name: str, owner: str, now: datetime, until: datetime) -> bool:
    """Take or renew a lease until that time. Return False if another process has it."""
    session.execute(
        insert_for(session, LeaseRow)
        .values(name=name, owner=owner, until=until)
        .on_conflict_do_nothing(index_elements=["name"])
    )
    taken = session.execute(
        update(LeaseRow)
        .where(LeaseRow.name == name, or_(LeaseRow.owner == owner, LeaseRow.until <= now))
        .values(owner=owner, until=until)
    )
    return cast("CursorResult[Any]", taken).rowcount == 1
