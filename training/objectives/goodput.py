# SPDX-License-Identifier: MIT
"""Most goodput, subject to a bound on retransmissions.

Over the cases of a point, each compared with a reference algorithm on the same case, with the same random numbers:

    cost      = - mean of g / g_reference, g the goodput
    violation = max(0, (r + z s) / most - 1), r the share of all sent packets that are retransmitted, and s its standard
                error over the cases (Cochran 1977, section 2.11)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from emulation.run.measures import Trial
from training.objectives.retransmissions import goodput_shares
from training.objectives.tally import ClasslessSettings, Floats, Objective, Pool, Rest, Tally, ratio_error
from training.searches.search import Score
from training.workloads.case import Purpose

UNBOUNDED = -1e9  # the cost that a point can still reach


class GoodputSettings(ClasslessSettings):
    """Most goodput with at most a share of packets retransmitted."""

    kind: Literal["goodput"]
    reference: str = Field("cubic", description="goodput counts as a share of this algorithm's, with its defaults")
    most_retransmitted: float = Field(0.01, gt=0, le=1, description="share of the sent packets, at most")
    margin_se: float = Field(0.5, ge=0, description="z: standard errors over the cases by which it must be less")

    def objectives(self, cca: str, purpose: Purpose, *, margin_se: float | None = None) -> list[Objective]:
        """The only one. margin_se: instead of the study's."""
        del cca
        margin = self.margin_se if margin_se is None else margin_se
        return [MostGoodput(self.reference, self.most_retransmitted, 0.0 if purpose == "validation" else margin)]


@dataclass(frozen=True)
class MostGoodput:
    """reference: an algorithm among the tallies' references. most_retransmitted: 0 to 1. margin_se: z."""

    reference: str
    most_retransmitted: float
    margin_se: float = 0.0

    needs_detection: ClassVar[bool] = False
    needs_delays: ClassVar[bool] = False

    @property
    def references(self) -> dict[str, Trial]:
        """The reference."""
        return {self.reference: Trial(self.reference)}

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """See Objective. While cases are left, nothing is bounded: a point can still become the best."""
        if rest is not None and rest.cases:
            return Score(violation=0.0, cost=UNBOUNDED, cases=len(pool.tallies), complete=False)
        sent = np.array([t.sent_pkts for t in pool.tallies], dtype=np.float64)
        retransmitted = np.array([t.retransmitted_pkts for t in pool.tallies], dtype=np.float64)
        share = float(retransmitted.sum() / max(sent.sum(), 1.0))
        at_most = share + self.margin_se * ratio_error(retransmitted, sent)
        cost = float(self.case_costs(pool.tallies).mean())
        return Score(
            violation=max(at_most / self.most_retransmitted - 1.0, 0.0),
            cost=cost,
            cases=len(pool.tallies),
            metrics={"goodput_share": -cost, "retransmitted_share": share},
        )

    def case_costs(self, tallies: Sequence[Tally]) -> Floats:
        """Goodput of each case over the reference's, negative."""
        return -goodput_shares(tallies, self.reference)

    def merit(self, score: Score) -> float:
        """Goodput as a share of the reference's."""
        return -score.cost
