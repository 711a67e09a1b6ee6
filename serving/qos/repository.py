# SPDX-License-Identifier: MIT
"""Database queries on the sums of flows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    CursorResult,
    Float,
    case,
    delete,
    exists,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from serving.access.grants import Grant
from serving.agent.sums import COUNTS
from serving.database import (
    MAX_SUM,
    NONE,
    AgentQosRow,
    AgentRow,
    ChannelRow,
    DeploymentRow,
    QosRow,
    RegistryRow,
    insert_for,
    narrowed,
)
from serving.qos.schemas import Key

Table = type[QosRow] | type[AgentQosRow]
# An agent's row and the series and sequence of its last delta.
Counted = tuple[int, str | None, int]


def last_counted(session: Session, agent_ids: Collection[str]) -> dict[tuple[str, str], Counted]:
    """Return the last delta that was added, by agent and algorithm."""
    columns = (AgentRow.agent_id, AgentRow.cca, AgentRow.id, AgentRow.sums_series, AgentRow.sums_sequence)
    found = session.execute(select(*columns).where(AgentRow.agent_id.in_(agent_ids)))
    return {(agent_id, cca): (row_id, series, sequence or 0) for agent_id, cca, row_id, series, sequence in found}


def note_counted(session: Session, counted: Collection[Counted]) -> None:
    """Note the last delta of each of these agents' rows."""
    rows = [{"id": row_id, "sums_series": series, "sums_sequence": sequence} for row_id, series, sequence in counted]
    session.execute(update(AgentRow), rows)


def deployed(
    session: Session, *, channels: Collection[str], serials: Collection[int]
) -> dict[tuple[str, str, str, int], int]:
    """Return the channel's id of each deployment with these names and serials, by registry, algorithm and channel."""
    query = (
        select(RegistryRow.name, ChannelRow.cca, ChannelRow.name, DeploymentRow.serial, ChannelRow.id)
        .join(DeploymentRow, DeploymentRow.channel_id == ChannelRow.id)
        .join(RegistryRow, RegistryRow.id == 1)
        .where(ChannelRow.name.in_(channels), DeploymentRow.serial.in_(serials))
    )
    return {(registry, cca, channel, serial): found for registry, cca, channel, serial, found in session.execute(query)}


def add_up(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows, or add their sums to those of the rows with the same key. No sum exceeds MAX_SUM."""
    statement = insert_for(session, table)
    added = {}
    for name in COUNTS:
        stored, more = getattr(table, name), statement.excluded[name]
        added[name] = case((stored > MAX_SUM - more, MAX_SUM), else_=stored + more)
    upsert = statement.on_conflict_do_update(index_elements=_key(table), set_=added)
    session.connection().execute(upsert, [dict(row) for row in rows])


def grouped(
    session: Session,
    *,
    by: Sequence[Key],
    of_agents: bool,
    hours: tuple[int, int],
    wanted: Mapping[Key, Any],
    within: Grant,
    offset: int,
    limit: int,
) -> list[tuple[dict[Key, Any], dict[str, int], int]]:
    """Return the keys, the sums and the samples with a target of each group, in the order of the keys.

    of_agents: read the sums of each agent, which have no states. hours: the first one, and the one after the last.
    """
    table: Table = AgentQosRow if of_agents else QosRow
    keys = _keys(table)
    targets = case((table.delay_class == NONE, 0), else_=table.delay_samples)
    # As floating point, for SQLite fails where a sum of integers exceeds 63 bits. It is exact up to 2^53.
    sums = [func.sum(sql_cast(column, Float)) for column in (*(getattr(table, name) for name in COUNTS), targets)]
    query = select(*(keys[key] for key in by), *sums).join(ChannelRow, ChannelRow.id == table.channel_id)
    if of_agents:
        query = query.join(AgentRow, AgentRow.id == AgentQosRow.agent)
    query = query.where(table.hour >= hours[0], table.hour < hours[1])
    granted: dict[Key, Any] = {"cca": within.ccas, "channel": within.channels}
    if of_agents:
        granted["agent_id"] = within.agent_id
    query = narrowed(query, *((keys[key], value) for values in (wanted, granted) for key, value in values.items()))
    query = query.group_by(*(keys[key] for key in by)).order_by(*(keys[key] for key in by))
    # Without a key the sums of no row are a row of NULL.
    query = query.having(func.count() > 0).offset(offset).limit(limit)
    n_keys = len(by)
    return [
        (
            dict(zip(by, row[:n_keys], strict=True)),
            {name: int(value) for name, value in zip(COUNTS, row[n_keys:-1], strict=True)},
            int(row[-1]),
        )
        for row in session.execute(query)
    ]


def has_older(session: Session, table: Table, *, before_hour: int) -> bool:
    """Whether there are rows of earlier hours."""
    return bool(session.scalar(select(exists().where(table.hour < before_hour))))


def delete_older(session: Session, table: Table, *, before_hour: int, limit: int) -> int:
    """Delete at most `limit` rows of earlier hours, and return how many."""
    key = tuple_(*(getattr(table, name) for name in _key(table)))
    oldest = select(*(getattr(table, name) for name in _key(table))).where(table.hour < before_hour)
    oldest = oldest.order_by(table.hour).limit(limit)
    result = session.execute(delete(table).where(key.in_(oldest)).execution_options(synchronize_session=False))
    return cast("CursorResult[Any]", result).rowcount


def _key(table: Table) -> list[str]:
    return [column.name for column in table.__table__.primary_key]


def _keys(table: Table) -> dict[Key, Any]:
    return {
        "hour": table.hour,
        "cca": ChannelRow.cca,
        "channel": ChannelRow.name,
        "serial": table.serial,
        "group": table.held_back,
        "class": table.delay_class,
        **({"state": QosRow.state} if table is QosRow else {"agent_id": AgentRow.agent_id}),
    }
