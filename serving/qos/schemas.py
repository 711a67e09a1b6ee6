# SPDX-License-Identifier: MIT
"""API schemas of the sums of flows: as agents report them, and as the registry answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from serving.agent.sums import COUNTS
from serving.database import MAX_SUM, NONE, RUN_ID_CHARS
from serving.names import AgentId, CcaName, ChannelName
from serving.schemas import Schema

# Bounds of the kernel's tables (kmod/core/ensemble.h), and of the rows that one report may add.
MAX_STATE = 4095
MAX_CLASS = 7
MAX_REPORTED_ROWS = 512
MAX_REPORTED_TABLES = 64
MAX_SERIAL = 2**63 - 1

_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Group = Literal["ensemble", "held_back"]
Key = Literal["hour", "cca", "channel", "serial", "group", "class", "state", "agent_id"]
KEYS: Final[tuple[Key, ...]] = ("hour", "cca", "channel", "serial", "group", "class", "state", "agent_id")

DelayClass = Annotated[int, Field(ge=0, le=MAX_CLASS)]
StateNumber = Annotated[int, Field(ge=0, le=MAX_STATE)]
DeployedSerial = Annotated[int, Field(ge=1, le=MAX_SERIAL)]
_Counts = Annotated[list[Annotated[int, Field(ge=0, le=MAX_SUM)]], Field(max_length=MAX_REPORTED_ROWS)]

# The kernel's words (docs/proc.md, status), for reports and answers.
_MEANINGS: Final = {
    "epochs": "Epochs of flows that ended.",
    "visits": "Epochs that began.",
    "time_us": "Time of these epochs.",
    "bytes": "Bytes acknowledged.",
    "segments": "Segments sent, including retransmissions.",
    "retransmitted": "Segments retransmitted.",
    "delay_samples": "Samples of the queueing delay, of flows that the application did not limit.",
    "delay_us": "Sum of these samples.",
    "within_target": "Samples at or below the target of the class.",
}


def _column(name: str) -> Any:
    return Field(default=[], description=_MEANINGS[name] + " Empty where the agent does not report it.")


class ReportedTable(Schema):
    """A table that sums belong to."""

    registry: ChannelName = Field(description="Name of the registry that deployed it.", examples=["local"])
    channel: ChannelName
    serial: DeployedSerial = Field(description="Serial of the deployment.", examples=[7])


class ReportedSums(Schema):
    """By how much the sums of flows have grown in an agent's kernel. Each field from `table` on has one entry for each
    row. Unknown keys are ignored, because agents may be newer than their registry.
    """

    series: str = Field(
        pattern=rf"^[A-Za-z0-9_-]{{1,{RUN_ID_CHARS}}}$",
        description="Random word that the agent chose when it began to count.",
        examples=["5f0c3a2b1d4e6f78"],
    )
    sequence: int = Field(
        ge=1, le=MAX_SERIAL, description="Grows with each delta of the series. A repeated delta has the same number."
    )
    tables: list[ReportedTable] = Field(max_length=MAX_REPORTED_TABLES, description="The tables of these rows.")
    table: list[int] = Field(
        max_length=MAX_REPORTED_ROWS, description="The table, counted from 0 in `tables`.", examples=[[0]]
    )
    held_back: list[bool] = Field(
        max_length=MAX_REPORTED_ROWS, description="Whether the flows were held back from the table.", examples=[[False]]
    )
    delay_class: list[DelayClass | None] = Field(
        alias="class", max_length=MAX_REPORTED_ROWS, description="The class, or null for a table without classes."
    )
    state: list[StateNumber | None] = Field(
        max_length=MAX_REPORTED_ROWS, description="The state of the row, or null for several rows together."
    )
    epochs: _Counts = _column("epochs")
    visits: _Counts = _column("visits")
    time_us: _Counts = _column("time_us")
    bytes: _Counts = _column("bytes")
    segments: _Counts = _column("segments")
    retransmitted: _Counts = _column("retransmitted")
    delay_samples: _Counts = _column("delay_samples")
    delay_us: _Counts = _column("delay_us")
    within_target: _Counts = _column("within_target")

    @model_validator(mode="after")
    def _columns_are_equally_long(self) -> ReportedSums:
        n_rows = len(self.table)
        for name in ("held_back", "delay_class", "state", *COUNTS):
            found = len(getattr(self, name))
            if found != n_rows and (found or name not in COUNTS):
                raise ValueError(f"{name.removeprefix('delay_')}: expected {n_rows} entries as in table, got {found}")
        if any(not 0 <= table < len(self.tables) for table in self.table):
            raise ValueError(f"table: expected numbers below {len(self.tables)}, the length of tables")
        return self

    def rows(self) -> Iterator[tuple[ReportedTable, bool, int, int, tuple[int, ...]]]:
        """Yield each row's table, group, class and state, and its sums in the order of COUNTS."""
        none = [0] * len(self.table)
        counts = zip(*(getattr(self, name) or none for name in COUNTS), strict=True)
        keys = zip(self.table, self.held_back, self.delay_class, self.state, strict=True)
        for (table, held_back, delay_class, state), sums in zip(keys, counts, strict=True):
            of_class, of_state = NONE if delay_class is None else delay_class, NONE if state is None else state
            yield self.tables[table], held_back, of_class, of_state, sums


