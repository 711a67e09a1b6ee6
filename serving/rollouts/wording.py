# SPDX-License-Identifier: MIT
"""The reasons of a decision as sentences for operators, with figures and units."""

from __future__ import annotations

from collections.abc import Mapping

from serving.rollouts.plan import Limit, Plan, Switchback
from serving.rollouts.statistics import Arm, Harm, Metric


def _amount(metric: Metric, harm: float) -> str:
    return f"{100 * abs(harm):.2g} {metric.unit}"


def _direction(metric: Metric, harm: float) -> str:
    return f"{_amount(metric, harm)} {metric.worse if harm > 0 else metric.better}"


def _compared(metric: Metric, harm: Harm, unit: str) -> str:
    return (
        f"The {metric.title} is {_direction(metric, harm.estimate)} on the {harm.n_candidate} {unit} with the "
        f"candidate ({metric.text(harm.candidate)}) than on the {harm.n_baseline} with the baseline "
        f"({metric.text(harm.baseline)}; confidence interval of the difference: from "
        f"{_direction(metric, harm.lower)} to {_direction(metric, harm.upper)})."
    )


def _duration(seconds: float) -> str:
    for unit_s, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.3g} {unit}"
    return f"{max(0.0, seconds):.0f} seconds"


def worse(metric: Metric, harm: Harm, *, limit: Limit, unit: str) -> str:
    """Say that a metric is worse by more than its margin."""
    ends = "aborted" if limit.role == "guardrail" else "paused"
    return (
        f"{_compared(metric, harm, unit)} The plan tolerates at most {_amount(metric, limit.margin)} {metric.worse}, "
        f"and by its interval the difference cannot be explained by chance. The roll-out is therefore {ends}."
    )


def undecided(metric: Metric, harm: Harm, limit: Limit, share: float, unit: str) -> str:
    """Say that a metric may still be worse than tolerated."""
    return (
        f"{_compared(metric, harm, unit)} Before {_servers(share)} may have the candidate, the whole interval must be "
        f"below {_amount(metric, limit.margin / share)} {metric.worse}."
    )


def proven(metric: Metric, harm: Harm, *, limit: Limit, share: float, unit: str) -> str:
    """Say that a metric is not worse than tolerated."""
    if limit.role == "signal":
        return _compared(metric, harm, unit)
    return (
        f"{_compared(metric, harm, unit)} The whole interval is below {_amount(metric, limit.margin / share)} "
        f"{metric.worse}, which is tolerated before {_servers(share)} may have the candidate."
    )


def no_gain(metric: Metric, harm: Harm, *, unit: str) -> str:
    """Say that a metric is not shown to be better, although the plan requires it."""
    return f"{_compared(metric, harm, unit)} The plan requires that the whole interval is on the better side."


def _servers(share: float) -> str:
    return "all servers" if share == 1 else f"{100 * share:g} % of the servers"


def too_few(metric: Metric, counted: Mapping[str, int], *, plan: Plan) -> str:
    """Say that a metric cannot be judged yet."""
    if plan.switchback is not None:
        return f"There are too few pairs of whole blocks with figures to compare the {metric.title}."
    return (
        f"Too few servers have figures to compare the {metric.title}: {counted['candidate']} with the candidate and "
        f"{counted['baseline']} with the baseline have at least {plan.least_samples} delay samples each; the plan "
        f"requires {plan.least_servers} of each."
    )


def uncovered(counted: Mapping[str, int], assigned: Mapping[str, int]) -> str:
    """Say that relatively few servers with the candidate have figures."""
    return (
        f"Only {counted['candidate']} of the {assigned['candidate']} servers with the candidate have figures, beside "
        f"{counted['baseline']} of the {assigned['baseline']} with the baseline. Some servers may not have applied the "
        "candidate."
    )


def uneven(candidate: int, counted: int, *, share: float, p: float) -> str:
    """Say that the arms' sizes differ from the assigned shares."""
    return (
        f"{candidate} of the {counted} servers with figures have the candidate, but {100 * share:.3g} % of all servers "
        f"were assigned to it. By chance this happens with a probability of {p:.1g} only. The figures of some servers "
        "are therefore missing because of their table, and a comparison would be wrong."
    )


def uncovered_blocks(servers: Mapping[str, float]) -> str:
    """Say that relatively few servers have figures in the blocks with the candidate. servers: the mean of each arm."""
    return (
        f"In a block with the candidate {servers['candidate']:.3g} servers have figures, and in one with the baseline "
        f"{servers['baseline']:.3g}, in the mean. Some servers may not have applied the candidate."
    )


def silent(arm: Arm | str | None, n: int, *, of: int, plan: Plan) -> str:
    """Say that too many servers of an arm do not report. arm: None for all servers."""
    if of == 0:
        return f"No server has the {arm}, so nothing can be compared."
    return (
        f"{n} of the {of} servers{'' if arm is None else f' with the {arm}'} have not reported for more than "
        f"{_duration(plan.silent_s)}. At most "
        f"{100 * plan.silent_share:.3g} % may be silent."
    )


def alternating(n_servers: int, switchback: Switchback) -> str:
    """Say how a roll-out by switchback goes."""
    return (
        f"All {n_servers} servers alternate between both ensembles, in blocks of {_duration(switchback.block_s)}. The "
        f"first {_duration(switchback.washout_s)} of a block do not count."
    )


def waiting(seconds: float) -> str:
    """Say when the roll-out is judged next."""
    return f"The roll-out is judged again in {_duration(seconds)}."


def too_early(least_s: float) -> str:
    """Say that the step has not lasted long enough."""
    return f"The step lasts at least {_duration(least_s)}."


def over(most_s: float) -> str:
    """Say that the step's time is over."""
    return f"The step's time limit of {_duration(most_s)} is over, and the conditions for the next step are not met."
