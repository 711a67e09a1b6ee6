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
    narrowed,
)
from serving.qos.schemas import Key

Table = type[QosRow] | type[AgentQosRow]
# An agent's row and the series and sequence of its last delta.
Counted = tuple[int, str | None, int]

# A statement has two parameters for each pair. SQLite takes 32,766, PostgreSQL 65,535.
_MAX_PAIRS = 10_000


def last_counted(session: Session, agent_ids: Collection[str]) -> dict[tuple[str, str], Counted]:
    """Return the last delta that was added, by agent and algorithm."""
    columns = (AgentRow.agent_id, AgentRow.cca, AgentRow.id, AgentRow.sums_series, AgentRow.sums_sequence)
    found = session.execute(select(*columns).where(AgentRow.agent_id.in_(agent_ids)))
    return {(agent_id, cca): (row_id, series, sequence or 0) for agent_id, cca, row_id, series, sequence in found}


def note_counted(session: Session, counted: Collection[Counted]) -> None:
    """Note the last delta of each of these agents' rows."""
    rows = [{"id": row_id, "sums_series": series, "sums_sequence": sequence} for row_id, series, sequence in counted]
    session.execute(update(AgentRow), rows)


def deployed(session: Session, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, str, str, int], int]:
    """Return the channel's id of each deployment, by registry, algorithm, channel and serial.

    wanted: names of channels and serials, which agents may have invented. Other deployments may be among the answer.
    """
    query = (
        select(RegistryRow.name, ChannelRow.cca, ChannelRow.name, DeploymentRow.serial, ChannelRow.id)
        .join(DeploymentRow, DeploymentRow.channel_id == ChannelRow.id)
        .join(RegistryRow, RegistryRow.id == 1)
    )
    found: dict[tuple[str, str, str, int], int] = {}
    pairs = list(wanted)
    for begin in range(0, len(pairs), _MAX_PAIRS):
        channels, serials = map(set, zip(*pairs[begin : begin + _MAX_PAIRS], strict=True))
        some = query.where(ChannelRow.name.in_(channels), DeploymentRow.serial.in_(serials))
        found |= {(registry, cca, name, serial): key for registry, cca, name, serial, key in session.execute(some)}
    return found


def add_up(session: Session, table: Table, rows: Sequence[Sequence[int]]) -> None:
    """Insert the rows, or add their sums to those of the rows with the same key. No sum exceeds MAX_SUM.

    A row has the key of the table, then the sums in the order of COUNTS.
    """
    # A batch of reports has thousands of rows, which SQLAlchemy would prepare one by one for longer than they take.
    # PostgreSQL receives the columns as arrays, because each statement costs more there than its row.
    names = [*_key(table), *COUNTS]
    name = table.__tablename__
    added = ", ".join(
        f"{sum_} = CASE WHEN {name}.{sum_} > {MAX_SUM} - excluded.{sum_} THEN {MAX_SUM} "
        f"ELSE {name}.{sum_} + excluded.{sum_} END"
        for sum_ in COUNTS
    )
    statement = (
        f"INSERT INTO {name} ({', '.join(names)}) {{rows}} ON CONFLICT ({', '.join(_key(table))}) DO UPDATE SET {added}"
    )
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(names))
        connection.exec_driver_sql(statement.format(rows=f"VALUES ({marks})"), [tuple(row) for row in rows])
        return
    kinds = ("bool" if one == "held_back" else "bigint" for one in names)
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
    # As text, which the driver passes on, for it would prepare each number of a list.
    columns = tuple("{" + ",".join(map(str, column)) + "}" for column in zip(*rows, strict=True))
    rows_of_arrays = f"SELECT * FROM unnest({arrays})"  # noqa: S608 - names of types
    connection.exec_driver_sql(statement.format(rows=rows_of_arrays), columns)


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
    """Return the names of the columns of the primary key, which begins with the hour."""
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
