# SPDX-License-Identifier: MIT
"""How well the simulator predicts the gain of one algorithm over another one: the error of `ccatune advise`.

score  goodput x min(1, TARGET_MS / p95 queueing delay) x max(0, 1 - 2 retransmission rate), as training/observed
       ranks algorithms; of medians of the runs
gain   score / score of the other algorithm - 1, in each scenario
error  gain in the simulator - gain on the kernel
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from experiments.fidelity.kernels import Outcome
from experiments.fidelity.runs import Figures
from training.observed.advice import WORTHWHILE, score_of

TARGET_MS = 100.0
PERCENTILE = 80


@dataclass(frozen=True)
class Gains:
    """Of two algorithms over all scenarios that ran both.

    error: the 80th percentile of the absolute error of the gain. worthwhile: gains on the kernel above WORTHWHILE, of
    either one. right_sign: in how many of them the simulator finds the same one better.
    """

    algorithms: tuple[str, str]
    scenarios: int
    error: float
    worthwhile: int
    right_sign: int


def gains_of(outcomes: Sequence[Outcome]) -> list[Gains]:
    """The gains of each pair of algorithms, in the order of the cases."""
    scores: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for outcome in outcomes:
        if outcome.real and outcome.simulated:
            sides = _score(outcome.simulated), _score([run.figures for run in outcome.real])
            if min(sides) > 0:
                scores[outcome.case.name][outcome.case.cca] = sides
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for by_algorithm in scores.values():
        for (one, its), (other, others) in combinations(by_algorithm.items(), 2):
            simulated, real = (a / b - 1 for a, b in zip(its, others, strict=True))
            found[one, other].append((simulated, real))
    return [_gains(pair, np.array(values)) for pair, values in found.items()]


def _score(runs: Sequence[Figures]) -> float:
    goodput, delay, retransmitted = (
        np.array([statistics.median(getattr(run, name) for run in runs)])
        for name in ("goodput_mbps", "queueing_delay_p95_ms", "retransmission_rate")
    )
    return float(score_of(goodput, delay, retransmitted, target_ms=TARGET_MS)[0])


def _gains(pair: tuple[str, str], values: np.ndarray) -> Gains:
    simulated, real = values.T
    # A gain of one is the loss of the other: 1 / (1 + gain) - 1.
    worthwhile = np.maximum(real, 1 / (1 + real) - 1) > WORTHWHILE
    return Gains(
        pair, len(values), float(np.percentile(np.abs(simulated - real), PERCENTILE)), int(worthwhile.sum()),
        int((worthwhile & (np.sign(simulated) == np.sign(real))).sum()),
    )  # fmt: skip
