# SPDX-License-Identifier: MIT
"""The error of each figure of a case, and whether a campaign meets its targets.

    error        median of the simulated runs - median of the real runs, in the metric's unit and as a share of the
                 latter
    within       |error| is at most the target's share of the real figure, or its units: whichever allows more
    never        the same with the line that no case may be beyond, for sure: by more than twice the standard error of
                 the difference of the medians, which is what chance makes of them. The kernel's own spread is the
                 floor of what can be told; more runs lower it
    reduction    1 - retransmission rate / that of the algorithm it stands on (the plan's `reductions`), run by run and
                 seed by seed; the sides agree where the kernel's median lies among the simulator's seeds
    spread       greatest - least of a side's runs; a case that is outside by no more than the kernel's own spread
                 is said to be so, and counts as outside all the same

The kernel's runs differ among each other, and those of an algorithm that single packets decide differ in the simulator
too: so medians are compared, and both spreads stand beside them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulation.fidelity.campaign import Outcome
from emulation.fidelity.machine import is_disturbed
from emulation.fidelity.plan import Explanation, MetricName, Plan, Target
from emulation.fidelity.results import Figures, RunResult
from emulation.scenario import Cca

__all__ = [
    "METRICS",
    "Comparison",
    "Error",
    "Metric",
    "Reduction",
    "Verdict",
    "compare",
    "reductions_of",
    "verdicts_of",
]


@dataclass(frozen=True)
class Metric:
    """A figure that is compared. unit: of its errors; scale: from the figure to that unit."""

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
    """Runs of one side: their median, least and most; standard_error: of the median."""

    median: float
    least: float
    most: float
    standard_error: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Middle:
        """Of at least one run."""
        return cls(statistics.median(values), min(values), max(values), _standard_error(values))

    def scaled(self, by: float) -> Middle:
        """In another unit. by: above 0."""
        return Middle(self.median * by, self.least * by, self.most * by, self.standard_error * by)

    @property
    def spread(self) -> float:
        """How far the runs are from each other."""
        return self.most - self.least


def _standard_error(values: Sequence[float]) -> float:
    """Of their median: sqrt(pi / 2) sigma / sqrt(n) with sigma from the quartiles, which outliers do not move."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    sigma = (high - low) / (2 * statistics.NormalDist().inv_cdf(0.75))
    return math.sqrt(math.pi / 2 / len(values)) * sigma


@dataclass(frozen=True)
class Error:
    """One metric of one case."""

    metric: Metric
    real: Middle
    simulated: Middle
    target: Target

    @property
    def error(self) -> float:
        """In the metric's unit; above 0 where the simulator says more."""
        return self.simulated.median - self.real.median

    @property
    def share(self) -> float:
        """Of the real figure; infinite where that is 0 and the simulator's is not."""
        if self.real.median:
            return self.error / self.real.median
        return float("inf") if self.error else 0.0

    @property
    def chance(self) -> float:
        """What chance makes of the error: twice its standard error."""
        return 2 * math.hypot(self.real.standard_error, self.simulated.standard_error)

    def _is_at_most(self, share: float, units: float, *, more: float = 0.0) -> bool:
        # A billionth more, for errors that stand on the line.
        return abs(self.error) <= max(share * abs(self.real.median), units) * (1 + 1e-9) + more + 1e-12

    @property
    def is_within(self) -> bool:
        """Near enough."""
        return self._is_at_most(self.target.within, self.target.within_units)

    @property
    def is_perhaps_beyond(self) -> bool:
        """Farther than any case may be, which chance may have made so."""
        line = self.target.never_beyond
        return line is not None and not self._is_at_most(line, self.target.never_beyond_units)

    @property
    def is_beyond(self) -> bool:
        """Farther than any case may be, for sure."""
        line = self.target.never_beyond
        return line is not None and not self._is_at_most(line, self.target.never_beyond_units, more=self.chance)

    @property
    def is_of_the_spread(self) -> bool:
        """Outside by no more than the kernel's own runs differ."""
        return abs(self.error) <= self.real.spread


@dataclass(frozen=True)
class Comparison:
    """A case with runs on both sides. disturbed: real runs during which timers were late; asked: real runs
    that there should be."""

    key: str
    runner: str
    asked: int
    runs: int
    seeds: int
    errors: tuple[Error, ...]
    explanation: Explanation | None
    disturbed: int

    @property
    def outside(self) -> tuple[Error, ...]:
        """The metrics that are not within."""
        return tuple(error for error in self.errors if not error.is_within)

    @property
    def unexplained(self) -> tuple[Error, ...]:
        """The metrics that are outside, and nobody has said why."""
        explained = () if self.explanation is None else self.explanation.metrics
        return tuple(error for error in self.outside if error.metric.name not in explained)

    @property
    def needless(self) -> tuple[MetricName, ...]:
        """The metrics that are explained, and yet within: the reason is gone, or was none."""
        explained = () if self.explanation is None else self.explanation.metrics
        return tuple(name for name in explained if name not in {error.metric.name for error in self.outside})


