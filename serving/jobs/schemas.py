# SPDX-License-Identifier: MIT
"""API schemas of training jobs.

Runners may be of the release before or after, so unknown fields of what they send are ignored.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from serving.database import LEASE_CHARS, JobRow
from serving.names import (
    EXAMPLE_DIGEST,
    EXAMPLE_DOCUMENT,
    MAX_PATHS,
    PATHS_NAME,
    AgentId,
    CcaName,
    DatasetName,
    DigestText,
    Note,
    PlainText,
    StudyName,
)
from serving.rollouts.shadow import Shadow
from serving.schemas import RowSchema, Schema, StrictSchema

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
# `interrupted`: the runner stops, and the job is queued again. `lost`: so is it after a passing fault, which counts.
Outcome = Literal["done", "failed", "cancelled", "interrupted", "lost"]

MAX_DATASETS = 256
MAX_ERROR_CHARS = 4000
MAX_LOG_CHARS = 16 * 1024
MAX_SEED = 2**63 - 1

_DATASETS = "Names of the datasets that it trains on."
_ERROR = "Why it failed, or why an ensemble that is done was not compared; null otherwise."

LeaseWord = Annotated[
    str,
    Field(
        pattern=rf"^[A-Za-z0-9_-]{{16,{LEASE_CHARS}}}$",
        description="A random word of the runner, new for each lease. Only its holder may report on the job.",
        examples=["Xb7zQ0l4mF2c9vRk"],
    ),
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
PathsName = Annotated[str, Field(pattern=rf"^{PATHS_NAME}$")]
_MetricName = Annotated[str, StringConstraints(max_length=64)]


class Comparison(StrictSchema):
    """Over what two ensembles run in the simulator."""

    datasets: list[DatasetName] = Field(
        min_length=1, max_length=MAX_DATASETS, description="Names of the datasets, of which the validation part counts."
    )
    paths: PathsName | None = Field(
        default=None,
        description="Name of the path model in configs/paths; null for one path of 100 ms.",
        examples=["cellular"],
    )


class JobCompare(Comparison):
    """The comparison of a job's ensemble with a published one."""

    baseline: DigestText


class JobSubmit(StrictSchema):
    """A request to train a registered study."""

    study: StudyName
    datasets: list[DatasetName] = Field(
        default=[],
        max_length=MAX_DATASETS,
        description=f"{_DATASETS} Only a study that needs no recordings has none.",
        examples=[["cellular"]],
    )
    seed: int | None = Field(
        default=None, ge=0, le=MAX_SEED, strict=True, description="Replaces the seed of the study.", examples=[7]
    )
    note: Note = ""
    compare: JobCompare | None = Field(
        default=None, description="After the training, run its ensemble beside this one.", examples=[None]
    )

    @property
    def all_datasets(self) -> set[str]:
        """The datasets that its runner needs."""
        return {*self.datasets, *(self.compare.datasets if self.compare else ())}


class BestPoint(Schema):
    """The best point that a search found for a delay class."""

    meets: bool = Field(description="Whether it meets the requirement of its class on the training data.")
    metrics: dict[_MetricName, Finite] = Field(
        max_length=32, description="Its measures, by name with unit.", examples=[{"p95_queueing_delay_ms": 48.0}]
    )


class JobProgress(Schema):
    """How far a job's training is."""

    phase: PlainText = Field(max_length=128, description="What it does.", examples=["searching: single"])
    share: float = Field(
        ge=0, le=1, allow_inf_nan=False, description="Done share of this attempt's searches.", examples=[0.41]
    )
    left_s: float | None = Field(
        ge=0, allow_inf_nan=False, description="Estimated remaining time in seconds; null while it is unknown."
    )
    searches: int = Field(ge=0, description="Finished searches, with those of earlier attempts.")
    points: int = Field(ge=0, description="Best points of the finished searches: one for each delay class.")
    points_meeting: int = Field(ge=0, description="How many of these points meet their requirement.")
    best_of: PlainText | None = Field(
        max_length=128, description="The search that finished last; null before the first.", examples=["single"]
    )
    best: list[BestPoint] = Field(max_length=64, description="Its best points, one for each delay class.")


