# SPDX-License-Identifier: MIT
"""The slow part of a made link: its rate in blocks of seconds, which varies over minutes and hours.

    z(t) = sum over octaves k of sqrt(v_k) OU_k(t)    Ornstein-Uhlenbeck processes of time constants 2^k ticks
    Z_b  = mean of z over block b                     a block is a window of ticks
    rate = Q(rank of Z_b among all blocks)            Q: quantile function of the recorded rate, smoothed likewise

The variances v_k >= 0 are fitted to the autocorrelation of the recorded rate's normal scores (a Gaussian copula), at
lags half an octave apart. The rate is mapped by rank and not by the normal distribution. So every made link spends the
same share of time at each rate as the recording (Theiler's amplitude adjustment). Otherwise links with a long memory
would differ so much from each other that ten minutes of one would say nothing about the recording. A link shorter than
MIN_SPAN_S is cut out of one of that length, and may therefore stay at one rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeFloat, model_validator

from emulation.errors import TraceError

Floats = NDArray[np.float64]

N_QUANTILES = 101
MIN_SPAN_S = 600
MAX_OCTAVE = 14
MAX_LAG_SHARE = 0.25
SWEEPS = 2000
# A file with this many lines, of nine characters each, is almost as large as _sources.py accepts.
MOST_OPPORTUNITIES = 100_000_000


class SlowRate(BaseModel):
    """Opportunities per tick, as means over blocks of window_ticks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    tick_ms: int = Field(ge=1, le=60_000)
    window_ticks: int = Field(ge=1, le=1000, description="ticks in a block")
    quantiles: tuple[Annotated[FiniteFloat, Field(ge=0)], ...] = Field(
        min_length=2, description="opportunities per tick, at probabilities 0, 1/(n-1) ... 1"
    )
    octave_variances: tuple[NonNegativeFloat, ...] = Field(
        min_length=1, description="share of the variance at time constants of 1, 2, 4 ... ticks"
    )

    @model_validator(mode="after")
    def _is_a_process(self) -> SlowRate:
        if (np.diff(self.quantiles) < 0).any():
            raise ValueError("expected quantiles that never decrease")
        if sum(self.octave_variances) <= 0:
            raise ValueError("expected at least one octave with variance")
        return self