@dataclass(frozen=True)
class Reduction:
    """How much less than `base` an algorithm resends in a scenario, as a share: 1 is nothing any more."""

    name: str
    cca: Cca
    base: Cca
    real: Middle
    simulated: Middle

    @property
    def agrees(self) -> bool:
        """Whether the kernel's median lies among the simulator's seeds."""
        return self.simulated.least <= self.real.median <= self.simulated.most


@dataclass(frozen=True)
class Verdict:
    """A line that a campaign is held to, and what came. holds: whether it does."""

    line: str
    found: str
    holds: bool


def compare(plan: Plan, outcomes: Iterable[Outcome]) -> list[Comparison]:
    """Those cases that have runs on both sides."""
    found = []
    for outcome in outcomes:
        if not outcome.real or not outcome.simulated:
            continue
        errors = []
        for metric in METRICS:
            real = Middle.of([metric.of(run.figures) for run in outcome.real])
            simulated = Middle.of([metric.of(run.figures) for run in outcome.simulated])
            errors.append(Error(metric, real, simulated, getattr(plan.targets, metric.name)))
        # A guest goes by a clock of its own, whatever its machine does.
        by_this_clock = [run for run in outcome.real if outcome.case.runner != "vm"]
        found.append(
            Comparison(
                key=outcome.case.key,
                runner=outcome.case.runner,
                asked=outcome.asked,
                runs=len(outcome.real),
                seeds=len(outcome.simulated),
                errors=tuple(errors),
                explanation=plan.explanations.get(outcome.case.key),
                disturbed=sum(is_disturbed(run.machine) for run in by_this_clock),
            )
        )
    return found


def reductions_of(plan: Plan, outcomes: Iterable[Outcome]) -> list[Reduction]:
    """Those of the scenarios in which both algorithms have runs on both sides and the base resends at all."""
    by_case = {(outcome.case.name, outcome.case.cca): outcome for outcome in outcomes}
    found = []
    for (name, cca), outcome in by_case.items():
        base = by_case.get((name, plan.reductions[cca])) if cca in plan.reductions else None
        if base is None:
            continue
        real, simulated = _less(outcome.real, base.real), _less(outcome.simulated, base.simulated)
        if real and simulated:
            found.append(Reduction(name, cca, base.case.cca, Middle.of(real), Middle.of(simulated)))
    return found


def _less(runs: Sequence[RunResult], base: Sequence[RunResult]) -> list[float]:
    """Run by run, as many as both have; none against a run that resends nothing."""
    rates, of = ([run.figures.retransmission_rate for run in side] for side in (runs, base))
    return [1 - rate / base_rate for rate, base_rate in zip(rates, of, strict=False) if base_rate]


def verdicts_of(plan: Plan, outcomes: Sequence[Outcome], comparisons: Sequence[Comparison]) -> list[Verdict]:
    """The plan's targets, that each case outside is explained, and that none lacks runs; nothing without cases.

    A case that its runner refuses lacks none.
    """
    if not comparisons:
        return []
    verdicts = []
    for at, metric in enumerate(METRICS):
        errors = [comparison.errors[at] for comparison in comparisons]
        target: Target = getattr(plan.targets, metric.name)
        within = sum(error.is_within for error in errors)
        verdicts.append(
            Verdict(
                f"{metric.title} within {_told(target.within, target.within_units, metric)} "
                f"in at least {target.at_least:.0%}",
                f"{within} of {len(errors)} ({within / len(errors):.1%})",
                within >= target.at_least * len(errors) - 1e-9,
            )
        )
        if target.never_beyond is not None:
            beyond = sum(error.is_beyond for error in errors)
            perhaps = sum(error.is_perhaps_beyond for error in errors) - beyond
            verdicts.append(
                Verdict(
                    f"{metric.title} never off by more than "
                    f"{_told(target.never_beyond, target.never_beyond_units, metric)}",
                    f"{beyond} of {len(errors)} are" + f", {perhaps} more by no more than chance" * bool(perhaps),
                    not beyond,
                )
            )
    if reductions := reductions_of(plan, outcomes):
        agree = sum(reduction.agrees for reduction in reductions)
        verdicts.append(
            Verdict(
                "each reduction of retransmissions on the kernel lies among the simulator's",
                f"{agree} of {len(reductions)} do",
                agree == len(reductions),
            )
        )
    outside = [comparison for comparison in comparisons if comparison.outside]
    unexplained = sum(bool(comparison.unexplained) for comparison in outside)
    found = f"{unexplained} of {len(outside)} are not"
    verdicts.append(Verdict("each case outside is explained", found, not unexplained))
    short = sum(len(outcome.real) < outcome.asked for outcome in outcomes if not outcome.refused)
    found = f"{short} of {len(outcomes)} do not"
    verdicts.append(Verdict("each case has as many real runs as were asked for", found, not short))
    return verdicts


def _told(share: float, units: float, metric: Metric) -> str:
    return " or ".join([f"{share:.0%}"] * bool(share) + [f"{units:g} {metric.unit}"] * bool(units))
