# SPDX-License-Identifier: MIT
"""How each agent stands: the first of these that applies.

    silent    it has not reported for SILENT_S
    trouble   its state is none of those below: it says what is wrong, and ADVICE what to do
    waiting   it has not applied a table yet: Starting, NoChannel
    behind    the table in force is older than the one that its channel offers
    well      InSync, or Unsigned where no root document is pinned

Limits: in a roll-out a server of the candidate's arm counts as behind from its next poll on, not from the step itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Case, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from serving.access.grants import Grant
from serving.database import AgentRow, ChannelRow, narrowed

SILENT_S: Final = 180.0

Standing = Literal["well", "behind", "waiting", "trouble", "silent"]
STANDINGS: Final[tuple[Standing, ...]] = ("silent", "trouble", "behind", "waiting", "well")

ADVICE: Final = {
    "Stale": "The signature of the table, or the root document, has expired. Look whether the registry has its signing "
    "key, and upload a newer root document.",
    "Offline": "The registry gave no usable answer. Look at the server's network and clock, and at the certificate.",
    "TokenRefused": "The registry refuses the agent's token. Make a new one and put it into the agent's token file.",
    "Rejected": "The kernel or the agent refused the offered table. The error says which part. Move the channel to an "
    "ensemble for this module, or load the module that the ensemble needs.",
    "Degraded": "Someone else changed or cleared the table in this kernel. `ccatune-agent resume` applies the offer.",
    "Incompatible": "The algorithm is not loaded, or does not support the table. Load a module that does, or move the "
    "channel to another ensemble.",
}


class AgentStanding(NamedTuple):
    """An agent as the fleet shows it. expected_serial: what its channel offers to it."""

    agent_id: str
    cca: str
    channel: str
    state: str
    standing: Standing
    effective_serial: int
    expected_serial: int
    received_at: datetime
    error: str | None


def _expected() -> Case[int]:
    return case((ChannelRow.current_serial > AgentRow.offered_serial, ChannelRow.current_serial),
                else_=AgentRow.offered_serial)  # fmt: skip


def _standing(now: datetime) -> Case[Any]:
    expected = func.coalesce(_expected(), AgentRow.offered_serial)
    return case(
        (AgentRow.received_at < now - timedelta(seconds=SILENT_S), "silent"),
        (AgentRow.state.in_(("Starting", "NoChannel")), "waiting"),
        (AgentRow.state.not_in(("InSync", "Unsigned")), "trouble"),
        (AgentRow.effective_serial < expected, "behind"),
        else_="well",
    )


def fleet(
    session: Session,
    *,
    now: datetime,
    within: Grant,
    cca: str | None = None,
    channel: str | None = None,
    agent_id: str | None = None,
) -> list[AgentStanding]:
    """Return all agents within the grant, by their ids."""
    expected = func.coalesce(_expected(), AgentRow.offered_serial)
    query = (
        select(AgentRow.agent_id, AgentRow.cca, AgentRow.channel, AgentRow.state, _standing(now),
               AgentRow.effective_serial, expected, AgentRow.received_at, AgentRow.error)
        .outerjoin(ChannelRow, (ChannelRow.cca == AgentRow.cca) & (ChannelRow.name == AgentRow.channel))
        .order_by(AgentRow.agent_id, AgentRow.cca)
    )  # fmt: skip
    wanted = ((AgentRow.cca, cca), (AgentRow.channel, channel), (AgentRow.agent_id, agent_id))
    return [AgentStanding(*row) for row in session.execute(narrowed(query, *wanted, *_granted(within)))]


def counts(session: Session, *, now: datetime, within: Grant) -> dict[tuple[str, str], Counter[Standing]]:
    """Return the number of agents of each standing, by algorithm and channel."""
    standing = _standing(now).label("standing")
    query = (
        select(AgentRow.cca, AgentRow.channel, standing, func.count())
        .outerjoin(ChannelRow, (ChannelRow.cca == AgentRow.cca) & (ChannelRow.name == AgentRow.channel))
        .group_by(AgentRow.cca, AgentRow.channel, standing)
    )
    found: dict[tuple[str, str], Counter[Standing]] = {}
    for cca, channel, name, number in session.execute(narrowed(query, *_granted(within))):
        found.setdefault((cca, channel), Counter())[name] = number
    return found


def total(counted: dict[tuple[str, str], Counter[Standing]]) -> Counter[Standing]:
    """Return the sum over all channels."""
    return sum(counted.values(), Counter[Standing]())


def lowest_behind(session: Session, *, now: datetime) -> dict[tuple[str, str], int]:
    """Return the lowest serial in force of the agents that are behind, by algorithm and channel."""
    keys = (AgentRow.cca, AgentRow.channel)
    query = select(*keys, func.min(AgentRow.effective_serial)).outerjoin(
        ChannelRow, (ChannelRow.cca == AgentRow.cca) & (ChannelRow.name == AgentRow.channel)
    )
    found = session.execute(query.where(_standing(now) == "behind").group_by(*keys))
    return {(cca, channel): serial for cca, channel, serial in found}


def with_reason(found: AgentStanding, *, now: datetime) -> Sequence[str]:
    """Return why an agent does not stand well, in sentences."""
    said = [] if not found.error else [found.error.rstrip(".") + "."]
    if found.standing == "silent":
        minutes = (now - found.received_at).total_seconds() / 60
        said.append(f"It has not reported for {minutes:.0f} minutes. Look whether the server and its agent run.")
    if found.standing == "behind":
        said.append(f"It has serial {found.effective_serial}, and its channel offers {found.expected_serial}.")
    if found.state in ADVICE:
        said.append(ADVICE[found.state])
    return said


def _granted(within: Grant) -> tuple[tuple[InstrumentedAttribute[Any], Any], ...]:
    return ((AgentRow.cca, within.ccas), (AgentRow.channel, within.channels), (AgentRow.agent_id, within.agent_id))
