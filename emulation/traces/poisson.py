# SPDX-License-Identifier: MIT
"""Makes a link whose deliveries are a Poisson process.

    gap between two opportunities   exponentially distributed, with the mean 1500 bytes / rate
    time of an opportunity          rounded up to whole ms, as Mahimahi's format requires

The gaps are independent, so the number of opportunities in a time of T has the mean rate x T / 1500 bytes and an equal
variance. The rate of one trace therefore differs from the required one by about 1 / sqrt(number of opportunities).
Calibrated emulators of real paths use such links (Yan et al. 2018, "Pantheon").
"""

from __future__ import annotations

import numpy as np

from emulation.errors import TraceError
from emulation.traces.trace import OPPORTUNITY_BYTES, Trace

MAX_DURATION_S = 6 * 3600
MOST_OPPORTUNITIES = 10**8


def make_poisson(rate_mbps: float, *, duration_s: float, seed: int) -> Trace:
    """Make a trace of duration_s with a mean rate of about rate_mbps. Equal arguments give equal traces.

    Raises TraceError for a duration below 1 ms or over six hours, for a rate that is not above 0, and for more than
    10^8 opportunities. Also if the trace contains no opportunity.
    """
    name = f"poisson-{rate_mbps:g}mbps-{seed}"
    if not 0.001 <= duration_s <= MAX_DURATION_S:
        raise TraceError(f"{name}: expected a duration of 0.001 to {MAX_DURATION_S} s, got {duration_s}")
    period_ms = round(duration_s * 1000)
    mean_count = rate_mbps * 125 * period_ms / OPPORTUNITY_BYTES
    if not 0 < mean_count <= MOST_OPPORTUNITIES:
        raise TraceError(
            f"{name}: expected a rate above 0 with at most {MOST_OPPORTUNITIES} opportunities, got {mean_count:g} of "
            "them; take another rate or a shorter duration"
        )
    # Given their number, the points of a Poisson process are independent and uniformly distributed.
    rng = np.random.default_rng(seed)
    times_ms = np.sort(rng.uniform(0, period_ms, int(rng.poisson(mean_count))))
    if not len(times_ms):
        raise TraceError(f"{name}: expected an opportunity in {duration_s} s, got none; take a longer one")
    return Trace(name, np.ceil(times_ms).astype(np.uint32), period_ms)
