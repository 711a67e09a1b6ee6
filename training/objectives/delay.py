# SPDX-License-Identifier: MIT
"""Most throughput subject to a percentile of the queueing delay (PQSA, eq. 4 and 5), or the other way around.

For the cases of a state, the delay class (rho, Q) and the aim a (1 unless a study trains for less than the target,
because unseen epochs do worse):

    S = packets within aQ, of all cases / packets of all cases; required: S - z s >= rho / 100

    violation = max(0, q / aQ - 1), q the percentile of the delay over all cases together
    cost      = 1 - utilization

s is the standard error of S over the cases: w_i of n_i packets of case i are within aQ, and for a ratio of two sums
over k cases (Cochran 1977, section 2.11)

    s^2 = k / (k - 1)  sum_i (w_i - S n_i)^2 / (sum_i n_i)^2

z (`margin_se`) requires a margin where cases are few or differ, because unseen ones will differ, too. It requires
hardly any where they are many and alike.

Delays are counted in bins: a packet is within aQ if its bin ends at or below aQ, and q is the upper edge of its bin.
Both err on the safe side. With the engine's bins (at most 6.3 % wide) 50, 100 and 200 ms become 49.6, 99.2 and
198.4 ms.

DEVIATION: eq. 4 requires the target of every epoch. One epoch with an outage would then make a state infeasible, or
its flows slow. Here it is required of the packets of all the state's epochs together, which is what users are promised.

The goal "delay" exchanges the two. Among the points whose goodput is at least a share of a rival's on the same cases
(an algorithm with its default parameters: another one, or the same), the one with the least percentile q wins.

    violation = max(0, (share + z s) R / D - 1), D and R the goodput of the point and of the
                rival, s the standard error of D / R over the cases, as above
    cost      = ln(1 + q / 1 ms), so that equal steps of a search are equal ratios of q

DEVIATION: q is the queueing delay of packets, not the smoothed RTT that a sender measures. At a single bottleneck the
RTT is q plus the path's own delay.

Bounds. Before all cases ran, a point can at best fill the rest of the capacity with packets that do not wait. Both
sides of the rank are computed with that, and with a rival that delivers nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emulation.run.measures import Trial
from emulation.run.simulator import compact_edges_us
from kmod.ensemble import DelayClass
from training.fields import StudyPart
from training.objectives.tally import Floats, Objective, Pool, Rest, Tally, percentile_us, ratio_error
from training.searches.search import Score
from training.workloads.case import Purpose

LEAST_EXCESS = 1e-6


class ClassSettings(StudyPart):
    """A delay class (rho, Q)."""

    goal: Literal["throughput", "delay"] = Field(
        "throughput", description="most throughput with the delay at most Q; or least delay with goodput_share"
    )
    goodput_share: float = Field(0.95, gt=0, le=1, description="goal delay: of the rival's goodput, at least")
    rival: str = Field("bbr", description="goal delay: the algorithm whose goodput, with its defaults, is required")
    percentile: int = Field(95, ge=1, le=99, description="rho: percentile of the queueing delay")
    queueing_delay_ms: int = Field(gt=0, description="Q: bound of the percentile; goal delay: only names the class")
    aim: float = Field(1.0, gt=0, le=1, description="training requires this share of Q, as unseen epochs do worse")
    ranges: dict[str, tuple[int, int]] = Field({}, description="search ranges of this class, before the study's")


class DelaySettings(StudyPart):
    """One search for each delay class."""

    kind: Literal["delay"]
    classes: tuple[ClassSettings, ...] = Field(min_length=1, max_length=8)
    margin_se: float = Field(
        0.0, ge=0, description="z: standard errors by which the share of packets within the target exceeds rho"
    )

    @model_validator(mode="after")
    def _rivals_are_known(self) -> DelaySettings:
        from kmod.abi import ALGORITHMS

        for one in self.classes:
            if one.rival not in ALGORITHMS:
                raise ValueError(f"expected a rival among {', '.join(ALGORITHMS)}, got {one.rival!r}")
        return self

    @property
    def delay_classes(self) -> tuple[DelayClass, ...]:
        """The classes of the ensemble."""
        return tuple(DelayClass(c.percentile, c.queueing_delay_ms * 1000) for c in self.classes)

    @property
    def has_boundary(self) -> bool:
        """Whether the constraint of each class bounds a measure that rises towards the best point."""
        return all(one.goal == "throughput" for one in self.classes)

    def ranges(self, delay_class: int) -> dict[str, tuple[int, int]]:
        """The search ranges of a class."""
        return self.classes[delay_class].ranges

    def objectives(self, cca: str, purpose: Purpose, *, margin_se: float | None = None) -> list[Objective]:
        """One for each class. Validation requires the target itself, without a margin.

        margin_se: instead of the study's.
        """
        del cca
        margin = self.margin_se if margin_se is None else margin_se
        trains = purpose != "validation"
        return [
            DelayObjective(
                percentile=c.percentile,
                aim_us=round(c.queueing_delay_ms * 1000 * (c.aim if trains else 1.0)),
                margin_se=margin if trains else 0.0,
                goal=c.goal,
                goodput_share=c.goodput_share,
                rival=c.rival if c.goal == "delay" else None,
            )
            for c in self.classes
        ]


@dataclass(frozen=True)
class DelayObjective:
    """One delay class during training.

    percentile: rho. aim_us: aQ. margin_se: z. goodput_share: of the rival's, of the goal "delay". rival: an algorithm
    among the tallies' references. edges_us: upper edges of the delay bins, ascending.
    """

    percentile: int
    aim_us: float
    margin_se: float = 0.0
    goal: Literal["throughput", "delay"] = "throughput"
    goodput_share: float = 1.0
    rival: str | None = None
    edges_us: NDArray[np.float64] = field(default_factory=compact_edges_us, repr=False, compare=False)

    needs_detection: ClassVar[bool] = False
    needs_delays: ClassVar[bool] = True

    @property
    def references(self) -> dict[str, Trial]:
        """The rival."""
        return {} if self.rival is None else {self.rival: Trial(self.rival)}

    @cached_property
    def bins_within(self) -> int:
        """The number of bins that end at or below the aim."""
        return int(np.searchsorted(self.edges_us, self.aim_us, side="right"))

    @property
    def share(self) -> float:
        """rho as a share."""
        return self.percentile / 100

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """See Objective."""
        left = rest or Rest()
        if self.goal == "delay":
            return self._least_delay(pool, left)
        capacity = pool.capacity_bytes + left.capacity_bytes
        cost = 1.0 - (pool.delivered_bytes + left.capacity_bytes) / max(capacity, 1)
        margin = 0.0
        if not left.cases:
            within = np.array([self._within(t.delays) for t in pool.tallies], dtype=np.float64)
            margin = self.margin_se * ratio_error(within, np.array([t.packets for t in pool.tallies], dtype=np.float64))
        return self._score(pool, left, violation=self._violation(pool, left.packets, margin), cost=cost)

    def case_costs(self, tallies: Sequence[Tally]) -> Floats:
        """Capacity left unused, or ln(1 + the percentile of the delay in ms), of each case."""
        if self.goal == "throughput":
            return np.array([1.0 - t.delivered_bytes / max(t.capacity_bytes, 1) for t in tallies])
        return np.log1p([percentile_us(t.delays, self.edges_us, share=self.share) / 1000 for t in tallies])

    def merit(self, score: Score) -> float:
        """Throughput in Mbit/s, or one over the delay in ms."""
        if self.goal == "throughput":
            return float(score.metrics["throughput_mbps"])
        return 1.0 / max(score.metrics["delay_ms"], 1e-3)

    def _score(
        self, pool: Pool, left: Rest, *, violation: float, cost: float, rival_share: float | None = None
    ) -> Score:
        delay_ms = percentile_us(pool.delays, self.edges_us, share=self.share) / 1000
        return Score(
            violation=violation,
            cost=cost,
            cases=len(pool.tallies),
            complete=left.cases == 0,
            bounded=delay_ms,
            metrics={
                "utilization": pool.delivered_bytes / max(pool.capacity_bytes, 1),
                "throughput_mbps": pool.delivered_bytes * 8e-6 / pool.duration_s,
                "delay_ms": delay_ms,
                "share_within": self._within(pool.delays) / max(pool.packets, 1),
                **({} if rival_share is None else {"rival_share": rival_share}),
            },
        )

    def _least_delay(self, pool: Pool, left: Rest) -> Score:
        goodput = pool.goodput_bytes + left.capacity_bytes
        by_rival = [t.references[self.rival or ""].goodput_bytes for t in pool.tallies]
        margin = 0.0
        if not left.cases and self.margin_se:
            by_point = [t.goodput_bytes for t in pool.tallies]
            margin = self.margin_se * ratio_error(np.array(by_point, dtype=np.float64), np.array(by_rival, np.float64))
        violation = max((self.goodput_share + margin) * sum(by_rival) / max(goodput, 1) - 1.0, 0.0)
        least_us = percentile_us(pool.delays, self.edges_us, share=self.share, waitless=left.packets)
        rival_share = pool.goodput_bytes / max(sum(by_rival), 1)
        return self._score(pool, left, violation=violation, cost=math.log1p(least_us / 1000), rival_share=rival_share)

    def _within(self, delays: NDArray[np.integer]) -> int:
        return int(delays[: self.bins_within].sum())

    def _violation(self, pool: Pool, waitless: int, margin: float) -> float:
        """By how much the percentile misses the aim. waitless: further packets, which do not wait. margin: z s."""
        # In integers without a margin: (within + waitless) / (packets + waitless) >= percentile / 100.
        required = self.percentile + 100 * margin if margin else self.percentile
        if (self._within(pool.delays) + waitless) * 100 >= required * (pool.packets + waitless):
            return 0.0
        q_us = percentile_us(pool.delays, self.edges_us, share=min(required / 100, 1.0), waitless=waitless)
        return max(q_us / self.aim_us - 1.0, LEAST_EXCESS)
