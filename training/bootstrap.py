# SPDX-License-Identifier: MIT
"""Percentile bootstraps over runs, epochs or windows (Efron, Tibshirani 1993, chapter 13).

A draw takes n of n items with replacement. As weights it says how often it takes each one, so that a weighted sum over
the items is the sum over the draw; as rows it names the items, for what is no sum (a quantile of pooled samples).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn_rows", "drawn_weights", "interval_95"]

DRAWS = 400


def drawn_weights(items: int, *, seed: int) -> NDArray[np.float64]:
    """How often each draw takes each item, float [draws, items]; each row sums to `items`."""
    return np.random.default_rng(seed).multinomial(items, np.full(items, 1 / items), size=DRAWS).astype(np.float64)


def drawn_rows(items: int, *, seed: int) -> NDArray[np.int64]:
    """The items of each draw, int [draws, items]."""
    return np.random.default_rng(seed).integers(items, size=(DRAWS, items))


def interval_95(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of a figure over the draws; values: float [draws]."""
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)
