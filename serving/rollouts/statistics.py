# SPDX-License-Identifier: MIT
"""Compares servers with the candidate and servers with the baseline.

The unit is the server, never the flow: flows of one server share queues, so a comparison of flows measures how one
group displaces the other (Spang and others, "Unbiased experiments in congested networks", IMC 2021).

    figure   f(sums): a share, the logarithm of the goodput, or a rate
    value    x = f(sums since the step began) - f(the same server's sums before the roll-out)
    harm     h = +-(mean x with the candidate - mean x with the baseline), positive where the candidate is worse
    error    se^2 = max(v_c, v_b) / n_c + v_b / n_b, with the variances v of x between the servers of each arm
    bounds   h -+ t(1 - alpha_k, n_b - 1) se

By switchback the whole fleet alternates, and the unit is a block of time. Two blocks that follow each other are a pair,
in drawn order, with one difference d of their figures:

    bounds   mean d -+ t(1 - alpha_k, n - 1) s_d / sqrt(n)

Many looks: look k of K planned spends alpha_k = alpha / (2 K), and a later one alpha_k = 3 alpha / (pi^2 (k - K)^2).
Any number of looks spends at most alpha. By Bonferroni's inequality the bounds of all looks hold together with
probability 1 - alpha, however the looks depend on each other. They depend strongly: a look has the servers of the one
before and most of its data. Narrower confidence sequences assume increments that are independent of the past. Here they
are not, because a difference between servers persists.

Limits:
- The variance of a few candidate servers is hardly known, so it counts only where it exceeds the baseline's. With few
  of them the bounds assume that the candidate does not spread the values wider than the baseline does.
- Means of n_c values are taken as normal. `OUTLIER_MARGINS` bounds the weight of one server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add, sub
from statistics import NormalDist, fmean, median
from typing import Literal

MetricName = Literal["within_target", "goodput", "retransmission_rate"]
Arm = Literal["baseline", "candidate"]

# A value that is further from the median of all servers than this many margins counts as that far away.
OUTLIER_MARGINS = 20.0
# The quantile below is at most 0.2 % too small with this many baseline servers, or pairs of blocks.
LEAST_BASELINE = 8


@dataclass(frozen=True, slots=True)
class Sums:
    """What the flows of one server met in some time. The sums of two times can be added."""

    delay_samples: float = 0.0
    samples_within_target: float = 0.0
    bytes: float = 0.0
    busy_s: float = 0.0
    sent_segments: float = 0.0
    retransmitted_segments: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Sums) -> Sums:
        return Sums(*map(sub, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Unit:
    """A server, or a block of time by switchback, with its sums.

    arm: what it was assigned. before: its sums before the roll-out, None if it had none. since: its sums with the
    assigned table since the step began, without those of a wash-out.
    pair: the number of its pair, for a block. silent_s: seconds since its last report, None if it never reported.
    n_servers: how many servers its sums are of.
    """

    name: str
    arm: Arm
    since: Sums
    before: Sums | None = None
    pair: int | None = None
    silent_s: float | None = 0.0
    n_servers: int = 1


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a server. The words say how a larger and a smaller harm read.

    figure: None where the sums are empty. sign: 1 where a larger figure is worse, else -1. text: a figure in its unit.
    is_logarithm: a harm h is a relative loss of 1 - exp(-h).
    """

    title: str
    worse: str
    better: str
    unit: str
    sign: int
    figure: Callable[[Sums], float | None]
    text: Callable[[float], str]
    is_logarithm: bool = False

    def fraction(self, harm: float) -> float:
        """Return the harm as a share, for example 0.02 for two percentage points or two percent."""
        return -math.expm1(-harm) if self.is_logarithm else harm


def _within_target(sums: Sums) -> float | None:
    return sums.samples_within_target / sums.delay_samples if sums.delay_samples > 0 else None


def _log_goodput(sums: Sums) -> float | None:
    return math.log(sums.bytes / sums.busy_s) if sums.bytes > 0 and sums.busy_s > 0 else None


def _percent(figure: float) -> str:
    return f"{100 * figure:.3g} %"


def _mbps(figure: float) -> str:
    return f"{8e-6 * math.exp(figure):.3g} Mbit/s"


def _retransmission_rate(sums: Sums) -> float | None:
    return sums.retransmitted_segments / sums.sent_segments if sums.sent_segments > 0 else None


METRICS: dict[MetricName, Metric] = {
    "within_target": Metric(
        "share of delay samples within the target", "lower", "higher", "percentage points", -1, _within_target, _percent
    ),
    "goodput": Metric("goodput", "lower", "higher", "%", -1, _log_goodput, _mbps, is_logarithm=True),
    "retransmission_rate": Metric(
        "retransmission rate", "higher", "lower", "percentage points", 1, _retransmission_rate, _percent
    ),
}


@dataclass(frozen=True, slots=True)
class Harm:
    """By how much the candidate is worse, as a share, with bounds that hold for all looks; negative if it is better.

    candidate, baseline: the mean figures of both arms since the step began, from which nothing is subtracted.
    """

    estimate: float
    lower: float
    upper: float
    n_candidate: int
    n_baseline: int
    candidate: float
    baseline: float


