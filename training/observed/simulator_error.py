# SPDX-License-Identifier: MIT
"""How wrong the simulator can be about the gain of one algorithm over another: no advice can be finer than that.

The figures compare the scores of two algorithms in the simulator with their scores on kernels, on the recorded runs of
the fidelity report (docs/fidelity.md; medians of the runs, a target of 100 ms):

    python -m experiments fidelity --recorded experiments/recorded/fidelity.jsonl --json
    python -m experiments fidelity --plan configs/fidelity-rtcp.yaml --recorded experiments/recorded/fidelity-rtcp.jsonl

    without a policer   The 80th percentile of the error of a gain is at most 2.3 % for each pair of CUBIC, BBRv1, GR
                        and Reno, on 32 links. Of 112 gains above 3 % one had the wrong sign.
    behind a policer    Kernels leave CUBIC's slow start later, so that the simulator flatters CUBIC. Gains above 3 %
                        of R-TCP over its own base, of BBRv1 over CUBIC and Reno, of R-TCP-BBR over CUBIC, and of CUBIC
                        and BBRv1 over GR had the right sign in 41 of 41 cases. Gains in other directions had not:
                        R-TCP-CUBIC over R-TCP-BBR in none of 4, R-TCP-BBRv3 over CUBIC in 1 of 5. The error of such a
                        gain is up to 25 % (80th percentile).

ROCCET and SIRA-H were compared on few cases, and BBRv3 never without R-TCP, because no kernel here has it.
"""

from __future__ import annotations

ERROR, FEW_CASES_ERROR, UNVALIDATED_ERROR, POLICED_ERROR = 0.023, 0.03, 0.05, 0.25
FAMILIES = {"cubic": "cubic", "rtcp_cubic": "cubic", "bbr": "bbr", "rtcp_bbr": "bbr", "gr": "gr", "reno": "reno"}
# From one family to another behind a policer, where the sign of the gain is known.
KNOWN_SIGNS = {("cubic", "cubic"), ("cubic", "bbr"), ("bbr", "bbr"), ("reno", "bbr"), ("gr", "bbr"), ("gr", "cubic")}
# By how much the simulator flatters CUBIC behind a policer: the median error of R-TCP-CUBIC over R-TCP-BBR.
FLATTERED = {"cubic": 0.08, "rtcp_cubic": 0.08, "roccet": 0.08}


def gain_error(advised: str, current: str, *, limited: float) -> float:
    """The error of the gain in score of an algorithm over another one.

    limited: share of the flows that are behind a policer.
    """
    names = (advised, current)
    error = ERROR if set(names) <= set(FAMILIES) else FEW_CASES_ERROR
    if any("bbr3" in name for name in names):
        error = UNVALIDATED_ERROR
    is_known = (FAMILIES.get(current), FAMILIES.get(advised)) in KNOWN_SIGNS
    return (1 - limited) * error + limited * (0.0 if is_known else POLICED_ERROR)


def flattery(name: str, *, limited: float) -> float:
    """The share by which the score of an algorithm may be too large, compared with those of others."""
    return UNVALIDATED_ERROR if "bbr3" in name else limited * FLATTERED.get(name, 0.0)
