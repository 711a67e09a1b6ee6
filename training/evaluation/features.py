# SPDX-License-Identifier: MIT
"""What is known of a case before any parameter set runs on it, as numbers for a model.

levels       the state's, on each axis
link         ln of the mean rate, and how it varies: quantiles of the rate over its mean in bins of 1 s, the change
             from bin to bin, and the share of bins of 200 ms without a delivery
path         ln of round trip and buffer, random loss, bursts of loss
limit        ln of rate, bucket and access rate over the limit, of the new limit over the old one, of the seconds
             that a file takes at the limit; the number of connections; the kind of case
references   of each algorithm that the objective compares with: ln of goodput and retransmissions, and whether
             R-TCP took the client for limited
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from emulation.run.jobs import BYTES_PER_S
from emulation.scenario.model import LinkSpec
from emulation.scenario.path import GilbertElliott, Policer, SteppedPolicer
from emulation.traces.trace import OPPORTUNITY_BYTES
from training.objectives import Tally
from training.workloads import Case
from training.workloads.policed import KINDS

BIN_MS = 200
BINS_PER_S = 1000 // BIN_MS
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75)
LEAST_SHARE = 0.01


def features_of(case: Case, references: Mapping[str, Tally]) -> NDArray[np.float64]:
    """The features of a case; as many for all cases of a study."""
    link = case.scenario.link
    return np.array([
        *case.state,
        *_link(case),
        math.log(link.rtt_ms),
        math.log(link.buffer_pkts or 1e6),
        link.loss,
        float(any(isinstance(one, GilbertElliott) for one in link.behind)),
        *_limit(case, link),
        *(float(case.group == kind) for kind in KINDS),
        *(figure for name in sorted(references) for figure in _reference(references[name])),
    ], dtype=np.float64)  # fmt: skip


def _link(case: Case) -> list[float]:
    link = case.scenario.link
    if link.trace is None:
        return [math.log(link.rate_mbps or 1.0), *(1.0 for _ in QUANTILES), 0.0, 0.0]
    first = round(case.scenario.warmup_s * 1000) + link.start_ms
    period = link.trace.period_ms
    bins = link.trace.bin_counts(BIN_MS)
    at = (first + np.arange(0, max(round(case.measured_s * 1000), 1000), BIN_MS)) % period // BIN_MS
    counts = bins[np.minimum(at, len(bins) - 1)].astype(np.float64)
    mean = max(float(counts.mean()), 1e-3)
    whole = counts[: len(counts) // BINS_PER_S * BINS_PER_S].reshape(-1, BINS_PER_S).mean(axis=1) / mean
    logs = np.log(np.maximum(whole, LEAST_SHARE))
    moves = float(np.abs(np.diff(logs)).mean()) if len(logs) > 1 else 0.0
    rate_mbps = mean * OPPORTUNITY_BYTES * 8e-3 / BIN_MS
    return [math.log(rate_mbps), *np.quantile(logs, QUANTILES).tolist(), moves, float((counts == 0).mean())]


def _limit(case: Case, link: LinkSpec) -> list[float]:
    sizes = [flow.size_bytes or 0 for flow in case.scenario.flows]
    for one in link.before:
        if isinstance(one, Policer | SteppedPolicer):
            rates = [one.rate_mbps] if isinstance(one, Policer) else [step.rate_mbps for step in one.steps]
            seconds = sum(sizes) / (rates[0] * BYTES_PER_S)
            access = (link.rate_mbps or rates[0]) / rates[0]
            return [math.log(rates[0]), math.log(one.bucket_bytes), math.log(rates[-1] / rates[0]), math.log(access),
                    math.log1p(seconds), float(len(sizes))]  # fmt: skip
    return [0.0, 0.0, 0.0, 0.0, math.log1p(sum(sizes)), float(len(sizes))]


def _reference(tally: Tally) -> list[float]:
    return [math.log1p(tally.goodput_bytes_per_s), math.log1p(tally.retransmitted_pkts), float(tally.is_limited)]
