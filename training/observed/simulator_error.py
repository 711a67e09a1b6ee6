# SPDX-License-Identifier: MIT
"""How wrong the simulator can be about the gain of one algorithm over another: no advice can be finer than that.

The figures compare the scores of two algorithms in the simulator with their scores on kernels: on the recorded runs of
the fidelity report (docs/fidelity.md; medians of the runs, a target of 100 ms),

    python -m experiments fidelity --recorded experiments/recorded/fidelity.jsonl --json
    python -m experiments fidelity --plan configs/fidelity-rtcp.yaml --recorded experiments/recorded/fidelity-rtcp.jsonl

and behind policers also on single runs of 40 s on Linux 6.18 over Mahimahi (seven policed cases of seed 1 of
experiments/advice, 2026-11-28).

    without a policer   The 80th percentile of the error of a gain is at most 2.3 % for each pair of CUBIC, BBRv1, GR
                        and Reno, on 32 links. Of 112 gains above 3 % one had the wrong sign.
    behind a policer    Of 55 gains above 3 % among CUBIC, BBRv1 and R-TCP over each, 50 had the right sign, and all 14
                        of CUBIC, BBRv1 and GR over GR and Reno that were looked at. Of R-TCP-CUBIC over R-TCP-BBR none
                        of 4 had it; the error of that gain is 10 % (80th percentile). ROCCET had it in 2 of 4 cases.
                        The error of a gain of ROCCET, BBRv3 or GR is 25 % or more, and ROCCET's score is too large by
                        12 %.

ROCCET and SIRA-H were compared on few cases, and BBRv3 never without R-TCP, because no kernel here has it.
"""

from __future__ import annotations

ERROR, FEW_CASES_ERROR, UNVALIDATED_ERROR, POLICED_ERROR = 0.023, 0.03, 0.05, 0.25
COMPARED = frozenset({"cubic", "bbr", "gr", "reno"})
COMPARED_POLICED = frozenset({"cubic", "bbr", "rtcp_cubic", "rtcp_bbr"})
BETWEEN_RTCP_ERROR = 0.1
FLATTERED = {"roccet": 0.12, "bbr3": POLICED_ERROR, "rtcp_bbr3": POLICED_ERROR}  # behind a policer


def gain_error(advised: str, current: str, *, limited: float) -> float:
    """The error of the gain in score of an algorithm over another one.

    limited: share of the flows that are behind a policer.
    """
    names = {advised, current}
    error = ERROR if names - {"rtcp_cubic", "rtcp_bbr"} <= COMPARED else FEW_CASES_ERROR
    if any("bbr3" in name for name in names):
        error = UNVALIDATED_ERROR
    if (advised, current) == ("rtcp_cubic", "rtcp_bbr"):
        policed = BETWEEN_RTCP_ERROR
    else:
        policed = 0.0 if advised in COMPARED_POLICED else POLICED_ERROR
    return (1 - limited) * error + limited * policed


def flattery(name: str, *, limited: float) -> float:
    """The share by which the score of an algorithm may be too large, compared with those of others."""
    unvalidated = UNVALIDATED_ERROR if "bbr3" in name else 0.0
    return max(unvalidated, limited * FLATTERED.get(name, 0.0))
