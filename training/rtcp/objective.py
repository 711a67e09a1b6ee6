# SPDX-License-Identifier: MIT
"""What training asks of R-TCP: fewest retransmissions, at the unmodified algorithm's goodput, and few falsely limited.

Over the cases of a set of parameters (cases.py), each against the unmodified algorithm U on the same case, with the
same random numbers:

    cost     mean over `limited` of r / max(r_U, 10), r the packets that are sent again
    goodput  of each kind: x = mean of g / g_U; asked: x - z s >= share, s its standard error over the cases (z:
             margin_se), so that where cases are few or differ there is something to spare
    files    and of `limited` nearly the goodput of the paper's own setting P: d = mean of (g - paper_share g_P) / g_U;
             asked: d - z s >= 0, s the standard error of d
    false    of the clients without a limit those that end as limited; asked: of all of them at most most_false

    excess = max over what is asked of (what is asked over what it is) - 1, 0 where all of it holds

A limit that is raised is what R-TCP probes for: without such cases the fewest retransmissions would be those of a flow
that never probes. Where the paper's own setting does worse than what is asked, it is the measure: behind a limit that
is raised its goodput takes U's place where that is less, and as many clients may falsely be limited as with it, where
those are more than most_false. Else a search that cannot have all of it would give up retransmissions for little.

Where detection never begins (the trigger is no part of what is learnt) R-TCP is U, whatever the parameters: such cases
over links without a limit are not run again and again, and count (`untriggered`) as runs with x = 1 that are not false.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.objective import Pool, Rest, Tally
from training.rtcp.cases import KINDS, Kind
from training.search import Score

__all__ = ["LEAST_RESENT_PKTS", "LeastResent", "LimitTally", "Values", "goodput_shares", "resent_shares"]

LEAST_RESENT_PKTS = 10
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LimitTally(Tally):
    """A run on a case. delivered_bytes: goodput times duration_s; rival_bytes: the unmodified algorithm's.

    resent_pkts, rival_resent_pkts: sent again. is_limited: taken for limited in the end. default_bytes,
    default_is_limited: the same of the paper's setting.
    """

    kind: Kind = "limited"
    rival_bytes: int = 0
    default_bytes: int = 0
    resent_pkts: int = 0
    rival_resent_pkts: int = 0
    is_limited: bool = False
    default_is_limited: bool = False


def resent_shares(tallies: Sequence[LimitTally]) -> Values:
    """What each sends again, over what the unmodified algorithm does; float [tallies]."""
    return np.array([t.resent_pkts / max(t.rival_resent_pkts, LEAST_RESENT_PKTS) for t in tallies])


def goodput_shares(tallies: Sequence[LimitTally]) -> Values:
    """Goodput of each over the unmodified algorithm's; float [tallies]."""
    return np.array([t.delivered_bytes / max(t.rival_bytes, 1) for t in tallies])


def _used(tallies: Sequence[LimitTally]) -> float:
    """Delivered over what R carries meanwhile, 0 to 1: what the bucket holds comes on top."""
    return min(sum(t.delivered_bytes for t in tallies) / max(sum(t.capacity_bytes for t in tallies), 1), 1.0)


@dataclass(frozen=True)
class LeastResent:
    """goodput_share, paper_share, most_false: 0 to 1. margin_se: z, below 0 what goodput may lack by chance.

    untriggered: cases without a limit that are not run.
    """

    goodput_share: float
    most_false: float
    paper_share: float = 1.0
    margin_se: float = 0.0
    untriggered: int = 0

    def score(self, pool: Pool, *, rest: Rest | None = None) -> Score:
        """The score of a point on all of its cases; while some are left, that of the best there is: nothing is bounded.

        Expects at least one tally of a limited case.
        """
        tallies = [t for t in pool.tallies if isinstance(t, LimitTally)]
        complete = rest is None or rest.epochs == 0
        by_kind = {kind: [t for t in tallies if t.kind == kind] for kind in KINDS}
        limited = by_kind["limited"]
        excess, least_share = 0.0, math.inf
        for kind, its in by_kind.items():
            if its and complete:
                short, share = self._short(kind, its)
                excess, least_share = max(excess, short), min(least_share, share)
        if complete:
            excess = max(excess, self._false(by_kind["unlimited"]))
        return Score(
            excess=excess,
            utilization=_used(limited),
            throughput_mbps=pool.delivered_bytes * 8e-6 / pool.duration_s,
            delay_ms=0.0,
            share_within=1.0,
            epochs=len(tallies),
            complete=complete,
            cost=float(resent_shares(limited).mean()) if complete else 0.0,
            rival_share=least_share if complete else None,
        )

    def _short(self, kind: Kind, tallies: Sequence[LimitTally]) -> tuple[float, float]:
        """By how much the goodput of a kind misses what is asked, and what it is over the unmodified algorithm's."""
        shares = goodput_shares(tallies)
        default = np.array([t.default_bytes / max(t.rival_bytes, 1) for t in tallies])
        asked = np.full(len(shares), self.goodput_share)
        if kind == "lifted" and default.mean() < 1:
            asked = self.goodput_share * default
        if kind == "unlimited":
            shares = np.concatenate([shares, np.ones(self.untriggered)])
            asked = np.full(len(shares), self.goodput_share)
        short = self._short_of(asked, shares)
        if kind == "limited":
            short = max(short, self._short_of(self.paper_share * default, shares))
        return short, float(shares.mean())

    def _short_of(self, asked: Values, shares: Values) -> float:
        """By how much shares of goodput miss, in the mean, what is asked of each; both [cases]."""
        error = float((shares - asked).std(ddof=1)) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0
        return max((float(asked.mean()) + self.margin_se * error) / max(float(shares.mean()), 1e-9) - 1, 0.0)

    def _false(self, tallies: Sequence[LimitTally]) -> float:
        """By how much more are taken for limited than may be; 0 without such cases."""
        clients = len(tallies) + self.untriggered
        if not clients:
            return 0.0
        allowed = max(self.most_false * clients, sum(t.default_is_limited for t in tallies))
        return max(sum(t.is_limited for t in tallies) / allowed - 1, 0.0)
