# SPDX-License-Identifier: MIT
"""API schemas of drift."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from serving.channels.schemas import DeploymentRead
from serving.names import CcaName, ChannelName, DigestText
from serving.schemas import Schema

Verdict = Literal["ok", "watch", "drifted", "unknown"]


class DriftRow(Schema):
    """The queueing delay of the flows of one state and class, compared with training."""

    state: int = Field(description="Number of the state, as in sums of flows.")
    delay_class: int = Field(serialization_alias="class", description="The class, counted from 0.")
    verdict: Verdict = Field(description="Of this row; `unknown` with too few epochs.")
    epochs: int = Field(description="Epochs that ended.")
    late_share: float | None = Field(description="Share of delay samples above the target; null without samples.")
    allowed_late_share: float = Field(
        description="The share that the class's percentile allows, or that of training if it is larger."
    )
    late_ratio: float | None = Field(description="`late_share` by `allowed_late_share`; null without samples.")
    mean_delay_us: float | None = Field(description="Mean queueing delay; null without samples.")


class DriftState(Schema):
    """How often flows visit a state, compared with training."""

    state: int = Field(description="Number of the state, as in sums of flows.")
    share: float = Field(description="Share of the epochs that began in this state.")
    training_share: float = Field(description="Share of the training epochs in this state.")


class Drift(Schema):
    """Drift of one ensemble's flows."""

    verdict: Verdict = Field(description="The worst of visits and delay. `unknown` is worse than `ok`.")
    reasons: list[str] = Field(description="Why, in sentences; the most serious one first.")
    stability_index: float | None = Field(
        description="Population stability index of the visits; null where it is not computed."
    )
    states: list[DriftState] = Field(description="Visits of each state; empty where they are not compared.")
    rows: list[DriftRow] = Field(description="Delay of each row with epochs, of a table with classes.")


class DriftRead(Drift):
    """Drift of a channel's current ensemble."""

    cca: CcaName
    channel: ChannelName
    serial: int = Field(description="The current deployment.")
    digest: DigestText
    hours: int = Field(description="The sums of this many hours were compared.")


class DriftSummary(Schema):
    """A verdict in short."""

    verdict: Verdict = Field(description="Whether the channel's flows meet the network of the training.")
    reason: str = Field(description="The most serious reason.", examples=["The ensemble has one state."])


class ChannelRead(DeploymentRead):
    """A channel: its current deployment, and the drift of its flows."""

    drift: DriftSummary | None = Field(
        description="Of the last 24 hours, at most a minute old; null for a token of one agent.", examples=[None]
    )
