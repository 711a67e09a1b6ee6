# SPDX-License-Identifier: MIT
"""Computes the error of each figure of a case, and whether a campaign meets its targets.

    error        median of the simulated runs - median of the real runs, in the metric's unit, and as a share of the
                 median of the real runs
    within       |error| is at most the target's share of the real figure, or its units: whichever allows more
    beyond       |error| exceeds the limit that no case may exceed by more than chance explains. Chance explains twice
                 the standard error of the difference of the medians. More runs lower this error
    reduction    1 - retransmission rate / retransmission rate of the base algorithm (the plan's `reductions`), for
                 each run and each seed. The sides agree if the kernel's median lies within the range of the
                 simulator's seeds
    spread       maximum - minimum of a side's runs. An error that is at most the kernel's spread is reported as such,
                 but it still counts as outside if it exceeds the target

Repeated runs of a case differ in the kernel, and also in the simulator where single packets decide the outcome.
Therefore medians are compared, and the spreads of both sides are reported with them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulation.mahimahi.machine import is_disturbed
from emulation.scenario.model import Cca
from experiments.fidelity.kernels import Outcome
from experiments.fidelity.plan import Explanation, MetricName, Plan, Target
from experiments.fidelity.runs import Figures
from kmod.terminal import counted


@dataclass(frozen=True)
class Metric:
    """A figure that is compared. unit: the unit of its errors. scale: the factor from the figure to that unit."""

    name: MetricName
    title: str
    figure: str
    unit: str
    scale: float = 1.0

    def of(self, figures: Figures) -> float:
        """The figure in the metric's unit."""
        return float(getattr(figures, self.figure)) * self.scale


METRICS = (
    Metric("throughput", "throughput", "throughput_mbps", "Mbit/s"),
    Metric("queueing_delay", "p95 queueing delay", "queueing_delay_p95_ms", "ms"),
    Metric("retransmissions", "retransmission rate", "retransmission_rate", "points", 100.0),
)


@dataclass(frozen=True)
class Middle:
    """The median, the minimum and the maximum of the runs of one side, and the standard error of the median."""

    median: float
    least: float
    most: float
    standard_error: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Middle:
        """Compute these statistics from the figures of at least one run."""
        return cls(statistics.median(values), min(values), max(values), _standard_error(values))

    def scaled(self, by: float) -> Middle:
        """Convert it to another unit. by: a factor above 0."""
        return Middle(self.median * by, self.least * by, self.most * by, self.standard_error * by)

    @property
    def spread(self) -> float:
        """The difference between the maximum and the minimum of the runs."""
        return self.most - self.least


def _standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the median: sqrt(pi / 2) sigma / sqrt(n); 0 for a single run.

    sigma is derived from the quartiles, because outliers do not affect them.
    """
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    sigma = (high - low) / (2 * statistics.NormalDist().inv_cdf(0.75))
    return math.sqrt(math.pi / 2 / len(values)) * sigma


@dataclass(frozen=True)
class Error:
    """The difference between the simulator and the kernel in one metric of one case."""

    metric: Metric
    real: Middle
    simulated: Middle
    target: Target

    @property
    def error(self) -> float:
        """The error in the metric's unit; above 0 if the simulator's median is larger."""
        return self.simulated.median - self.real.median

    @property
    def share(self) -> float:
        """The error as a share of the real figure; infinite if that is 0 and the simulator's is not."""
        if self.real.median:
            return self.error / self.real.median
        return float("inf") if self.error else 0.0

    @property
    def chance(self) -> float:
        """The part of the error that chance explains: twice its standard error."""
        return 2 * math.hypot(self.real.standard_error, self.simulated.standard_error)

    def _is_at_most(self, share: float, units: float, *, more: float = 0.0) -> bool:
        # The tolerance of a billionth accepts errors that equal the limit apart from rounding.
        return abs(self.error) <= max(share * abs(self.real.median), units) * (1 + 1e-9) + more + 1e-12

    @property
    def is_within(self) -> bool:
        """Whether the error is within the target."""
        return self._is_at_most(self.target.within, self.target.within_units)

    @property
    def is_perhaps_beyond(self) -> bool:
        """Whether the error exceeds the limit that no case may exceed, possibly by chance only."""
        line = self.target.never_beyond
        return line is not None and not self._is_at_most(line, self.target.never_beyond_units)

    @property
    def is_beyond(self) -> bool:
        """Whether the error exceeds the limit that no case may exceed by more than chance explains."""
        line = self.target.never_beyond
        return line is not None and not self._is_at_most(line, self.target.never_beyond_units, more=self.chance)

    @property
    def is_of_the_spread(self) -> bool:
        """Whether the error is at most the spread of the kernel's runs."""
        return abs(self.error) <= self.real.spread


@dataclass(frozen=True)
class Comparison:
    """A case with runs on both sides.

    required: the number of real runs that the campaign requires.
    runs, seeds: the numbers of real and simulated runs that exist.
    disturbed: the number of real runs on this machine's kernel during which timers were late.
    """

    key: str
    runner: str
    required: int
    runs: int
    seeds: int
    errors: tuple[Error, ...]
    explanation: Explanation | None
    disturbed: int

    @property
    def outside(self) -> tuple[Error, ...]:
        """The errors that are not within their target."""
        return tuple(error for error in self.errors if not error.is_within)

    @property
    def unexplained(self) -> tuple[Error, ...]:
        """The errors that are outside their target and that the plan does not explain."""
        explained = () if self.explanation is None else self.explanation.metrics
        return tuple(error for error in self.outside if error.metric.name not in explained)

    @property
    def needless(self) -> tuple[MetricName, ...]:
        """The metrics that the plan explains although their error is within the target."""
        explained = () if self.explanation is None else self.explanation.metrics
        return tuple(name for name in explained if name not in {error.metric.name for error in self.outside})