def _sum(name: str) -> Any:
    return Field(description=_MEANINGS[name])


class QosRead(Schema):
    """Sums over the reports of a time. Of the keys it has those by which the answer is grouped."""

    hour: datetime | None = Field(default=None, description="Begin of the hour in which the reports arrived (UTC).")
    cca: CcaName | None = Field(default=None, description="Name of the algorithm.")
    channel: ChannelName | None = Field(default=None, description="Channel of the table.")
    serial: DeployedSerial | None = Field(default=None, description="Serial of the table.")
    group: Group | None = Field(default=None, description="`held_back`: flows that use no row of the table.")
    delay_class: DelayClass | None = Field(
        default=None, serialization_alias="class", description="Null for a table without classes."
    )
    state: StateNumber | None = Field(default=None, description="Null for rows that the agents added up.")
    agent_id: AgentId | None = Field(default=None, description="The agent that reported them.")

    epochs: int = _sum("epochs")
    visits: int = _sum("visits")
    time_us: int = _sum("time_us")
    bytes: int = _sum("bytes")
    segments: int = _sum("segments")
    retransmitted: int = _sum("retransmitted")
    delay_samples: int = _sum("delay_samples")
    delay_us: int = _sum("delay_us")
    within_target: int = _sum("within_target")

    share_within_target: float | None = Field(
        description="Share of the delay samples within the target, of tables with classes; null without samples."
    )
    mean_delay_us: float | None = Field(description="Mean queueing delay; null without samples.")
    goodput_bytes_per_s: float | None = Field(description="Mean throughput of a flow, bytes by time; null without it.")
    retransmission_rate: float | None = Field(description="Retransmitted by sent segments; null without segments.")

    @classmethod
    def of(cls, keys: Mapping[Key, Any], sums: Mapping[str, int], *, target_samples: int) -> QosRead:
        """Build an item. keys: as stored. target_samples: the delay samples that had a target."""
        return cls(
            **{"delay_class" if key == "class" else key: _shown(key, value) for key, value in keys.items()},
            **sums,
            share_within_target=_ratio(sums["within_target"], target_samples),
            mean_delay_us=_ratio(sums["delay_us"], sums["delay_samples"]),
            goodput_bytes_per_s=_ratio(sums["bytes"] * 1_000_000, sums["time_us"]),
            retransmission_rate=_ratio(sums["retransmitted"], sums["segments"]),
        )


def hour_of(moment: datetime) -> int:
    """Return the number of whole hours since 1970 (UTC)."""
    return (moment - _EPOCH) // _HOUR


def hour_after(moment: datetime) -> int:
    """Return the number of the first hour that begins at this moment or later."""
    return -((_EPOCH - moment) // _HOUR)


def _shown(key: Key, value: Any) -> Any:
    """Return the value of a key as an answer has it."""
    if key == "hour":
        return _EPOCH + value * _HOUR
    if key == "group":
        return "held_back" if value else "ensemble"
    return None if key in {"class", "state"} and value == NONE else value


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
