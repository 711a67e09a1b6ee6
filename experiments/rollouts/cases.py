# SPDX-License-Identifier: MIT
"""The cases of the experiment: candidates whose harm is known, each rolled out with many seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.rollouts.fleet import N_SERVERS, Fleet, Harm, Outcome, roll_out, switch_back
from experiments.rollouts.pool import Epochs
from experiments.rollouts.shared import SharedFleet
from serving.rollouts.plan import Limit, Plan, Step, Switchback
from training.intervals import wilson_95

# The margins are about as large as the figures of single servers spread within an hour.
MARGINS = {"within_target": 0.01, "goodput": 0.04, "retransmission_rate": 0.0003}
LIMITS = tuple(Limit.model_validate({"metric": name, "margin": margin}) for name, margin in MARGINS.items())
PLAN = Plan(
    steps=tuple(Step(share=share, least_s=3600, most_s=8 * 3600) for share in (0.01, 0.05, 0.2, 0.5)), limits=LIMITS,
    looks_per_step=9,
)  # fmt: skip
# A gain must be certain here, because one wrong promotion of 40 would be as many as an alpha of 5 % allows.
GAINING = PLAN.model_copy(update={"must_improve": "goodput", "alpha": 0.01})
BY_TIME = Plan(
    steps=(Step(share=0.5, least_s=16 * 3600, most_s=48 * 3600),), limits=LIMITS, must_improve="goodput", alpha=0.01,
    switchback=Switchback(washout_s=0),
)  # fmt: skip
CANDIDATES = {
    "better": Harm(within_target=MARGINS["within_target"], goodput=1 + MARGINS["goodput"]),
    "worse, within target": Harm(within_target=-2 * MARGINS["within_target"]),
    "worse, goodput": Harm(goodput=1 - 2 * MARGINS["goodput"]),
    "worse, retransmissions": Harm(retransmission_rate=2 * MARGINS["retransmission_rate"]),
}


@dataclass(frozen=True)
class Result:
    """How many of the roll-outs ended as `counted`. outcomes: empty for the naive comparison, which ends none."""

    case: str
    counted: str
    hits: int
    of: int
    outcomes: tuple[Outcome, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate."""
        return wilson_95(self.hits, self.of)

    def summary(self) -> dict[str, object]:
        """The result as JSON data."""
        hours = [outcome.hours for outcome in self.outcomes]
        return {
            "case": self.case, "counted": self.counted, "hits": self.hits, "of": self.of, "interval": self.interval,
            "actions": dict(Counter(outcome.action for outcome in self.outcomes)),
            "median_hours": float(np.median(hours)) if hours else None,
            "p95_hours": float(np.percentile(hours, 95)) if hours else None,
            "most_share": max((outcome.share for outcome in self.outcomes), default=None),
            "mean_looks": float(np.mean([outcome.n_looks for outcome in self.outcomes])) if hours else None,
        }  # fmt: skip


def known_harm(epochs: Epochs, *, seeds: int) -> Iterator[Result]:
    """Yield the results of candidates that are better, and worse by twice the margin of one metric."""
    for case, harm in CANDIDATES.items():
        outcomes = tuple(_rolled_out(epochs, harm, seed, name=f"{case} {seed}") for seed in range(seeds))
        if case == "better":
            yield _result(case, "promoted", outcomes, lambda it: it.action == "promote")
        else:
            counted = "aborted before a quarter of the servers had it"
            yield _result(case, counted, outcomes, lambda it: it.action == "abort" and it.share < 0.25)


def no_difference(epochs: Epochs, *, runs: int) -> Result:
    """Return how often a table was aborted against itself, over all looks of all steps."""
    outcomes = tuple(_rolled_out(epochs, Harm(), 1000 + seed, name=f"itself {seed}", held=True) for seed in range(runs))
    return _result("itself, all looks", "not aborted", outcomes, lambda it: it.action != "abort")


def shared_queues(epochs: Epochs, *, seeds: int) -> Iterator[Result]:
    """Yield the results for a candidate without effect once all have it, where the plan requires a gain of goodput."""
    fleets = range(2000, 2000 + seeds)
    gains = [
        SharedFleet(epochs, seed=seed, n_servers=N_SERVERS).naive(alpha=GAINING.alpha).upper < 0 for seed in fleets
    ]
    yield Result("naive: flows of one server", "a gain is claimed", sum(gains), seeds)

    def result(case: str, counted: str, run: Callable[[SharedFleet, str], Outcome], *, promoted: bool) -> Result:
        outcomes = tuple(run(SharedFleet(epochs, seed=at, n_servers=N_SERVERS), f"{case} {at}") for at in fleets)
        return _result(case, counted, outcomes, lambda it: (it.action == "promote") is promoted)

    sites = np.zeros(N_SERVERS, dtype=np.int64)
    yield result("servers, queues of their own", "not promoted",
                 lambda fleet, name: roll_out(fleet.own, GAINING, name=name, sites=sites), promoted=False)  # fmt: skip
    yield result("switchback, queues between servers", "not promoted",
                 lambda fleet, name: switch_back(fleet.between, BY_TIME, name=name, n_servers=N_SERVERS),
                 promoted=False)  # fmt: skip
    yield result("servers, queues between servers", "promoted, which is wrong",
                 lambda fleet, name: roll_out(fleet.between, GAINING, name=name, sites=sites),
                 promoted=True)  # fmt: skip


def _rolled_out(epochs: Epochs, harm: Harm, seed: int, *, name: str, held: bool = False) -> Outcome:
    fleet = Fleet(epochs, harm, seed=seed)
    return roll_out(fleet.report, PLAN, name=name, sites=fleet.site, held=held)


def _result(case: str, counted: str, outcomes: tuple[Outcome, ...], is_hit: Callable[[Outcome], bool]) -> Result:
    return Result(case, counted, sum(map(is_hit, outcomes)), len(outcomes), outcomes)
