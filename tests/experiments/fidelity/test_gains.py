# SPDX-License-Identifier: MIT
"""The error of the gain of one algorithm over another one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from experiments.fidelity.gains import Gains, gains_of
from experiments.fidelity.kernels import Outcome
from experiments.fidelity.runs import Figures


def figures(goodput_mbps: float, delay_ms: float, retransmitted: float = 0.0) -> Figures:
    return Figures(throughput_mbps=goodput_mbps, goodput_mbps=goodput_mbps, queueing_delay_p95_ms=delay_ms,
                   retransmission_rate=retransmitted, queueing_delay_p50_ms=0, rtt_p50_ms=0, timeouts=0)  # fmt: skip


def outcome(name: str, cca: str, real: Figures, simulated: Figures) -> Outcome:
    return Outcome(SimpleNamespace(name=name, cca=cca), real=[SimpleNamespace(figures=real)], simulated=[simulated])


def test_gains_of_scores_are_compared_where_both_algorithms_ran() -> None:
    cubic = figures(10, 200)  # score 5
    found = gains_of([
        outcome("a", "cubic", cubic, cubic), outcome("a", "bbr", figures(8, 50), figures(8, 50, 0.05)),
        outcome("b", "cubic", cubic, cubic), outcome("b", "bbr", figures(6, 50), figures(4, 50)),
        outcome("c", "cubic", cubic, cubic),
    ])  # fmt: skip
    # a: 5 / 7.2 - 5 / 8 = 0.069. b: 5 / 4 - 5 / 6 = 0.417, with the other sign.
    assert found == [Gains(("cubic", "bbr"), 2, pytest.approx(0.0694 + 0.8 * (0.4167 - 0.0694), abs=1e-3), 2, 1)]
