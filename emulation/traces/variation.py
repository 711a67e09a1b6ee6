# SPDX-License-Identifier: MIT
"""How much a link's rate varies at each time scale.

The measure at a time scale tau is the Allan deviation of the rate, relative to its mean,

    sqrt( mean over pairs of neighbouring windows of tau of (x' - x)^2 / 2 ) / mean(x)

over windows that do not overlap (Allan 1966). A link that is even at this scale gives 0, whatever it does at others.
Scales double from 1 ms to a quarter of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulation.traces.trace import Trace

LEAST_PAIRS = 2


@dataclass(frozen=True, eq=False)
class Variation:
    """scale_ms: float [n]; deviation: relative Allan deviation, float [n]."""

    scale_ms: NDArray[np.float64]
    deviation: NDArray[np.float64]


def variation_of(trace: Trace) -> Variation:
    """The variation of a trace at every octave of time scale."""
    counts = trace.bin_counts(1).astype(np.float64)
    scale_ms, scales, deviations = 1, [], []
    while len(counts) >= 2 * LEAST_PAIRS:
        pairs = counts[: len(counts) // 2 * 2].reshape(-1, 2)
        mean = float(pairs.mean())
        scales.append(float(scale_ms))
        deviations.append(float(np.sqrt(np.mean((pairs[:, 1] - pairs[:, 0]) ** 2) / 2)) / mean if mean else 0.0)
        counts = pairs.sum(axis=1)
        scale_ms *= 2
    return Variation(np.array(scales), np.array(deviations))