def smooth(values: Floats, *, window_ticks: int) -> Floats:
    """Mean over a window around each value [n]; at the ends, over the part of the window that exists."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    place = np.arange(len(values))
    first = np.maximum(place - window_ticks // 2, 0)
    last = np.minimum(place + window_ticks // 2 + 1, len(values))
    return np.asarray((total[last] - total[first]) / (last - first))


def fit_slow(slow: Sequence[Floats], *, tick_ms: int, window_ticks: int) -> SlowRate:
    """Fit on smoothed rates, one series per recording."""
    pooled = np.concatenate(slow)
    quantiles = np.quantile(pooled, np.linspace(0, 1, N_QUANTILES))
    scores = _normal_scores(pooled)
    series = np.split(scores, np.cumsum([len(values) for values in slow])[:-1])
    longest = max(len(values) for values in slow)
    lags = np.unique(np.rint(2 ** np.arange(0, np.log2(max(MAX_LAG_SHARE * longest, 2)), 0.5)).astype(np.int64))
    n_octaves = min(int(np.log2(longest)) + 1, MAX_OCTAVE)
    basis = np.stack([_smoothed_autocorrelation(2**octave, lags, window_ticks) for octave in range(n_octaves)], axis=1)
    variances = _non_negative_fit(basis, np.array([_correlation(series, lag) for lag in lags]))
    return SlowRate(
        tick_ms=tick_ms,
        window_ticks=window_ticks,
        quantiles=tuple(float(f"{value:.5g}") for value in quantiles),
        octave_variances=tuple(float(f"{value:.4g}") for value in variances),
    )


def draw_slow(model: SlowRate, *, n_blocks: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Opportunities in each of n_blocks consecutive windows of a made link [n_blocks].

    Raises TraceError for more than MOST_OPPORTUNITIES in total.
    """
    width = model.window_ticks
    n_drawn = max(n_blocks, -(-MIN_SPAN_S * 1000 // (model.tick_ms * width)))
    time_constants = 2.0 ** np.arange(len(model.octave_variances))
    keeps = np.exp(-1 / time_constants)
    # Smoothing removes more from a fast octave than from a slow one. The scales give each its share back.
    left = np.array([_smoothed_autocovariance(tau, np.array([0]), width)[0] for tau in time_constants])
    scales = np.sqrt(np.array(model.octave_variances) / left)
    state = rng.standard_normal(len(keeps))
    steps = np.sqrt(1 - keeps**2)
    drawn = np.empty(n_drawn * width)
    for tick, noise in enumerate(rng.standard_normal((n_drawn * width, len(keeps)))):
        state = keeps * state + steps * noise
        drawn[tick] = np.dot(scales, state)
    ranks = np.argsort(np.argsort(drawn.reshape(n_drawn, width).mean(axis=1), kind="stable"), kind="stable")
    at = (ranks + 0.5) / n_drawn
    rates = np.interp(at, np.linspace(0, 1, len(model.quantiles)), model.quantiles)
    counts = np.rint(rates[:n_blocks] * width)
    if counts.sum() > MOST_OPPORTUNITIES:
        raise TraceError(
            f"made trace: expected at most {MOST_OPPORTUNITIES} opportunities, got {counts.sum():.3g}; "
            "make a shorter one, or one of a slower link"
        )
    return counts.astype(np.int64)


def _normal_scores(values: Floats) -> Floats:
    """The normal quantile of each value's rank; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)
    at = (upto - counts / 2) / len(values)
    normal = NormalDist()
    return np.array([normal.inv_cdf(probability) for probability in at])[inverse]


def _correlation(series: Sequence[Floats], lag: int) -> float:
    """Autocorrelation at a lag, over pairs within one series. The mean over all series must be 0."""
    pairs = [(values[lag:], values[:-lag]) for values in series if len(values) > lag]
    products = sum(float(np.dot(later, earlier)) for later, earlier in pairs)
    variance = float(np.mean(np.concatenate(series) ** 2))
    return products / (sum(len(later) for later, _ in pairs) * variance) if variance > 0 else 1.0


def _smoothed_autocovariance(time_constant: float, lags: NDArray[np.int64], window_ticks: int) -> Floats:
    """Of an OU process of variance 1 that is smoothed over the window: by a triangle of one window to each side."""
    shift = np.arange(1 - window_ticks, window_ticks)
    kernel = (window_ticks - np.abs(shift)) / window_ticks**2
    return np.asarray(np.exp(-np.abs(lags[:, None] + shift) / time_constant) @ kernel)


def _smoothed_autocorrelation(time_constant: float, lags: NDArray[np.int64], window_ticks: int) -> Floats:
    covariance = _smoothed_autocovariance(time_constant, np.concatenate(([0], lags)), window_ticks)
    return np.asarray(covariance[1:] / covariance[0])


def _non_negative_fit(basis: Floats, target: Floats) -> Floats:
    """Weights >= 0 with sum 1 that bring basis @ weights [n_lags] close to the target, by coordinate descent."""
    sum_to_one = 10.0
    rows = np.vstack([basis, np.full((1, basis.shape[1]), sum_to_one)])
    rest = np.append(target, sum_to_one)
    weights = np.zeros(basis.shape[1])
    norms = (rows**2).sum(axis=0)
    for _ in range(SWEEPS):
        for column in range(len(weights)):
            weight = max(0.0, weights[column] + float(np.dot(rows[:, column], rest)) / norms[column])
            rest -= rows[:, column] * (weight - weights[column])
            weights[column] = weight
    total = weights.sum()
    return np.asarray(weights / total) if total > 0 else np.full(len(weights), 1 / len(weights))
