# SPDX-License-Identifier: MIT
"""API schemas of agents and their reports."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from serving.database import RUN_ID_CHARS, AgentRow
from serving.names import AgentId, CcaName, ChannelName, DigestText, Labels, PlainText
from serving.qos.schemas import ReportedSums
from serving.schemas import Schema

# Reports of two runs that alternate within this time come from two agents. A restarted agent never has its old run id.
SHARED_WINDOW = timedelta(minutes=10)

MAX_ERROR_CHARS = 4000
MAX_SERIAL = 2**63 - 1

Version = Annotated[PlainText, Field(max_length=256)]
StateWord = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$",
        description="One word: Starting, InSync, Unsigned, Stale, Offline, NoChannel, TokenRefused, Rejected, Degraded "
        "or Incompatible.",
        examples=["InSync"],
    ),
]
Serial = Annotated[int, Field(ge=0, le=MAX_SERIAL)]


def _cut(text: str) -> str:
    # A report with a truncated error is more useful than a rejected report.
    return text[:MAX_ERROR_CHARS]


class _ReportedState(Schema):
    """What an agent says of the table in force."""

    cca: CcaName
    channel: ChannelName
    state: StateWord
    error: Annotated[PlainText, AfterValidator(_cut)] | None = Field(
        default=None,
        description=f"What is wrong, in words; null when nothing is. Kept up to {MAX_ERROR_CHARS} characters.",
    )
    offered_digest: DigestText | None = Field(default=None, description="What the registry offers.")
    offered_serial: Serial = Field(default=0, description="Its serial; 0 without an offer.")
    effective_digest: DigestText | None = Field(default=None, description="What the kernel runs.")
    effective_serial: Serial = Field(default=0, description="Its serial; 0 without a table.")
    kernel_version: Version | None = Field(default=None, description="Release of the running kernel.")
    module_version: Version | None = Field(default=None, description="Version of the loaded module.")
    agent_version: Version | None = Field(default=None, description="Version of the agent.")
    run_id: Annotated[str, Field(pattern=rf"^[A-Za-z0-9_-]{{1,{RUN_ID_CHARS}}}$")] | None = Field(
        default=None, description="Random word that the agent chooses at each start, or null."
    )
    labels: Labels = Field(default={})


class AgentReport(_ReportedState):
    """An agent's report on one algorithm.

    Unknown keys are ignored, and `state` may be any word, because agents may be newer than their registry.
    """

    sums: ReportedSums | None = Field(
        default=None,
        description="By how much the sums of flows have grown; null where nothing has. It counts once, however often "
        "it arrives.",
    )


class AgentRead(_ReportedState):
    """An agent's latest report on one algorithm."""

    agent_id: AgentId
    received_at: datetime = Field(description="When the report came (UTC).")
    age_s: float | None = Field(
        description="Seconds since then, by the registry's clock; null if the clock was set back since."
    )
    shared_id: bool = Field(
        description=f"Whether two agents reported under this id in the last {SHARED_WINDOW.seconds // 60} minutes."
    )

    @classmethod
    def of(cls, row: AgentRow, *, now: datetime) -> AgentRead:
        """Build the report from its row."""
        age_s = (now - row.received_at).total_seconds()
        columns = {*_ReportedState.model_fields, "agent_id", "received_at"} - {"labels"}
        return cls(
            **{name: getattr(row, name) for name in columns},
            labels=json.loads(row.labels),
            age_s=age_s if age_s >= 0 else None,
            shared_id=row.id_shared_at is not None and now - row.id_shared_at <= SHARED_WINDOW,
        )
