# SPDX-License-Identifier: MIT
"""Links whose deliveries are a Poisson process: their mean, their variance, and the arguments that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from emulation.errors import TraceError
from emulation.traces.poisson import make_poisson


def test_counts_have_the_mean_and_the_variance_of_a_poisson_process() -> None:
    trace = make_poisson(3.0, duration_s=2000, seed=5)
    # 3 Mbit/s are 25 opportunities in 100 ms. The standard errors of 20,000 bins are 0.04 of the mean, 0.25 of the
    # variance.
    counts = trace.bin_counts(100)
    assert counts.mean() == pytest.approx(25, abs=0.15)
    assert counts.var() == pytest.approx(25, abs=1)


def test_counts_of_neighbouring_bins_are_independent() -> None:
    counts = make_poisson(3.0, duration_s=2000, seed=6).bin_counts(100)
    # The standard error is 1 / sqrt(20,000) = 0.007.
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 0.03


def test_the_seed_alone_decides_between_two_traces() -> None:
    traces = [make_poisson(2.0, duration_s=10, seed=seed) for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


@pytest.mark.parametrize(
    ("rate_mbps", "duration_s", "message"),
    [
        (0.0, 10.0, "expected a rate above 0"),
        (float("nan"), 10.0, "expected a rate above 0"),
        (1e6, 21600.0, "at most 100000000 opportunities"),
        (1.0, 0.0, "expected a duration of 0.001 to 21600 s, got 0.0"),
        (1e-6, 1.0, "expected an opportunity in 1.0 s, got none"),
    ],
)
def test_what_gives_no_trace_is_refused(rate_mbps: float, duration_s: float, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        make_poisson(rate_mbps, duration_s=duration_s, seed=1)
