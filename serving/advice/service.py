# SPDX-License-Identifier: MIT
"""Rules for advice: a channel has the newest one, and each new one leaves a row in the audit log."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from serving.access import audit
from serving.advice.schemas import AdviceReport
from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.service import Change
from serving.database import AdviceRow, ChannelRow
from serving.errors import AdviceNotFoundError


def newest(session: Session, *, cca: str, name: str) -> AdviceRow | None:
    """Return the channel's advice, or None."""
    query = select(AdviceRow).join(ChannelRow, ChannelRow.id == AdviceRow.channel_id)
    return session.scalar(query.where(ChannelRow.cca == cca, ChannelRow.name == name))


def find(session: Session, *, cca: str, name: str) -> AdviceRow:
    """Return the channel's advice. Raises AdviceNotFoundError."""
    row = newest(session, cca=cca, name=name)
    if row is None:
        raise AdviceNotFoundError(
            f"expected a channel with an advice, got {cca}/{name}; make one with `ccatune advise --json`, and send it "
            "with `ccatune channels advice`"
        )
    return row


def put(session: Session, change: Change, report: AdviceReport) -> AdviceRow:
    """Replace the channel's advice. Raises ChannelNotFoundError: the channel has no deployment."""
    moves.current(session, cca=change.cca, name=change.name)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    row = newest(session, cca=change.cca, name=change.name)
    if row is None:
        row = AdviceRow(channel_id=channel.id)
        session.add(row)
    row.report = report.model_dump_json(by_alias=True)
    row.set_by, row.set_at = change.by.name, change.clock()
    audit.record(session, by=change.by, action="set-advice", target=f"channel {change.cca}/{change.name}",
                 now=change.clock(), answer=" ".join(report.answer), advised=report.pooled.advised)  # fmt: skip
    session.flush()
    return row
