# SPDX-License-Identifier: MIT
"""Database queries on agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, and_, case, delete, func, or_, select
from sqlalchemy.orm import Session

from serving.access.grants import Grant
from serving.database import AgentRow, insert_for, narrowed

_KEY = ("agent_id", "cca")


def replace(session: Session, rows: Sequence[dict[str, Any]], *, shared_since: datetime) -> None:
    """Insert the rows, or replace the existing ones of the same agent and algorithm. Every row has the same columns.

    The columns about runs are derived from the row's `run_id` and the existing row. A run that returns is noted if
    another one replaced it at or after `shared_since`. `effective_since` stays while the table in force does.
    """
    statement = insert_for(session, AgentRow)
    excluded = statement.excluded
    replaced = {
        **{name: excluded[name] for name in rows[0] if name not in _KEY},
        "effective_since": case((_is_another_table(excluded), excluded.received_at), else_=AgentRow.effective_since),
        **_runs(excluded.run_id, excluded.received_at, shared_since=shared_since),
    }
    session.connection().execute(statement.on_conflict_do_update(index_elements=list(_KEY), set_=replaced), list(rows))


def _is_another_table(excluded: Any) -> ColumnElement[bool]:
    return or_(excluded.effective_serial != AgentRow.effective_serial, excluded.channel != AgentRow.channel)


def _runs(
    run_id: ColumnElement[Any], received_at: ColumnElement[Any], *, shared_since: datetime
) -> dict[str, ColumnElement[Any]]:
    """Return the new values of the columns about runs. A report without a run id changes none of them."""
    changed = run_id != AgentRow.run_id
    returned = and_(changed, run_id == AgentRow.previous_run_id, AgentRow.run_changed_at >= shared_since)
    return {
        "run_id": func.coalesce(run_id, AgentRow.run_id),
        "previous_run_id": case((changed, AgentRow.run_id), else_=AgentRow.previous_run_id),
        "run_changed_at": case((changed, received_at), else_=AgentRow.run_changed_at),
        "id_shared_at": case((returned, received_at), else_=AgentRow.id_shared_at),
    }


def page_in_order(
    session: Session,
    *,
    cca: str | None,
    channel: str | None,
    state: str | None,
    after_id: int | None,
    limit: int,
    within: Grant,
) -> Sequence[AgentRow]:
    """Return rows within the grant with an id above `after_id`, in the order in which the agents first reported."""
    query = select(AgentRow).where(AgentRow.id > (after_id or 0)).order_by(AgentRow.id).limit(limit)
    asked = ((AgentRow.cca, cca), (AgentRow.channel, channel), (AgentRow.state, state))
    granted = ((AgentRow.cca, within.ccas), (AgentRow.channel, within.channels), (AgentRow.agent_id, within.agent_id))
    return session.scalars(narrowed(query, *asked, *granted)).all()


def arrivals(session: Session, *, cca: str, channel: str, serial: int) -> Sequence[tuple[int, datetime | None]]:
    """Return serial in force and the time of its first report, of each agent that is to have this serial.

    Left out are servers with the candidate of a roll-out, which are offered a later serial.
    """
    query = select(AgentRow.effective_serial, AgentRow.effective_since).where(
        AgentRow.cca == cca, AgentRow.channel == channel, AgentRow.offered_serial <= serial
    )
    return [(serial, since) for serial, since in session.execute(query)]


def delete_agent(session: Session, agent_id: str) -> int:
    """Delete the agent's rows, and return how many there were."""
    result = session.execute(delete(AgentRow).where(AgentRow.agent_id == agent_id))
    return cast("CursorResult[Any]", result).rowcount


def ids_older(session: Session, *, before: datetime, after_id: int, limit: int) -> Sequence[int]:
    """Return the ids above `after_id` of rows that were received before that time, in order."""
    query = select(AgentRow.id).where(AgentRow.received_at < before, AgentRow.id > after_id)
    return session.scalars(query.order_by(AgentRow.id).limit(limit)).all()


def delete_older(session: Session, ids: Sequence[int], *, before: datetime) -> None:
    """Delete those of the rows that were received before that time. One that was replaced meanwhile stays."""
    session.execute(delete(AgentRow).where(AgentRow.id.in_(ids), AgentRow.received_at < before))
