# SPDX-License-Identifier: MIT
"""Comparisons that the statements use.

    of seeds         means with Student's interval (experiments/figures.py)
    of recordings    quantiles of samples pooled over runs, and ratios of sums over runs
    of many cells    how many cells agree, and the cell that is farthest from agreement

The 95 % intervals of recordings are percentile bootstraps over runs (Efron, Tibshirani 1993, chapter 13). Where two
algorithms ran over the same links, the interval is that of their difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from experiments.campaign import Values
from experiments.figures import Figure, within
from training.intervals import drawn_rows, interval_95

SEED = 1


def all_within(label: str, cells: Mapping[str, Values], *, least: float = -math.inf, most: float = math.inf,
               unit: str = "%") -> Figure:  # fmt: skip
    """Check every cell with `within`. The figure is that of the cell farthest outside, or nearest to a bound.

    cells: the values of each cell, one for each seed. Between two bounds the interval of each cell must also fit.
    """
    each = {name: within(name, values, least=least, most=most, unit=unit) for name, values in cells.items()}
    name, worst = max(each.items(), key=lambda item: max(least - item[1].mean, item[1].mean - most))
    agreeing = sum(figure.agrees for figure in each.values())
    text = f"{label} in {agreeing} of {len(each)}, farthest at {name}:"
    return replace(worst, label=text, agrees=agreeing == len(each))


def quantile_below(label: str, values: Values, share: float, than: Values, than_share: float) -> Figure:
    """Check that a quantile of pooled samples is below another one, up to the interval of the difference.

    values, than: [runs, samples], a row for each run.
    """
    figure, apart, half = _quantiles(label, values, share, than, than_share)
    return replace(figure, agrees=apart <= half)


def quantile_near(label: str, values: Values, share: float, than: Values, *, within_share: float) -> Figure:
    """Check that two quantiles of pooled samples differ by at most a share of the second one.

    within_share: this share. The difference may exceed it by its interval.
    """
    figure, apart, half = _quantiles(label, values, share, than, share)
    return replace(figure, agrees=abs(apart) <= within_share * float(np.quantile(than, share)) + half)


def _quantiles(
    label: str, values: Values, share: float, than: Values, than_share: float
) -> tuple[Figure, float, float]:
    """A figure of the first quantile, the difference of the two, and the interval of the difference."""
    here, there = float(np.quantile(values, share)), float(np.quantile(than, than_share))
    drawn = drawn_rows(len(values), seed=SEED)
    half = _half(np.array([np.quantile(values[rows], share) - np.quantile(than[rows], than_share) for rows in drawn]))
    return Figure(f"{label} {there:.1f}:", here, half, agrees=False, unit="ms"), here - there, half


def sums_over(label: str, values: Values, than: Values, *, least: float = -math.inf, most: float = math.inf) -> Figure:
    """Check that the sum of one algorithm's runs over the other's is from `least` to `most`, up to its interval.

    values, than: float [runs].
    """
    drawn = drawn_rows(len(values), seed=SEED)
    ratios = np.array([values[rows].sum() / than[rows].sum() for rows in drawn])
    ratio, half = float(values.sum() / than.sum()), _half(ratios)
    return Figure(label, ratio, half, least - half <= ratio <= most + half, "x")


def _half(values: Values) -> float:
    low, high = interval_95(values)
    return (high - low) / 2
