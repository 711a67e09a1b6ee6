# SPDX-License-Identifier: MIT
"""Judges an ensemble of R-TCP as it is used, on B, R, RTT and links that it was not trained on.

    learned      flows that follow the ensemble's table: theta by the round trip that they measure, eta and gamma by
                 the limit that they find
    paper        the paper's one setting: theta 0.6, eta 20, gamma 20 %
    single       the best one setting that the same search found for all states together
    unmodified   the base algorithm

All run the same cases (cases.py), drawn anew within the levels of each state, with the same random numbers. Per state,
with r what is sent again and g the goodput, each over the unmodified algorithm's on the same case:

    fewer    1 - mean r(learned) / mean r(paper), of the files behind a limit
    goodput  mean g(learned) / mean g(paper), of the same files
    raised   mean g(learned), mean g(paper), behind a limit that is raised
    false    share of the clients without a limit that end as limited, by level of the round trip

Intervals are 95 %: of a ratio of two means over n cases t s, s as in objective.py's head (Cochran 1977, section 2.11),
of a share Wilson's (intervals.py). A state holds where it sends no more again than the paper's setting, at no
less goodput than training asks beside that setting's (`paper_share`), each up to its interval, and keeps what training
asks of a limit that is raised. All states together hold where they send fewer again beyond the interval, at no less
goodput. Clients without a limit hold where no more are taken for limited than may be, or than with the paper's setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.measures import Trial
from emulation.simulator import BYTES_PER_S
from emulation.traces import Recording
from kmod.ensemble import Deployment, Ensemble, table_text
from training.build import single_sets
from training.cases import Case
from training.errors import TrainingError
from training.intervals import LEAST_SEEDS, student_t95, wilson_95
from training.objective import ratio_error
from training.rtcp.cases import bounds_of, cases_of, unlimited_cases
from training.rtcp.objective import LimitTally, goodput_shares, resent_shares
from training.rtcp.runner import CaseRunner
from training.rtcp.settings import DEFAULT, RtcpStudySettings

__all__ = ["SCHEMES", "Tallies", "Values", "judge_rtcp", "ratio", "state_row"]

SCHEMES = ("learned", "paper", "single")
Values = NDArray[np.float64]
Tallies = dict[str, list[LimitTally]]


def judge_rtcp(
    study: RtcpStudySettings,
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    runs: int,
    threads: int,
    told: Callable[[float], None] = lambda _states: None,
) -> dict[str, Any]:
    """`states`, `all` and `unlimited` as JSON data, each row with whether it holds.

    runs: files of each state; half as many limits that are raised, and four times as many clients without a limit at
    each level of the round trip. told: a state, or a level's clients without a limit, is done.

    Raises:
        TrainingError: too few runs for an interval, or an ensemble without its single sets.
    """
    singles = single_sets(ensemble)
    if singles is None:
        raise TrainingError("report: expected an ensemble with its best single set, got one without; train it anew")
    if runs < 2 * LEAST_SEEDS:
        raise TrainingError(f"report: expected at least {2 * LEAST_SEEDS} runs of a state, got {runs}")
    text = table_text(ensemble, Deployment("evaluation", "judged", 1))
    schemes = {"learned": Trial(ensemble.cca, {}, text), "paper": Trial(ensemble.cca, DEFAULT),
               "single": Trial(ensemble.cca, singles[0])}  # fmt: skip
    rows, files = [], Files()
    for state in product(*(range(axis.count) for axis in ensemble.axes)):
        cases = cases_of(study, (state[0], state[1]), limited=runs, lifted=runs // 2, purpose="judging")
        by_kind = {kind: _run(study, [c for c in cases if c.group == kind], schemes, threads=threads)
                   for kind in ("limited", "lifted")}  # fmt: skip
        files.add(by_kind["limited"])
        rows.append({**_place(ensemble, state), "values": ensemble.row(state, 0), **state_row(study, by_kind)})
        told(1.0)
    unlimited = []
    for rtt in range(ensemble.axes[0].count):
        without = unlimited_cases(study, rtt, recordings, count=4 * runs, purpose="judging")
        unlimited.append({"rtt_ms": _rtt_ms(ensemble, rtt),
                          **_false_row(study, _run(study, without, schemes, threads=threads))})  # fmt: skip
        told(1.0)
    return {"states": rows, "all": _all_row(files.tallies), "unlimited": unlimited}


class Files:
    """The files of all states behind each other."""

    def __init__(self) -> None:
        self.tallies: Tallies = {name: [] for name in SCHEMES}

    def add(self, tallies: Tallies) -> None:
        """Those of a state."""
        for name, its in tallies.items():
            self.tallies[name] += its


def _run(study: RtcpStudySettings, cases: Sequence[Case], schemes: dict[str, Trial], *, threads: int) -> Tallies:
    rows = CaseRunner(study, threads=threads).run_trials(cases, list(schemes.values()))
    return {name: [row[i] for row in rows] for i, name in enumerate(schemes)}


def _rtt_ms(ensemble: Ensemble, level: int) -> list[float]:
    return [us / 1000 for us in bounds_of(ensemble.axes[0], level)]


def _place(ensemble: Ensemble, state: Sequence[int]) -> dict[str, Any]:
    """From where to where the state's levels reach; limits of payload."""
    limits = bounds_of(ensemble.axes[1], state[1])
    return {"rtt_ms": _rtt_ms(ensemble, state[0]), "limit_mbps": [each / BYTES_PER_S for each in limits]}


