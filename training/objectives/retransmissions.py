# SPDX-License-Identifier: MIT
"""Fewest retransmissions, at the goodput of the unmodified algorithm, and few clients falsely taken for limited.

Over the cases of a point (workloads/policed.py), each compared on the same case, with the same random numbers, with the
unmodified algorithm U, with R-TCP's defaults D, and with the setting P of R-TCP's paper, which probes in another way:

    cost     mean over `limited` of r / max(r_U, 10), r the retransmitted packets
    goodput  of each kind: x = mean of g / g_U; required: x - z s >= share, s its standard error over the cases. With z
             (margin_se) training requires a margin where cases are few or differ
    files    `limited` must have nearly the goodput of P: d = mean of (g - default_share g_P) / g_U;
             required: d - z s >= 0, s the standard error of d
    false    the clients without a limit that end as limited; required: at most the share most_false of them

    violation = max over these requirements of (required / actual - 1), 0 where all are met

R-TCP probes so that it notices a limit that was raised. Without such cases the fewest retransmissions would be those of
a flow that never probes. Where D does worse than the requirement, D is the requirement: after a limit was raised, D's
goodput takes the place of U's where it is less, and as many clients may falsely be limited as with D, where those are
more than most_false. Otherwise a search that cannot meet all requirements would give up retransmissions for little.

Where detection never begins (its trigger is not among the tuned parameters) R-TCP equals U for all parameters. Such
cases run once (evaluation/runner.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from emulation.run.measures import Trial
from training.objectives.tally import ClasslessSettings, Floats, Objective, Pool, Rest, Tally
from training.searches.search import Score
from training.workloads.case import Purpose
from training.workloads.policed import KINDS, Kind

LEAST_RETRANSMITTED_PKTS = 10
# The setting of R-TCP 2026, section 6.1, among the references: all other parameters are the defaults.
PAPER = "paper"
PAPER_PARAMS = {"probing": 1}


class RetransmissionSettings(ClasslessSettings):
    """Requirements beside fewest retransmissions."""

    kind: Literal["retransmissions"]
    reference: str | None = Field(None, description="U; none: the algorithm that the study's is built on")
    goodput_share: float = Field(0.95, gt=0, le=1, description="of U's goodput, at least, of each kind of case")
    default_share: float = Field(0.999, gt=0, le=1, description="of the paper's setting's goodput, at least, of files")
    most_false: float = Field(0.005, gt=0, le=1, description="share of the clients without a limit taken for limited")
    margin_se: float = Field(0.5, ge=0, description="z: standard errors over the cases by which goodput must exceed it")

    def objectives(self, cca: str, purpose: Purpose, *, margin_se: float | None = None) -> list[Objective]:
        """The only one. margin_se: instead of the study's; below 0 it is what goodput may lack by chance."""
        margin = self.margin_se if margin_se is None else margin_se
        return [LeastRetransmissions(
            unmodified=self.reference or cca.partition("_")[2], defaults=cca, goodput_share=self.goodput_share,
            default_share=self.default_share, most_false=self.most_false,
            margin_se=0.0 if purpose == "validation" else margin,
        )]  # fmt: skip


def retransmitted_shares(tallies: Sequence[Tally], unmodified: str) -> Floats:
    """Retransmissions of each over the unmodified algorithm's; float [tallies]."""
    return np.array([
        t.retransmitted_pkts / max(t.references[unmodified].retransmitted_pkts, LEAST_RETRANSMITTED_PKTS)
        for t in tallies
    ])  # fmt: skip


def goodput_shares(tallies: Sequence[Tally], unmodified: str) -> Floats:
    """Goodput of each over the unmodified algorithm's; float [tallies]."""
    return np.array([t.goodput_bytes_per_s / max(t.references[unmodified].goodput_bytes_per_s, 1e-9) for t in tallies])


def references_of(tallies: Sequence[Tally], name: str) -> list[Tally]:
    """The runs of a reference on the same cases, with the same references."""
    return [replace(t.references[name], references=t.references) for t in tallies]


@dataclass(frozen=True)
class LeastRetransmissions:
    """unmodified, defaults: the algorithms U and D. goodput_share, default_share, most_false: 0 to 1. margin_se: z."""

    unmodified: str
    defaults: str
    goodput_share: float
    most_false: float
    default_share: float = 1.0
    margin_se: float = 0.0

    needs_detection: ClassVar[bool] = True
    needs_delays: ClassVar[bool] = False

    @property
    def references(self) -> dict[str, Trial]:
        """The defaults first: where they detect nothing, all others do the same."""
        trials = (Trial(self.defaults), Trial(self.unmodified))
        return {self.defaults: trials[0], PAPER: Trial(self.defaults, PAPER_PARAMS), self.unmodified: trials[1]}

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """See Objective. With a rest, a kind of which cases are left counts as if it met its requirement."""
        tallies, left = pool.tallies, rest or Rest()
        by_kind = {kind: [t for t in tallies if t.group == kind] for kind in KINDS}
        violation, least_share = 0.0, math.inf
        for kind, its in by_kind.items():
            if its and not left.groups.get(kind):
                short, share = self._short(kind, its)
                violation, least_share = max(violation, short), min(least_share, share)
        if not left.groups.get("unlimited"):
            violation = max(violation, self._false(by_kind["unlimited"]))
        # The files that are left retransmit nothing, at best.
        cost = float(self.case_costs(tallies).sum()) / max(len(by_kind["limited"]) + left.groups.get("limited", 0), 1)
        return Score(
            violation=violation,
            cost=cost,
            cases=len(tallies),
            complete=left.cases == 0,
            # While no kind has all of its cases, there is no share. A snapshot holds finite numbers alone.
            metrics={"retransmitted_share": cost, **({"goodput_share": least_share} if least_share < math.inf else {})},
        )

    def case_costs(self, tallies: Sequence[Tally]) -> Floats:
        """Of the cases with a limit that stays: retransmissions over the unmodified algorithm's."""
        return retransmitted_shares([t for t in tallies if t.group == "limited"], self.unmodified)

    def merit(self, score: Score) -> float:
        """One over the retransmissions, which are a share of the unmodified algorithm's."""
        return 1.0 / max(score.cost, 1e-3)

    def _short(self, kind: Kind, tallies: Sequence[Tally]) -> tuple[float, float]:
        """By how much the goodput of a kind misses its requirement, and its share of the unmodified algorithm's."""
        shares, default, paper = (goodput_shares(its, self.unmodified) for its in (
            tallies, references_of(tallies, self.defaults), references_of(tallies, PAPER)
        ))  # fmt: skip
        required = np.full(len(shares), self.goodput_share)
        if kind == "lifted" and default.mean() < 1:
            required = self.goodput_share * default
        short = self._short_of(required, shares)
        if kind == "limited":
            short = max(short, self._short_of(self.default_share * paper, shares))
        return short, float(shares.mean())

    def _short_of(self, required: Floats, shares: Floats) -> float:
        """By how much shares of goodput miss, in the mean, the requirement of each; both [cases]."""
        error = float((shares - required).std(ddof=1)) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0
        return max((float(required.mean()) + self.margin_se * error) / max(float(shares.mean()), 1e-9) - 1, 0.0)

    def _false(self, tallies: Sequence[Tally]) -> float:
        """By how much more clients than allowed are falsely taken for limited; 0 without such cases."""
        if not tallies:
            return 0.0
        allowed = max(self.most_false * len(tallies), sum(t.references[self.defaults].is_limited for t in tallies))
        return max(sum(t.is_limited for t in tallies) / allowed - 1, 0.0)
