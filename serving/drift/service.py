# SPDX-License-Identifier: MIT
"""Rules for drift.

- The flows of a channel are those that use its current ensemble, under whatever serial, and are not held back.
- The list of channels has verdicts that are at most a minute old. One query makes those of a page, so that a client
  that lists often does not slow down the polls of the agents. Details are always computed anew.
- An ensemble never changes, so the figures of its training are read once for each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.access.grants import Caller
from serving.channels import service as channels
from serving.database import DeploymentRow
from serving.drift import repository
from serving.drift.judgement import judge
from serving.drift.schemas import DriftRead, DriftSummary
from serving.drift.training import Training, training_of
from serving.errors import NotPermittedError
from serving.qos.schemas import hour_of

DEFAULT_HOURS = 24
_KEPT = timedelta(minutes=1)
_MOST_TRAININGS = 1000


class ChannelDrift:
    """Verdicts and figures of training that are kept in memory. Any thread may call it."""

    def __init__(self) -> None:
        self._trainings: dict[str, Training] = {}
        self._summaries: dict[int, tuple[datetime, str, DriftSummary]] = {}

    def summaries(self, session: Session, rows: Sequence[DeploymentRow], *, now: datetime) -> list[DriftSummary]:
        """Return the verdict on each of these current deployments, at most a minute old."""
        kept = {row.channel_id: self._kept(row, now) for row in rows}
        old = [row for row in rows if kept[row.channel_id] is None]
        if old:
            trainings = self._trainings_of(session, old)
            ids = [row.channel_id for row in old]
            live = repository.live_rows(session, ids, since_hour=_since_hour(now, DEFAULT_HOURS))
            for row in old:
                found = judge(trainings[row.digest], live.get(row.channel_id, []))
                kept[row.channel_id] = summary = DriftSummary(verdict=found.verdict, reason=found.reasons[0])
                self._summaries[row.channel_id] = (now, row.digest, summary)
        return [summary for summary in kept.values() if summary is not None]

    def details(self, session: Session, *, cca: str, name: str, hours: int, now: datetime, caller: Caller) -> DriftRead:
        """Return the drift of a channel over the last hours.

        Raises:
            ChannelNotFoundError: the channel has no deployment.
            NotPermittedError: the token is limited to one agent, and the figures are those of all.
        """
        if caller.grant.agent_id is not None:
            raise NotPermittedError(
                f"expected a token for the sums of all agents, got one for {caller.grant.agent_id}; use another token"
            )
        row = channels.current(session, cca=cca, name=name)
        training = self._trainings_of(session, [row])[row.digest]
        live = repository.live_rows(session, [row.channel_id], since_hour=_since_hour(now, hours))
        found = judge(training, live.get(row.channel_id, []))
        return DriftRead(**dict(found), cca=cca, channel=name, serial=row.serial, digest=row.digest, hours=hours)

    def _kept(self, row: DeploymentRow, now: datetime) -> DriftSummary | None:
        found = self._summaries.get(row.channel_id)
        if found is None or found[1] != row.digest or not timedelta(0) <= now - found[0] < _KEPT:
            return None
        return found[2]

    def _trainings_of(self, session: Session, rows: Sequence[DeploymentRow]) -> dict[str, Training]:
        known = dict(self._trainings)
        missing = {row.digest for row in rows} - set(known)
        if missing:
            read = {digest: training_of(text) for digest, text in repository.documents(session, missing).items()}
            known |= read
            self._trainings = known if len(known) <= _MOST_TRAININGS else read
        return known


def _since_hour(now: datetime, hours: int) -> int:
    return hour_of(now - timedelta(hours=hours))
