# SPDX-License-Identifier: MIT
"""How far the score of a simulated flow is from that of a kernel's flow: what no advice can be finer than.

The figures are those of the recorded runs of the fidelity report (docs/fidelity.md), by algorithm: the score of the
median figures of the simulator, over that of the kernel, at a target of 100 ms. Of each algorithm the error is the
80th percentile of |ratio - 1| over its cases, the share that the report's targets are stated for.

    python -m experiments fidelity --recorded experiments/recorded/fidelity.jsonl --json
"""

from __future__ import annotations

import math

# Of the algorithm's own cases, or of those that it is built on.
ERRORS: dict[str, float] = {"cubic": 0.02, "bbr": 0.02, "gr": 0.02, "reno": 0.02}
OTHERS_ERROR = 0.03  # ROCCET, R-TCP, SIRA: fewer cases were compared, over BPF and in the guest
UNVALIDATED_ERROR = 0.05  # BBRv3: no kernel here has it


def error_of(cca: str) -> float:
    """The error of the score of an algorithm, as a share of it."""
    if "bbr3" in cca:
        return UNVALIDATED_ERROR
    return ERRORS.get(cca, OTHERS_ERROR)


def gain_error(advised: str, *current: str) -> float:
    """The error of the gain in score of one algorithm over others: of two independent errors."""
    return math.hypot(error_of(advised), max(error_of(one) for one in current))
