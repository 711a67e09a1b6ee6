# SPDX-License-Identifier: MIT
"""Rules for the sums of flows.

- A delta counts once. An agent's row notes the series and the sequence number of the last one that was added, in the
  same transaction. A delta of the same series counts only if its number is larger.
- It counts in the hour in which it arrived.
- Sums of a deployment that this registry did not make are ignored: a table that an operator wrote, or of another
  registry, or of a channel that was removed. Otherwise an agent could make any number of rows.
- Over all agents the sums are kept by state. Those of each agent are kept without states.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from serving.database import MAX_SUM, NONE, AgentQosRow, QosRow
from serving.qos import repository
from serving.qos.schemas import ReportedSums, hour_of

if TYPE_CHECKING:
    from serving.agents.service import ReceivedReport

# The key of a row, in the order of the table's primary key.
_Key = tuple[int, ...]
_Sums = dict[_Key, tuple[int, ...]]


def count(session: Session, reports: Sequence[ReceivedReport]) -> None:
    """Add the sums of the reports, in the order in which these arrived.

    The rows of the agents must be written by the same transaction before. Their locks then keep other processes from
    counting the same delta.
    """
    fresh = _fresh(session, [(report, report.sums) for report in reports if report.sums is not None])
    channel_ids = repository.deployed(
        session, {(table.channel, table.serial) for _, _, sums in fresh for table in sums.tables}
    )
    fleet: _Sums = {}
    agents: _Sums = {}
    for row_id, report, sums in fresh:
        hour = hour_of(report.received_at)
        for table, held_back, delay_class, state, counts in sums.rows():
            channel_id = channel_ids.get((table.registry, report.cca, table.channel, table.serial))
            if channel_id is None:
                continue
            key = (hour, channel_id, table.serial, held_back, delay_class)
            # Without a class there is no target.
            counted = counts if delay_class != NONE else (*counts[:-1], 0)
            for kept, last in ((fleet, state), (agents, row_id)):
                before = kept.get((*key, last))
                kept[*key, last] = counted if before is None else tuple(map(add, before, counted))
    # Every process writes the rows in the same order, so that two of them cannot wait for each other's locks.
    for table_of, kept in ((QosRow, fleet), (AgentQosRow, agents)):
        if kept:
            rows = [(*key, *(min(value, MAX_SUM) for value in kept[key])) for key in sorted(kept)]
            repository.add_up(session, table_of, rows)


def _fresh(
    session: Session, reported: Sequence[tuple[ReceivedReport, ReportedSums]]
) -> list[tuple[int, ReceivedReport, ReportedSums]]:
    """Return the deltas that were not added yet, each with the agent's row, and note them as added."""
    if not reported:
        return []
    last = repository.last_counted(session, {report.agent_id for report, _ in reported})
    fresh, counted = [], {}
    for report, sums in reported:
        key = (report.agent_id, report.cca)
        row_id, series, sequence = last[key]
        if series != sums.series or sequence < sums.sequence:
            last[key] = counted[key] = (row_id, sums.series, sums.sequence)
            fresh.append((row_id, report, sums))
    if counted:
        repository.note_counted(session, counted.values())
    return fresh