def alpha_of_look(look: int, *, planned: int, alpha: float) -> float:
    """Return the error probability that look number `look` may spend. Looks are counted from 1."""
    if look <= planned:
        return alpha / (2 * planned)
    return 3 * alpha / (math.pi * (look - planned)) ** 2


def harm_between(
    units: Sequence[Unit], metric: Metric, *, margin: float, alpha: float, least_samples: int, least_servers: int
) -> Harm | None:
    """Compare the servers of both arms. Return None if an arm has too few servers with enough samples.

    alpha: error probability of each bound. least_samples: delay samples without which a server does not count.
    """
    values: dict[Arm, list[float]] = {"baseline": [], "candidate": []}
    figures: dict[Arm, list[float]] = {"baseline": [], "candidate": []}
    sampled = [unit for unit in units if unit.since.delay_samples >= least_samples]
    befores = [figure for unit in sampled if (figure := _before(unit, metric)) is not None]
    # A server without a figure of its own is compared with the mean of the others: unbiased, but less exact.
    usual = fmean(befores) if befores else 0.0
    for unit in sampled:
        figure = metric.figure(unit.since)
        if figure is not None:
            own = _before(unit, metric)
            figures[unit.arm].append(figure)
            values[unit.arm].append(figure - (usual if own is None else own))
    candidate, baseline = _without_outliers(values["candidate"], values["baseline"], reach=OUTLIER_MARGINS * margin)
    n_c, n_b = len(candidate), len(baseline)
    if n_c < max(2, least_servers) or n_b < max(LEAST_BASELINE, least_servers):
        return None
    spread = _variance(baseline)
    error = math.sqrt(max(_variance(candidate), spread) / n_c + spread / n_b)
    harm = metric.sign * (fmean(candidate) - fmean(baseline))
    return _bounded(metric, harm, error, figures, alpha=alpha)


def harm_within(
    blocks: Sequence[Unit], metric: Metric, *, margin: float, alpha: float, least_samples: int
) -> Harm | None:
    """Compare the blocks of each pair. Return None for fewer than `LEAST_BASELINE` whole pairs with enough samples."""
    figures: dict[tuple[int | None, Arm], float] = {}
    for block in blocks:
        figure = metric.figure(block.since) if block.since.delay_samples >= least_samples else None
        if figure is not None:
            figures[block.pair, block.arm] = figure
    pairs = [pair for pair, arm in figures if arm == "candidate" and (pair, "baseline") in figures]
    harms = [metric.sign * (figures[pair, "candidate"] - figures[pair, "baseline"]) for pair in pairs]
    harms, _ = _without_outliers(harms, [], reach=OUTLIER_MARGINS * margin)
    n = len(harms)
    if n < LEAST_BASELINE:
        return None
    by_arm: dict[Arm, list[float]] = {
        "baseline": [figures[pair, "baseline"] for pair in pairs],
        "candidate": [figures[pair, "candidate"] for pair in pairs],
    }
    return _bounded(metric, fmean(harms), math.sqrt(_variance(harms) / n), by_arm, alpha=alpha)


def _variance(values: Sequence[float]) -> float:
    # `statistics.variance` computes with fractions, which would take a second for 10,000 servers.
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _before(unit: Unit, metric: Metric) -> float | None:
    return None if unit.before is None else metric.figure(unit.before)


def _without_outliers(
    candidate: Sequence[float], baseline: Sequence[float], *, reach: float
) -> tuple[list[float], list[float]]:
    if not candidate and not baseline:
        return [], []
    middle = median([*candidate, *baseline])
    low, high = middle - reach, middle + reach
    return [min(max(x, low), high) for x in candidate], [min(max(x, low), high) for x in baseline]


def _bounded(
    metric: Metric, harm: float, error: float, figures: Mapping[Arm, Sequence[float]], *, alpha: float
) -> Harm:
    candidate, baseline = figures["candidate"], figures["baseline"]
    reach = student_t(1 - alpha, len(baseline) - 1) * error
    estimate, lower, upper = (metric.fraction(harm + step) for step in (0.0, -reach, reach))
    return Harm(estimate, lower, upper, len(candidate), len(baseline), fmean(candidate), fmean(baseline))


def student_t(share: float, degrees: int) -> float:
    """Return a quantile of Student's t by the series 26.7.5 of Abramowitz and Stegun.

    With at least 7 degrees of freedom it is less than 0.2 % too small up to a share of 0.9997, 2 % up to 0.999999.
    """
    z = NormalDist().inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(degrees) ** power for power, term in enumerate(terms))


def binomial_p(hits: int, of: int, share: float) -> float:
    """Return the two-sided p-value of so many hits if each of `of` is one with probability `share`, 0 < share < 1.

    It is twice the smaller tail. Unlike the chi-square test it also holds where few hits are expected.
    """
    logs = (math.log(share), math.log1p(-share))

    def probability(k: int) -> float:
        ways = math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        return math.exp(ways + k * logs[0] + (of - k) * logs[1])

    below = math.fsum(probability(k) for k in range(hits + 1))
    above = math.fsum(probability(k) for k in range(hits, of + 1))
    return min(1.0, 2 * min(below, above))
