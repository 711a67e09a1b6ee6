# SPDX-License-Identifier: MIT
"""API schemas of datasets.

Runners may be of the release before or after, so unknown fields of what they send are ignored.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from serving.database import CONTENT_CHARS, DatasetRow
from serving.names import AgentId, DatasetName
from serving.schemas import Schema

MAX_PARTS = 200
_Rate = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class ScaleVariation(Schema):
    """How much the rate varies at a time scale."""

    scale_ms: float = Field(gt=0, allow_inf_nan=False, description="The time scale.", examples=[1024])
    deviation: float = Field(
        ge=0, allow_inf_nan=False, description="Allan deviation of the rate, as a share of its mean.", examples=[0.31]
    )


class DatasetFacts(Schema):
    """Figures of the recordings that a runner has under a name."""

    content: str = Field(
        pattern=rf"^[0-9a-f]{{{CONTENT_CHARS}}}$",
        description="SHA-256 over the digests of all recordings. Equal recordings have an equal one.",
        examples=["0" * CONTENT_CHARS],
    )
    recordings: int = Field(ge=1, le=10**9, description="Number of recordings.", examples=[4])
    hours: float = Field(gt=0, le=1e9, allow_inf_nan=False, description="Their length together.", examples=[3.9])
    mean_mbps: _Rate = Field(description="Mean rate in Mbit/s.", examples=[17.7])
    p5_mbps: _Rate = Field(description="5th percentile of the rates of seconds.", examples=[2.1])
    p95_mbps: _Rate = Field(description="95th percentile of the rates of seconds.", examples=[38.6])
    variation: list[ScaleVariation] = Field(max_length=32, description="By time scale, in ascending order.")
    rates_mbps: list[_Rate] = Field(
        max_length=MAX_PARTS, description="Mean rates of equal parts of the time of all recordings.", examples=[[17.7]]
    )


class DatasetReport(DatasetFacts):
    """What a runner says of a dataset."""

    runner: AgentId


class DatasetContent(DatasetReport):
    """What a runner said of a dataset, and when."""

    said_at: datetime = Field(description="When a runner last had these recordings (UTC).")

    @classmethod
    def of(cls, row: DatasetRow) -> DatasetContent:
        """Build it from the row."""
        own = {"content": row.content, "runner": row.runner, "said_at": row.said_at}
        return cls.model_validate({**json.loads(row.facts), **own})


class DatasetRead(Schema):
    """A dataset that jobs may name."""

    name: DatasetName
    is_configured: bool = Field(description="Whether the registry's settings name it.")
    contents: list[DatasetContent] = Field(
        description="What runners say of it, newest first. More than one: runners have different recordings."
    )


class DatasetList(Schema):
    """All datasets that jobs may name."""

    items: list[DatasetRead] = Field(description="In the order of their names.")