def ratio(parts: Values, wholes: Values) -> tuple[float, float]:
    """Mean over mean, and the half width of its 95 % interval; both [n], n >= 5.

    Of nothing over nothing 1, of something over nothing infinite, without an interval.
    """
    if not wholes.sum():
        return math.inf if parts.sum() else 1.0, 0.0
    return float(parts.sum() / wholes.sum()), student_t95(len(parts)) * ratio_error(parts, wholes)


def _resent(tallies: Tallies) -> dict[str, Any]:
    """What each sends again over the unmodified algorithm's, and by how much less the learned one does."""
    shares = {name: resent_shares(its) for name, its in tallies.items()}
    over, interval = ratio(shares["learned"], shares["paper"])
    over_single, interval_single = ratio(shares["learned"], shares["single"])
    return {
        "runs": len(shares["paper"]),
        "resent": {name: float(values.mean()) for name, values in shares.items()},
        "fewer": 1 - over,
        "fewer_interval": interval,
        "fewer_than_single": 1 - over_single,
        "fewer_than_single_interval": interval_single,
    }


def _goodput(tallies: Tallies) -> dict[str, Any]:
    """Goodput over the unmodified algorithm's, and the learned one's over the paper's setting's."""
    shares = {name: goodput_shares(its) for name, its in tallies.items()}
    over, interval = ratio(shares["learned"], shares["paper"])
    return {
        **{name: float(values.mean()) for name, values in shares.items()},
        "learned_interval": ratio(shares["learned"], np.ones(len(shares["learned"])))[1],
        "over_paper": over,
        "over_paper_interval": interval,
    }


def state_row(study: RtcpStudySettings, by_kind: dict[str, Tallies]) -> dict[str, Any]:
    """Of a state, by the kinds `limited` and `lifted` of its cases: the figures, and whether it holds."""
    resent, goodput, lifted = _resent(by_kind["limited"]), _goodput(by_kind["limited"]), _goodput(by_kind["lifted"])
    # As training asks it: of the unmodified algorithm's, or of the paper's setting's where that is less.
    raised = ("over_paper", "over_paper_interval") if lifted["paper"] < 1 else ("learned", "learned_interval")
    return {
        **resent,
        "goodput": goodput,
        "lifted": lifted,
        "holds": resent["fewer"] >= -resent["fewer_interval"]
        and goodput["over_paper"] >= study.objective.paper_share - goodput["over_paper_interval"]
        and lifted[raised[0]] >= study.objective.goodput_share - lifted[raised[1]],
    }


def _all_row(tallies: Tallies) -> dict[str, Any]:
    resent, goodput = _resent(tallies), _goodput(tallies)
    return {
        **resent,
        "goodput": goodput,
        "holds": resent["fewer"] > resent["fewer_interval"]
        and goodput["over_paper"] >= 1 - goodput["over_paper_interval"],
    }


def _false_row(study: RtcpStudySettings, tallies: Tallies) -> dict[str, Any]:
    hits = {name: sum(tally.is_limited for tally in its) for name, its in tallies.items()}
    clients = len(tallies["learned"])
    share, (low, high) = hits["learned"] / clients, wilson_95(hits["learned"], clients)
    holds = low <= study.objective.most_false or hits["learned"] <= hits["paper"]
    return {"clients": clients, "false": hits, "share": share, "share_interval": max(share - low, high - share),
            "goodput": _goodput(tallies), "holds": holds}  # fmt: skip
