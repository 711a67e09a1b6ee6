# SPDX-License-Identifier: MIT
"""How wrong the simulator can be about the gain of one algorithm over another: no advice can be finer than that.

The last lines of the fidelity report (docs/fidelity.md) compare the gains in the simulator with those on kernels:

    python -m experiments fidelity --recorded experiments/recorded/fidelity.jsonl [--only policer]
    python -m experiments fidelity --plan configs/fidelity-rtcp.yaml --recorded experiments/recorded/fidelity-rtcp.jsonl

    without a policer   The 80th percentile of the error is at most ERROR for each pair of CUBIC, BBRv1, GR and Reno,
                        except BBRv1 and Reno. All gains of more than 3 % among the first three had the right sign.
    behind a policer    The errors are large. But among CUBIC, BBRv1 and R-TCP over each of them, hardly any gain of
                        more than 3 % had the wrong sign, so that advice may use these gains. The exception is the gain
                        of R-TCP-CUBIC over R-TCP-BBR: BETWEEN_RTCP_ERROR is the 80th percentile of its error. The gains
                        of GR and of R-TCP-BBRv3 have errors of POLICED_ERROR and more.

No recorded run has ROCCET or SIRA-H behind a policer, or BBRv3 without R-TCP. The figures for these are cautious
assumptions: FEW_CASES_ERROR, UNVALIDATED_ERROR and FLATTERED.
"""

from __future__ import annotations

ERROR, FEW_CASES_ERROR, UNVALIDATED_ERROR, POLICED_ERROR = 0.03, 0.03, 0.05, 0.25
COMPARED = frozenset({"cubic", "bbr", "gr", "reno"})
COMPARED_POLICED = frozenset({"cubic", "bbr", "rtcp_cubic", "rtcp_bbr"})
BETWEEN_RTCP_ERROR = 0.12
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
