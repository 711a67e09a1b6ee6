# SPDX-License-Identifier: MIT
"""Decides how a roll-out goes on: a pure function of the servers' sums, the plan and the clock.

    abort     a guardrail is worse: the lower bound of its harm is above 0, and the estimate above its margin
    pause     a signal is worse in this sense; or servers are silent; or the arms have other shares of the servers than
              assigned; or the step's time is over
    advance   at a look after the step's least time, the upper bound of each guardrail's harm is below
              margin / share of the servers in the next step
    promote   the same after the last step, where that share is 1; and `must_improve` has an upper bound below 0
    continue  otherwise

The first that applies counts. A roll-out that is paused can still abort.

Harm to the fleet is the harm to a server times the share of the servers that have the candidate. The rule for `advance`
therefore bounds the harm to the mean server of the fleet by the margin in each step. With the margin itself as the
bound, a step of few servers could not end: their intervals are wider than any useful margin.

With "lower bound above the margin" as the rule for `abort`, a candidate that is worse by twice the margin is found with
a quarter of the servers' noise only. Both rules abort a candidate that is as good as the baseline with probability
alpha at most (docs/rollouts.md has their rates).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from serving.rollouts import wording
from serving.rollouts.plan import Limit, Plan
from serving.rollouts.statistics import METRICS, Harm, Unit, alpha_of_look, binomial_p, harm_between, harm_within

Action = Literal["continue", "advance", "pause", "abort", "promote"]

# Error probability of the check of the arms' sizes, over all looks.
_RATIO_ALPHA = 0.001
# Share of its servers with figures that the candidate's arm needs, relative to the baseline's.
_LEAST_COVERAGE = 0.8


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a roll-out stands in time. Times are in seconds on one clock.

    step: counted from 0. limit_from_s: when the step's most time began to run, which is its begin or the last
    resumption. n_looks: looks of the whole roll-out so far. last_look_s: when the step was last judged, or None.
    """

    now_s: float
    step: int
    step_began_s: float
    limit_from_s: float
    n_looks: int
    last_look_s: float | None = None
    is_paused: bool = False


@dataclass(frozen=True)
class Decision:
    """What to do next, why in plain sentences, and the figures behind it as JSON data.

    is_look: whether error probability was spent. The caller then counts the look and keeps its time.
    """

    action: Action
    reasons: tuple[str, ...]
    evidence: dict[str, Any]
    is_look: bool


def is_look_due(plan: Plan, clock: Clock) -> bool:
    """Whether `decide` judges the figures now. Otherwise it needs no sums."""
    most_s = plan.steps[clock.step].most_s
    is_over = clock.now_s - clock.limit_from_s >= most_s
    # A step ends with a look, although the next one may be much later after a resumption.
    is_last = is_over and (clock.last_look_s is None or clock.last_look_s < clock.limit_from_s + most_s)
    return is_last or clock.now_s - clock.step_began_s >= _next_look_s(plan, clock)


def _next_look_s(plan: Plan, clock: Clock) -> float:
    return plan.next_look_s(clock.step, None if clock.last_look_s is None else clock.last_look_s - clock.step_began_s)


def decide(units: Sequence[Unit], plan: Plan, clock: Clock, *, silent_s: Sequence[float | None] = ()) -> Decision:
    """Return what a roll-out does next.

    units: every server of the roll-out; by switchback every block that is over and whose reports have arrived.
    silent_s: by switchback the seconds since the last report of each server, None if it was removed.
    """
    step = plan.steps[clock.step]
    elapsed_s = clock.now_s - clock.step_began_s
    is_over = clock.now_s - clock.limit_from_s >= step.most_s
    is_look = is_look_due(plan, clock)
    evidence = _evidence(units, plan, clock, elapsed_s=elapsed_s)
    if plan.switchback is None:
        silent = _silent(units, plan)
    else:
        silent, evidence["silent"] = _silent_fleet(silent_s, plan)
    if not is_look:
        if silent and not clock.is_paused:
            return Decision("pause", tuple(silent), evidence, is_look=False)
        return Decision("continue", (wording.waiting(_next_look_s(plan, clock) - elapsed_s),), evidence, is_look=False)
    look = _Look(units, plan, clock)
    evidence["look"] = look.number
    evidence["alpha"] = look.alpha
    evidence["metrics"] = look.evidence()
    if harmful := look.worse("guardrail"):
        return Decision("abort", tuple(harmful), evidence, is_look=True)
    pausing = [*silent, *look.uneven(), *look.worse("signal")]
    missing = [*pausing, *look.unproven(elapsed_s)]
    action: Action = "continue"
    reasons = [wording.waiting(plan.next_look_s(clock.step, elapsed_s) - elapsed_s)]
    if clock.is_paused:
        reasons = ["No guardrail shows harm. The roll-out is paused until someone resumes it."]
    elif pausing:
        action, reasons = "pause", pausing
    elif not missing:
        action = "promote" if clock.step + 1 == len(plan.steps) else "advance"
        reasons = look.proven()
    elif is_over:
        action, reasons = "pause", [wording.over(step.most_s), *missing]
    else:
        reasons += missing
    return Decision(action, tuple(reasons), evidence, is_look=True)