def _of_json(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


class JobRead(RowSchema):
    """A training job."""

    id: int = Field(description="Its number. No other job ever has it.", examples=[7])
    study: StudyName
    cca: CcaName
    datasets: list[DatasetName] = Field(description=_DATASETS)
    seed: int | None = Field(description="Replaces the seed of the study; null keeps it.", examples=[None])
    note: str = Field(description="What the submitter said.", examples=[""])
    state: JobState = Field(description="Where it stands.", examples=["running"])
    is_cancelling: bool = Field(description="Whether its runner will stop it at the next heartbeat.", examples=[False])
    submitted_by: str = Field(description="The principal who submitted it.", examples=["alice"])
    submitted_at: datetime = Field(description="When it was submitted (UTC).")
    attempt: int = Field(description="How often a runner has begun it.", examples=[1])
    losses: int = Field(description="How often a lease was lost.", examples=[0])
    runner: str | None = Field(description="The runner that has it, or had it last.", examples=["trainer-1"])
    lease_until: datetime | None = Field(description="When its lease runs out (UTC); null unless it runs.")
    started_at: datetime | None = Field(description="When the first attempt began (UTC).")
    ended_at: datetime | None = Field(description="When it was done, failed or was cancelled (UTC).")
    progress: Annotated[JobProgress | None, BeforeValidator(_of_json)] = Field(
        description="The latest progress of this attempt; null before its first heartbeat."
    )
    digest: DigestText | None = Field(
        description="Of the published ensemble; null unless it is done.", examples=[EXAMPLE_DIGEST]
    )
    error: str | None = Field(description=_ERROR, examples=[None])
    compare: Annotated[JobCompare | None, BeforeValidator(_of_json)] = Field(
        description="What the ensemble is compared with; null for a job that only trains.", examples=[None]
    )
    shadow: Annotated[Shadow | None, BeforeValidator(_of_json)] = Field(
        description="The comparison in the simulator, as `ccatune rollout start --shadow` takes it; null without one.",
        examples=[None],
    )

    @classmethod
    def of(cls, row: JobRow) -> JobRead:
        """Build it from the row."""
        names = (name for name in cls.model_fields if name != "datasets")
        return cls(datasets=row.datasets.split(), **{name: getattr(row, name) for name in names})


class JobAttempt(RowSchema):
    """An attempt at a job, with the end of its log."""

    attempt: int = Field(description="Counts from 1.", examples=[1])
    runner: str = Field(description="The runner that made it.", examples=["trainer-1"])
    began_at: datetime = Field(description="When it began (UTC).")
    ended_at: datetime | None = Field(description="When it ended (UTC); null while it runs.")
    outcome: Outcome | None = Field(description="How it ended; null while it runs.", examples=["done"])
    log: str = Field(description=f"The end of its log, at most {MAX_LOG_CHARS} characters.", examples=["..."])


class JobLogs(Schema):
    """The logs of a job."""

    attempts: list[JobAttempt] = Field(description="The latest attempts, in their order.")


class LeaseRequest(Schema):
    """A runner's request for a job."""

    runner: AgentId
    lease: LeaseWord
    datasets: list[DatasetName] = Field(
        max_length=10_000, description="The datasets that this runner has. It gets only jobs on these."
    )
    compares: bool = Field(
        default=False, description="Whether the runner can compare ensembles. Otherwise it gets no job with `compare`."
    )
    paths: list[PathsName] | None = Field(
        default=None,
        max_length=MAX_PATHS,
        description="The path models that this runner has; null if it does not say. A job on others is refused.",
        examples=[["cellular"]],
    )


class LeasedCompare(JobCompare):
    """What a runner compares the ensemble with, after the training."""

    document: dict[str, Any] = Field(description="The baseline's document.", examples=[EXAMPLE_DOCUMENT])


class LeasedJob(Schema):
    """A job that a runner has leased."""

    registry: str = Field(description="Name of the registry.", examples=["local"])
    id: int = Field(description="The job's number.", examples=[7])
    attempt: int = Field(description="Which attempt this is, from 1.", examples=[1])
    study: StudyName
    study_text: str = Field(description="The study (YAML).", examples=["schema: ccatune-study/2\n..."])
    cca: CcaName
    datasets: list[DatasetName] = Field(description=_DATASETS)
    seed: int | None = Field(description="Replaces the seed of the study; null keeps it.", examples=[None])
    lease_s: float = Field(description="Time after which the lease runs out without a heartbeat.", examples=[60.0])
    compare: LeasedCompare | None = Field(description="The comparison after the training; null without one.")


def _last_log(text: str) -> str:
    return text[-MAX_LOG_CHARS:]


def _first_error(text: str) -> str:
    return text[:MAX_ERROR_CHARS]


_Log = Annotated[PlainText, AfterValidator(_last_log)]


class Heartbeat(Schema):
    """A runner's report that it still trains a job. It renews the lease."""

    lease: LeaseWord
    progress: JobProgress | None = Field(default=None, description="Its progress; null leaves the last one.")
    log: _Log | None = Field(default=None, description="The end of the attempt's log; null leaves the last one.")


class HeartbeatAnswer(Schema):
    """The answer to a heartbeat."""

    is_cancelling: bool = Field(description="Whether the runner must stop the job.", examples=[False])
    lease_s: float = Field(description="Time after which the lease runs out without a heartbeat.", examples=[60.0])


class AttemptEnd(Schema):
    """A runner's report that its attempt at a job has ended."""

    lease: LeaseWord
    outcome: Outcome = Field(
        description="`interrupted` and `lost` queue the job again; `lost` counts as a loss.", examples=["failed"]
    )
    ensemble: dict[str, Any] | None = Field(default=None, description="With `done`: the ensemble.", examples=[None])
    error: Annotated[PlainText, AfterValidator(_first_error)] | None = Field(
        default=None,
        description="With `failed` and `lost`: why. With `done`: why the ensemble was not compared.",
        examples=["expected recordings, got none"],
    )
    shadow: Shadow | None = Field(
        default=None, description="With `done`: the comparison with the baseline.", examples=[None]
    )
    log: _Log | None = Field(default=None, description="The end of the attempt's log.")

    @model_validator(mode="after")
    def _has_what_its_outcome_needs(self) -> AttemptEnd:
        if (self.ensemble is not None) != (self.outcome == "done"):
            raise ValueError("ensemble: expected one with the outcome `done`, and none with any other")
        if self.outcome != "done" and (self.error is None) == (self.outcome in {"failed", "lost"}):
            raise ValueError("error: expected it with `failed` and `lost`, and none with `cancelled` and `interrupted`")
        if self.shadow is not None and self.outcome != "done":
            raise ValueError("shadow: expected one with the outcome `done` alone")
        return self
