# SPDX-License-Identifier: MIT
"""API schemas of advice: the part of `ccatune advise --json` that the registry keeps.

The command may be of the release before or after, so unknown fields are ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from serving.database import AdviceRow
from serving.names import CcaName
from serving.schemas import Schema

MAX_ALGORITHMS, MAX_STATES, MAX_SENTENCES = 64, 64, 100
_MOST = 10**12
_Sentence = Annotated[str, Field(max_length=2000)]
_Sentences = Annotated[list[_Sentence], Field(max_length=MAX_SENTENCES)]
_Label = Annotated[str, Field(max_length=200)]
_Real = Annotated[float, Field(allow_inf_nan=False)]


class Interval(Schema):
    """A figure with its 95 % interval."""

    value: _Real = Field(description="The figure.")
    low: _Real = Field(description="Lower end.")
    high: _Real = Field(description="Upper end.")


class SimulatedFigures(Schema):
    """Figures of an algorithm, simulated on the links of the observed flows."""

    throughput_mbps: Interval = Field(description="In Mbit/s.")
    delay_ms: Interval = Field(description="95th percentile of the queueing delay.")
    retransmitted: Interval = Field(description="Share of the packets.")
    score: Interval = Field(description="What candidates are ranked by (docs/advise.md).")


class StateSummary(Schema):
    """The advice for a network state, or for all flows."""

    state: _Label = Field(description="Ranges of rate and round trip.", examples=["all flows"])
    flows: int = Field(ge=0, le=_MOST, description="Flows whose links were rebuilt.")
    seconds: _Real = Field(ge=0, le=_MOST, description="For so long the flows were backlogged.")
    today: dict[CcaName, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={}, max_length=MAX_ALGORITHMS, description="The algorithms of the flows, with their share of the time."
    )
    advised: CcaName | None = Field(default=None, description="The algorithm to change to.")
    reason: _Label | None = Field(default=None, description="Why no change is advised.")
    candidates: dict[CcaName, SimulatedFigures] = Field(
        default={}, max_length=MAX_ALGORITHMS, description="Each algorithm that was simulated."
    )

    @property
    def by_score(self) -> list[tuple[str, SimulatedFigures]]:
        """The candidates, the best score first."""
        return sorted(self.candidates.items(), key=lambda one: -one[1].score.value)


class AdviceReport(Schema):
    """An advice as `ccatune advise --json` prints it."""

    format: Literal["ccatune-advice/1"] = Field(alias="schema", description="Version of this document.")
    target_ms: float = Field(gt=0, le=60_000, description="Queueing delay that 95 % of the packets should not exceed.")
    answer: _Sentences = Field(description="The advice in one or two sentences.")
    why: _Sentences = Field(default=[], description="Reasons, a sentence each.")
    seen: _Sentences = Field(default=[], description="What the flows showed, a sentence each.")
    pooled: StateSummary = Field(description="All flows together.")
    states: list[StateSummary] = Field(default=[], max_length=MAX_STATES, description="Each network state.")
    flows: int = Field(default=0, ge=0, le=_MOST, description="Flows that were observed.")


class AdviceRead(AdviceReport):
    """The newest advice of a channel."""

    model_config = ConfigDict(serialize_by_alias=True)

    set_by: str = Field(description="The principal who sent it.", examples=["alice"])
    set_at: datetime = Field(description="When it was sent (UTC).")

    @classmethod
    def of(cls, row: AdviceRow) -> AdviceRead:
        """Return the answer for a row."""
        report = AdviceReport.model_validate_json(row.report)
        return cls(**report.model_dump(by_alias=True), set_by=row.set_by, set_at=row.set_at)
