# SPDX-License-Identifier: MIT
"""Validates a deployed ensemble of R-TCP on values of B, R and RTT, and on links, that it was not trained on.

    learned      flows that follow the ensemble's table. Theta is looked up by the RTT that the flow measures, eta and
                 gamma by the limit that it detects
    paper        the paper's single setting: theta 0.6, eta 20, gamma 20 %, which are the algorithm's defaults, with
                 the paper's probing
    single       the best single setting, which the same search found for all states together
    unmodified   the base algorithm

All four run the same cases (workloads/policed.py) with the same random numbers. The cases are newly drawn within the
levels of each state. In the figures, r is the number of retransmitted packets and g is the goodput. Both are divided by
those of the unmodified algorithm on the same case.

    fewer    of each state: 1 - mean r(learned) / mean r(paper), over the files through a limit
    goodput  of each state: mean g(learned) / mean g(paper), over the same files
    raised   of each state: mean g(learned) and mean g(paper), over the downloads through a limit that is raised
    false    of each RTT level: the share of the clients without a limit that are classified as limited at the end

Intervals are 95 %. For a ratio of two means over n cases the half width is t s, with Student's t and s as in
objectives/delay.py (Cochran 1977, section 2.11). For a share the interval is Wilson's (intervals.py).

Each row has its own criterion:

    a state         no more retransmissions than the paper's setting; at least the share `default_share` of the paper's
                    goodput; after a limit is raised, at least the goodput that training requires. Each may miss by its
                    interval
    all states      together, fewer retransmissions than the paper's setting by more than the interval; no less goodput,
                    up to the interval
    an RTT level    the share of false classifications is at most `most_false`, up to its interval, or there are no more
                    of them than with the defaults
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.run.measures import Trial
from emulation.traces import Recording
from kmod.ensemble import Deployment, Ensemble, table_text
from training.errors import TrainingError
from training.evaluation.runner import CaseRunner
from training.intervals import LEAST_SEEDS, student_t95, wilson_95
from training.objectives import RetransmissionSettings, Tally, ratio_error
from training.objectives.retransmissions import (
    PAPER_PARAMS,
    LeastRetransmissions,
    goodput_shares,
    references_of,
    retransmitted_shares,
)
from training.study.ensemble import require_singles
from training.study.settings import StudySettings
from training.study.study import setting_of
from training.validation.states import places_of
from training.workloads import Case, Policed, PolicedSettings

SCHEMES = ("learned", "paper", "single")
Values = NDArray[np.float64]
Tallies = dict[str, list[Tally]]


def validate_policed(
    study: StudySettings,
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    runs: int,
    threads: int,
    progress: Callable[[float], None] = lambda _states: None,
) -> dict[str, Any]:
    """Run all cases. The result has the rows `states`, `all` and `unlimited` as JSON data.

    Each row says whether it holds.

    runs: files of each state. Each state has half as many downloads through a raised limit. Each RTT level has four
    times as many clients without a limit. progress: called with 1 after each state and after each RTT level's clients.

    Raises:
        TrainingError: there are too few runs for an interval, the ensemble has no single sets, or the study has another
            workload or objective.
    """
    singles = require_singles(ensemble)
    if runs < 2 * LEAST_SEEDS:
        raise TrainingError(f"report: expected at least {2 * LEAST_SEEDS} runs of a state, got {runs}")
    text = table_text(ensemble, Deployment("evaluation", "validated", 1))
    schemes = {"learned": Trial(ensemble.cca, {}, text), "paper": Trial(ensemble.cca, PAPER_PARAMS),
               "single": Trial(ensemble.cca, {**study.fixed, **singles[0]})}  # fmt: skip
    settings, workload = study.objective, study.workload
    if not isinstance(settings, RetransmissionSettings) or not isinstance(workload, PolicedSettings):
        raise TrainingError("report: expected a study of the workload policed for fewest retransmissions")
    cases = Policed(workload, setting_of(study, recordings=recordings))
    comparison = SchemeComparison(study, settings, schemes, threads)
    rows, files = [], Tallies({name: [] for name in SCHEMES})
    for state in study.states:
        kinds = {kind: [case for case in cases.with_limit(state, limited=runs, lifted=runs // 2, purpose="validation")
                        if case.group == kind] for kind in ("limited", "lifted")}  # fmt: skip
        by_kind = {kind: comparison.run(its) for kind, its in kinds.items()}
        for name in SCHEMES:
            files[name] += by_kind["limited"][name]
        rows.append({**places_of(study, state), "values": ensemble.row(state, 0), **comparison.state_row(by_kind)})
        progress(1.0)
    unlimited = []
    # A study without such downloads has no recordings either.
    for rtt in range(ensemble.axes[0].count if workload.needs_recordings else 0):
        without = cases.without_limit(rtt, count=4 * runs, purpose="validation")
        rtt_ms = places_of(study, (rtt, 0))["rtt_ms"]
        unlimited.append({"rtt_ms": rtt_ms, **comparison.false_row(comparison.run(without))})
        progress(1.0)
    return {"states": rows, "all": comparison.all_row(files), "unlimited": unlimited}


def ratio(parts: Values, wholes: Values) -> tuple[float, float]:
    """The ratio of the two means, and the half width of its 95 % interval; both arguments [n], n >= 5.

    If all wholes are 0, the ratio is infinite, or 1 if all parts are 0, too. The half width is then 0.
    """
    if not wholes.sum():
        return math.inf if parts.sum() else 1.0, 0.0
    return float(parts.sum() / wholes.sum()), student_t95(len(parts)) * ratio_error(parts, wholes)


class SchemeComparison:
    """Runs the schemes on cases and compares their figures, as JSON data."""

    def __init__(
        self, study: StudySettings, settings: RetransmissionSettings, schemes: dict[str, Trial], threads: int
    ) -> None:
        self._settings = settings
        self._schemes = schemes
        [objective] = settings.objectives(study.cca, "validation")
        assert isinstance(objective, LeastRetransmissions)  # noqa: S101 - by its settings
        self._cca, self._unmodified = study.cca, objective.unmodified
        self._runner = CaseRunner(study.cca, study.names, [objective], threads=threads)

    def run(self, cases: Sequence[Case]) -> Tallies:
        """Run each scheme on these cases. The result has its tallies in the order of the cases."""
        rows = self._runner.run_trials(cases, list(self._schemes.values()))
        return {name: [row[i] for row in rows] for i, name in enumerate(self._schemes)}

    def _retransmitted(self, tallies: Tallies) -> dict[str, Any]:
        """Each scheme's retransmissions over the unmodified algorithm's, and how many fewer the learned one has."""
        shares = {name: retransmitted_shares(its, self._unmodified) for name, its in tallies.items()}
        over, interval = ratio(shares["learned"], shares["paper"])
        over_single, interval_single = ratio(shares["learned"], shares["single"])
        return {
            "runs": len(shares["paper"]),
            "retransmitted": {name: float(values.mean()) for name, values in shares.items()},
            "fewer": 1 - over,
            "fewer_interval": interval,
            "fewer_than_single": 1 - over_single,
            "fewer_than_single_interval": interval_single,
        }

    def _goodput(self, tallies: Tallies) -> dict[str, Any]:
        """Each scheme's goodput over the unmodified algorithm's, and the learned one's over the paper's."""
        shares = {name: goodput_shares(its, self._unmodified) for name, its in tallies.items()}
        over, interval = ratio(shares["learned"], shares["paper"])
        return {
            **{name: float(values.mean()) for name, values in shares.items()},
            "learned_interval": ratio(shares["learned"], np.ones(len(shares["learned"])))[1],
            "over_paper": over,
            "over_paper_interval": interval,
        }

    def state_row(self, by_kind: dict[str, Tallies]) -> dict[str, Any]:
        """A state's figures and whether it holds; by_kind: the tallies of `limited` and `lifted` cases."""
        files, lifted = by_kind["limited"], self._goodput(by_kind["lifted"])
        retransmitted, goodput = self._retransmitted(files), self._goodput(files)
        raised, interval = self._raised(by_kind["lifted"]["learned"])
        return {
            **retransmitted,
            "goodput": goodput,
            "lifted": lifted,
            "holds": retransmitted["fewer"] >= -retransmitted["fewer_interval"]
            and goodput["over_paper"] >= self._settings.default_share - goodput["over_paper_interval"]
            and raised >= self._settings.goodput_share - interval,
        }

    def _raised(self, tallies: Sequence[Tally]) -> tuple[float, float]:
        """Goodput after a raised limit over the unmodified algorithm's, or over the defaults' if that is less."""
        own, default = (goodput_shares(its, self._unmodified) for its in (tallies, references_of(tallies, self._cca)))
        return ratio(own, default if default.mean() < 1 else np.ones(len(own)))

    def all_row(self, tallies: Tallies) -> dict[str, Any]:
        """The figures of the files of all states together, and whether they hold."""
        retransmitted, goodput = self._retransmitted(tallies), self._goodput(tallies)
        return {
            **retransmitted,
            "goodput": goodput,
            "holds": retransmitted["fewer"] > retransmitted["fewer_interval"]
            and goodput["over_paper"] >= 1 - goodput["over_paper_interval"],
        }

    def false_row(self, tallies: Tallies) -> dict[str, Any]:
        """The number of clients without a limit that end as limited, and whether the criterion holds."""
        hits = {name: sum(bool(tally.is_limited) for tally in its) for name, its in tallies.items()}
        clients = len(tallies["learned"])
        share, (low, high) = hits["learned"] / clients, wilson_95(hits["learned"], clients)
        defaults = sum(bool(tally.is_limited) for tally in references_of(tallies["learned"], self._cca))
        holds = low <= self._settings.most_false or hits["learned"] <= defaults
        return {"clients": clients, "false": hits, "share": share, "share_interval": max(share - low, high - share),
                "goodput": self._goodput(tallies), "holds": holds}  # fmt: skip
