# SPDX-License-Identifier: MIT
"""Runs points, and the algorithms that an objective compares with, on cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from emulation.run.jobs import BYTES_PER_S
from emulation.run.measures import Measures, Trial, measure
from training.objectives.tally import Objective, Tally
from training.searches.space import Point
from training.workloads.case import Case

MODEL_PACKAGES = ("ax-platform", "botorch", "gpytorch", "optuna", "ray", "scipy", "torch")


def model_versions() -> dict[str, str]:
    """The versions of the packages that searches by models use; "none" of one that is not installed."""
    found = {}
    for name in MODEL_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


class CaseRunner:
    """Runs points of an algorithm on cases, beside the objectives' references; deterministic.

    names: the parameters that a point sets, in order. threads: of one call; callers that run several at once pass 1.

    Where an objective needs detection, a case in which the defaults never begin to look for a rate limiter runs once:
    all parameter sets and the unmodified algorithm do the same there.
    """

    def __init__(self, cca: str, names: Sequence[str], objectives: Sequence[Objective], *, threads: int) -> None:
        self._cca = cca
        self._names = tuple(names)
        self._threads = threads
        self.objectives = tuple(objectives)
        self._needs_detection = any(one.needs_detection for one in objectives)
        self._trials = {name: trial for one in objectives for name, trial in one.references.items()}
        self._references: dict[str, dict[str, Tally]] = {}
        self._undetected: set[str] = set()

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        """A tally for every case and point: result[case][point]."""
        trials = [Trial(self._cca, dict(zip(self._names, point, strict=True))) for point in points]
        return self.run_trials(cases, trials)

    def run_trials(self, cases: Sequence[Case], trials: Sequence[Trial]) -> list[list[Tally]]:
        """The same of trials: result[case][trial]."""
        self.references(cases)
        runs = [case for case in cases if case.key not in self._undetected]
        measures = measure([case.scenario for case in runs], trials, threads=self._threads) if runs else None
        rows = {case.key: [_tally(case, measures, (i, j)) for j in range(len(trials))] for i, case in enumerate(runs)
                if measures}  # fmt: skip
        found = []
        for case in cases:
            references = self._references[case.key]
            row = rows.get(case.key) or [references[self._cca]] * len(trials)
            found.append([replace(tally, references=references) for tally in row])
        return found

    def references(self, cases: Sequence[Case]) -> list[dict[str, Tally]]:
        """The runs of the algorithms that the objectives compare with, by name, for each case."""
        self._run_references([case for case in cases if case.key not in self._references])
        return [self._references[case.key] for case in cases]

    def _run_references(self, cases: Sequence[Case]) -> None:
        self._references |= {case.key: {} for case in cases}
        for name, trial in self._trials.items():
            its = [case for case in cases if case.key not in self._undetected]
            if not its:
                return
            found = measure([case.scenario for case in its], [trial], threads=self._threads)
            for i, case in enumerate(its):
                tally = _tally(case, found, (i, 0))
                self._references[case.key][name] = tally
                if self._needs_detection and name == self._cca and not found.detecting[i, 0]:
                    self._undetected.add(case.key)
                    self._references[case.key] = dict.fromkeys(self._trials, tally)


def _tally(case: Case, found: Measures, at: tuple[int, int]) -> Tally:
    """Of files the time during which connections had data, and their bytes; else the measured time and the goodput."""
    if case.is_transfer:
        seconds, goodput = max(float(found.busy_s[at]), 1e-3), int(found.offered_bytes[at])
        capacity = round(case.limit_mbps * BYTES_PER_S * seconds)  # of R alone: the bucket comes on top
    else:
        seconds, goodput = case.measured_s, int(found.goodput_bytes[at])
        capacity = int(found.capacity_bytes[at])
    return Tally(
        duration_s=seconds,
        capacity_bytes=capacity,
        delivered_bytes=int(found.delivered_bytes[at]),
        goodput_bytes=goodput,
        packets=int(found.packets[at]),
        sent_pkts=int(found.sent_pkts[at]),
        retransmitted_pkts=int(found.retransmitted_pkts[at]),
        delays=np.array(found.delay_counts[at]),
        is_limited=bool(found.limited[at]),
        group=case.group,
    )