@dataclass(frozen=True)
class Reduction:
    """How much less an algorithm retransmits than `base` in a scenario, as a share: 1 means no retransmission."""

    scenario: str
    cca: Cca
    base: Cca
    real: Middle
    simulated: Middle

    @property
    def agrees(self) -> bool:
        """Whether the kernel's median lies within the range of the simulator's seeds."""
        return self.simulated.least <= self.real.median <= self.simulated.most


@dataclass(frozen=True)
class Verdict:
    """A condition that a campaign has to meet, the result, and whether the condition holds."""

    line: str
    found: str
    holds: bool


def compare(plan: Plan, outcomes: Iterable[Outcome]) -> list[Comparison]:
    """Compare the two sides of each case that has runs on both."""
    found = []
    for outcome in outcomes:
        if not outcome.real or not outcome.simulated:
            continue
        errors = []
        for metric in METRICS:
            real = Middle.of([metric.of(run.figures) for run in outcome.real])
            simulated = Middle.of([metric.of(figures) for figures in outcome.simulated])
            errors.append(Error(metric, real, simulated, getattr(plan.targets, metric.name)))
        # A guest has its own clock, so the load of the machine does not disturb its runs.
        by_this_clock = [run for run in outcome.real if outcome.case.runner != "vm"]
        found.append(
            Comparison(
                key=outcome.case.key,
                runner=outcome.case.runner,
                required=outcome.required,
                runs=len(outcome.real),
                seeds=len(outcome.simulated),
                errors=tuple(errors),
                explanation=plan.explanations.get(outcome.case.key),
                disturbed=sum(is_disturbed(run.machine) for run in by_this_clock),
            )
        )
    return found


def reductions_of(plan: Plan, outcomes: Iterable[Outcome]) -> list[Reduction]:
    """Return the reductions of the plan, in all scenarios in which both algorithms have runs on both sides.

    A scenario is left out if the base algorithm retransmits nothing.
    """
    by_case = {(outcome.case.name, outcome.case.cca): outcome for outcome in outcomes}
    found = []
    for (name, cca), outcome in by_case.items():
        base = by_case.get((name, plan.reductions[cca])) if cca in plan.reductions else None
        if base is None:
            continue
        real = _less([run.figures for run in outcome.real], [run.figures for run in base.real])
        simulated = _less(outcome.simulated, base.simulated)
        if real and simulated:
            found.append(Reduction(name, cca, base.case.cca, Middle.of(real), Middle.of(simulated)))
    return found


def _less(runs: Sequence[Figures], base: Sequence[Figures]) -> list[float]:
    """Return the reduction of each pair of runs, without the pairs whose base run retransmits nothing."""
    rates = [(run.retransmission_rate, other.retransmission_rate) for run, other in zip(runs, base, strict=False)]
    return [1 - rate / base_rate for rate, base_rate in rates if base_rate]


def verdicts_of(plan: Plan, outcomes: Sequence[Outcome], comparisons: Sequence[Comparison]) -> list[Verdict]:
    """Check the conditions of a campaign; no verdicts if there are no comparisons.

    The conditions are the targets of the plan, agreement on each reduction, an explanation of each case outside a
    target, and the required number of real runs of each case. A case that its runner refuses requires no runs.
    """
    if not comparisons:
        return []
    verdicts = []
    for at, metric in enumerate(METRICS):
        target: Target = getattr(plan.targets, metric.name)
        verdicts += _verdicts_on(metric, target, [comparison.errors[at] for comparison in comparisons])
    if reductions := reductions_of(plan, outcomes):
        agree = sum(reduction.agrees for reduction in reductions)
        line = "the kernel's reduction of retransmissions lies within the range of the simulator's seeds"
        verdicts.append(Verdict(line, f"in {agree} of {counted(len(reductions), 'case')}", agree == len(reductions)))
    outside = [comparison for comparison in comparisons if comparison.outside]
    explained = sum(not comparison.unexplained for comparison in outside)
    found = f"{explained} of {counted(len(outside), 'case')}" if outside else "no case is outside"
    verdicts.append(Verdict("cases outside a target have an explanation", found, explained == len(outside)))
    required = [outcome for outcome in outcomes if not outcome.refused]
    full = sum(len(outcome.real) >= outcome.required for outcome in required)
    found = f"{full} of {counted(len(required), 'case')}"
    verdicts.append(Verdict("cases have the required number of real runs", found, full == len(required)))
    return verdicts


def _verdicts_on(metric: Metric, target: Target, errors: Sequence[Error]) -> list[Verdict]:
    """Check the target of a metric. errors: of each case."""
    within = sum(error.is_within for error in errors)
    limit = _limit(target.within, target.within_units, metric)
    verdicts = [
        Verdict(
            f"{metric.title} within {limit} in at least {target.at_least:.0%}",
            f"{within} of {counted(len(errors), 'case')} ({within / len(errors):.1%})",
            within >= target.at_least * len(errors) - 1e-9,
        )
    ]
    if target.never_beyond is not None:
        beyond = sum(error.is_beyond for error in errors)
        perhaps = sum(error.is_perhaps_beyond for error in errors) - beyond
        found = f"{beyond} of {counted(len(errors), 'case')} exceed it"
        found += f", and {perhaps} by no more than chance explains" * bool(perhaps)
        limit = _limit(target.never_beyond, target.never_beyond_units, metric)
        verdicts.append(Verdict(f"{metric.title} never off by more than {limit}", found, not beyond))
    return verdicts


def _limit(share: float, units: float, metric: Metric) -> str:
    return " or ".join([f"{share:.0%}"] * bool(share) + [f"{units:g} {metric.unit}"] * bool(units))