class _Look:
    """One judgement of all metrics."""

    def __init__(self, units: Sequence[Unit], plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._units = units
        self._step = clock.step
        self.number = clock.n_looks + 1
        self.alpha = alpha_of_look(self.number, planned=plan.n_planned_looks, alpha=plan.alpha / len(plan.limits))
        self._harms = {limit.metric: self._harm(limit) for limit in plan.limits}

    def _harm(self, limit: Limit) -> Harm | None:
        metric, plan = METRICS[limit.metric], self._plan
        if plan.switchback is not None:
            return harm_within(
                self._units, metric, margin=limit.margin, alpha=self.alpha, least_samples=plan.least_samples
            )
        return harm_between(
            self._units, metric, margin=limit.margin, alpha=self.alpha, least_samples=plan.least_samples,
            least_servers=plan.least_servers,
        )  # fmt: skip

    def evidence(self) -> dict[str, Any]:
        return {
            limit.metric: {
                "role": limit.role,
                "margin": limit.margin,
                "tolerated": self._tolerated(limit),
                "harm": None if (harm := self._harms[limit.metric]) is None else asdict(harm),
            }
            for limit in self._plan.limits
        }

    def _tolerated(self, limit: Limit) -> float:
        return limit.margin / self._plan.share_after(self._step)

    def worse(self, role: Literal["guardrail", "signal"]) -> list[str]:
        return [
            wording.worse(METRICS[limit.metric], harm, limit=limit, unit=self._unit)
            for limit in self._plan.limits
            if limit.role == role
            and (harm := self._harms[limit.metric]) is not None
            and harm.lower > 0
            and harm.estimate > limit.margin
        ]

    @property
    def _unit(self) -> str:
        return "servers" if self._plan.switchback is None else "blocks of time"

    def uneven(self) -> list[str]:
        """Whether the servers with figures are divided otherwise than all servers were."""
        assigned, counted = _sizes(self._units), _sizes(self._counted())
        n_assigned, n_counted = sum(assigned.values()), sum(counted.values())
        if self._plan.switchback is not None or not (0 < assigned["candidate"] < n_assigned) or n_counted == 0:
            return []
        share = assigned["candidate"] / n_assigned
        p = binomial_p(counted["candidate"], n_counted, share)
        if p >= alpha_of_look(self.number, planned=self._plan.n_planned_looks, alpha=_RATIO_ALPHA):
            return []
        return [wording.uneven(counted["candidate"], n_counted, share=share, p=p)]

    def unproven(self, elapsed_s: float) -> list[str]:
        """What is missing for the next step."""
        least_s = self._plan.steps[self._step].least_s
        found = [wording.too_early(least_s)] if elapsed_s < least_s else []
        counted = _sizes(self._counted())
        if self._plan.switchback is None:
            assigned = _sizes(self._units)
            coverage = {arm: counted[arm] / max(1, assigned[arm]) for arm in assigned}
            if coverage["candidate"] < _LEAST_COVERAGE * coverage["baseline"]:
                found.append(wording.uncovered(counted, assigned))
        else:
            servers = _servers_per_block(self._units)
            if servers["candidate"] < _LEAST_COVERAGE * servers["baseline"]:
                found.append(wording.uncovered_blocks(servers))
        for limit in self._plan.limits:
            harm, metric = self._harms[limit.metric], METRICS[limit.metric]
            if harm is None:
                found.append(wording.too_few(metric, counted, plan=self._plan))
            elif limit.role == "guardrail" and harm.upper >= self._tolerated(limit):
                found.append(wording.undecided(metric, harm, limit, self._plan.share_after(self._step), self._unit))
            is_last = self._step + 1 == len(self._plan.steps)
            if is_last and harm is not None and limit.metric == self._plan.must_improve and harm.upper >= 0:
                found.append(wording.no_gain(metric, harm, unit=self._unit))
        return found

    def proven(self) -> list[str]:
        share = self._plan.share_after(self._step)
        return [
            wording.proven(METRICS[limit.metric], harm, limit=limit, share=share, unit=self._unit)
            for limit in self._plan.limits
            if (harm := self._harms[limit.metric]) is not None
        ]

    def _counted(self) -> list[Unit]:
        return [unit for unit in self._units if unit.since.delay_samples >= self._plan.least_samples]


def _sizes(units: Sequence[Unit]) -> dict[str, int]:
    candidate = sum(unit.arm == "candidate" for unit in units)
    return {"candidate": candidate, "baseline": len(units) - candidate}


def _servers_per_block(units: Sequence[Unit]) -> dict[str, float]:
    """Return the mean number of servers with figures in the blocks of each arm."""
    n_blocks = _sizes(units)
    candidate = sum(unit.n_servers for unit in units if unit.arm == "candidate")
    baseline = sum(unit.n_servers for unit in units) - candidate
    return {"candidate": candidate / max(1, n_blocks["candidate"]), "baseline": baseline / max(1, n_blocks["baseline"])}


def _is_silent(seconds: float | None, plan: Plan) -> bool:
    return seconds is None or seconds > plan.silent_s


def _silent(units: Sequence[Unit], plan: Plan) -> list[str]:
    assigned = _sizes(units)
    silent = _sizes([unit for unit in units if _is_silent(unit.silent_s, plan)])
    return [
        wording.silent(arm, silent[arm], of=n, plan=plan)
        for arm, n in assigned.items()
        if silent[arm] > plan.silent_share * n or n == 0
    ]


def _silent_fleet(silent_s: Sequence[float | None], plan: Plan) -> tuple[list[str], dict[str, int]]:
    n = sum(_is_silent(seconds, plan) for seconds in silent_s)
    words = [wording.silent(None, n, of=len(silent_s), plan=plan)] if n > plan.silent_share * len(silent_s) else []
    return words, {"servers": n}


def _evidence(units: Sequence[Unit], plan: Plan, clock: Clock, *, elapsed_s: float) -> dict[str, Any]:
    return {
        "step": clock.step + 1,
        "share": plan.steps[clock.step].share,
        "elapsed_s": elapsed_s,
        "assigned": _sizes(units),
        "with_figures": _sizes([unit for unit in units if unit.since.delay_samples >= plan.least_samples]),
        "silent": _sizes([unit for unit in units if _is_silent(unit.silent_s, plan)]),
    }
