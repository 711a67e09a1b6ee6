# SPDX-License-Identifier: MIT
"""The plan of a roll-out: its steps, what is compared, and how much worse the candidate may be."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from serving.rollouts.statistics import LEAST_BASELINE, MetricName

# No step has more than this many times the servers of the step before, and the promotion neither.
MOST_GROWTH = 5.0
# Each block of a switchback is a deployment.
MOST_BLOCKS = 1000
# Blocks that are judged at least. The last of them is judged after the wash-out of the next one.
_LEAST_BLOCKS = 2 * LEAST_BASELINE + 1
# The registry itself in the record of a roll-out and in the audit log.
JUDGE = "rollouts"
_HOUR_S = 3600.0

Share = Annotated[float, Field(gt=0, le=0.5)]
Seconds = Annotated[float, Field(gt=0, le=90 * 24 * _HOUR_S)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Limit(_Frozen):
    """How much worse a metric may be with the candidate."""

    metric: MetricName = Field(description="What is compared.")
    margin: float = Field(
        gt=0,
        le=0.5,
        description="Tolerated harm: for goodput a share of it, for shares and rates their difference; 0.02 is 2 % or "
        "2 percentage points.",
    )
    role: Literal["guardrail", "signal"] = Field(
        default="guardrail", description="What harm beyond the margin does: a guardrail aborts, a signal pauses."
    )


class Step(_Frozen):
    """A part of the roll-out in which a share of the servers has the candidate."""

    share: Share = Field(description="Share of the servers, at most one half, so that the others can be compared.")
    least_s: Seconds = Field(default=_HOUR_S, description="The next step begins no earlier than this many seconds.")
    most_s: Seconds = Field(
        default=24 * _HOUR_S, description="The roll-out pauses if nothing is decided after this many seconds."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Step:
        if self.most_s < 2 * self.least_s:
            raise ValueError(f"most_s: expected at least twice least_s ({2 * self.least_s:g} s), got {self.most_s:g} s")
        return self


class Switchback(_Frozen):
    """The whole fleet alternates between both tables. For fleets that are too small to be divided."""

    block_s: Seconds = Field(default=_HOUR_S, description="Length of a block, in which all servers have one table.")
    washout_s: float = Field(
        default=300, ge=0, description="Seconds at the start of a block that do not count: running flows take the "
        "table at the end of their epochs, queues of the other table drain, and reports of the last block arrive."
    )  # fmt: skip

    @model_validator(mode="after")
    def _leaves_some(self) -> Switchback:
        if self.washout_s > self.block_s / 2:
            raise ValueError(f"washout_s: expected at most half of block_s ({self.block_s / 2:g} s), "
                             f"got {self.washout_s:g} s")  # fmt: skip
        return self


_STEPS = tuple(Step(share=share) for share in (0.01, 0.05, 0.2, 0.5))
_LIMITS = (
    Limit(metric="within_target", margin=0.02),
    Limit(metric="goodput", margin=0.05),
    Limit(metric="retransmission_rate", margin=0.005),
)


class Plan(_Frozen):
    """How a roll-out proceeds and what ends it. After the last step the candidate is promoted to all servers."""

    steps: tuple[Step, ...] = Field(default=_STEPS, min_length=1, max_length=16, description="In order.")
    limits: tuple[Limit, ...] = Field(default=_LIMITS, min_length=1, max_length=3, description="One for each metric.")
    must_improve: MetricName | None = Field(
        default=None, description="A metric that must be better with the candidate, or there is no promotion."
    )
    alpha: float = Field(
        default=0.05, ge=0.001, le=0.2, description="Probability that any interval of the whole roll-out is wrong."
    )
    looks_per_step: int = Field(default=8, ge=3, le=100, description="How often each step is judged.")
    least_servers: int = Field(default=5, ge=5, le=10_000, description="Servers with figures that each arm needs.")
    least_samples: int = Field(default=200, ge=1, description="Delay samples without which a server does not count.")
    silent_s: Seconds = Field(default=1800, description="A server is silent after this many seconds without a report.")
    silent_share: float = Field(
        default=0.1, ge=0, lt=1, description="The roll-out pauses if more of the servers of an arm are silent."
    )
    stratify_by: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9_]{0,62}$", description="Label within whose values the shares hold."
    )
    switchback: Switchback | None = Field(default=None, description="Alternate in time instead of by servers.",
                                           examples=[None])  # fmt: skip

    @model_validator(mode="after")
    def _gradual(self) -> Plan:
        shares = [step.share for step in self.steps]
        if self.switchback is not None:
            self._check_switchback(self.switchback)
        else:
            for share, following in pairwise([*shares, 1.0]):
                if not share < following <= MOST_GROWTH * share * (1 + 1e-9):
                    raise ValueError(
                        f"steps: expected each share above the one before and at most {MOST_GROWTH:g} times as large, "
                        f"also that of all servers at the end, got {following:g} after {share:g}"
                    )
        names = [limit.metric for limit in self.limits]
        if len(set(names)) < len(names):
            raise ValueError(f"limits: expected each metric once, got {', '.join(names)}")
        if all(limit.role != "guardrail" for limit in self.limits):
            raise ValueError("limits: expected at least one guardrail, got signals only; nothing could abort")
        if self.must_improve is not None and self.must_improve not in names:
            raise ValueError(f"must_improve: expected a metric of the limits, got {self.must_improve}")
        return self

    def _check_switchback(self, switchback: Switchback) -> None:
        if len(self.steps) > 1:
            raise ValueError(f"steps: expected one step by switchback, got {len(self.steps)}")
        if self.stratify_by is not None:
            raise ValueError("stratify_by: expected none by switchback, where all servers have the same table")
        needed_s = _LEAST_BLOCKS * switchback.block_s
        longest_s = MOST_BLOCKS * switchback.block_s
        if not needed_s <= self.steps[0].most_s <= longest_s:
            raise ValueError(
                f"steps: expected a most_s of {needed_s:g} s, which {LEAST_BASELINE} pairs of blocks and their reports "
                f"take, to {longest_s:g} s, which {MOST_BLOCKS} blocks take, got {self.steps[0].most_s:g} s"
            )

    @property
    def n_planned_looks(self) -> int:
        """The number of looks of the whole roll-out, if nothing pauses it."""
        return len(self.steps) * self.looks_per_step

    def share_after(self, step: int) -> float:
        """Return the share of the servers after this step, which is 1 after the last one."""
        return self.steps[step + 1].share if step + 1 < len(self.steps) else 1.0

    def next_look_s(self, step: int, last_look_s: float | None) -> float:
        """Return when the step is judged next, in seconds since it began. last_look_s: None before the first look.

        The looks are at growing distances, from a quarter of the least time to the most time. By switchback they begin
        when there are enough blocks, because a look without figures would spend error probability for nothing.
        """
        wanted = self.steps[step]
        first_s = wanted.least_s / 4
        if self.switchback is not None:
            first_s = min(max(first_s, _LEAST_BLOCKS * self.switchback.block_s), wanted.most_s / 2)
        if last_look_s is None:
            return first_s
        growth: float = (wanted.most_s / first_s) ** (1 / (self.looks_per_step - 1))
        following_s = max(last_look_s, first_s) * growth
        # Without the tolerance rounding could put the last look a moment after the time limit.
        return wanted.most_s if last_look_s < wanted.most_s <= following_s * (1 + 1e-6) else following_s
