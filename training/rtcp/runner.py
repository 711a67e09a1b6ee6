# SPDX-License-Identifier: MIT
"""Runs sets of R-TCP's parameters on cases, beside the unmodified algorithm; a `Runner` of training/evaluator.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from emulation.measures import Measures, Trial, measure
from emulation.simulator import BYTES_PER_S
from training.cases import Case
from training.rtcp.cases import Kind
from training.rtcp.objective import LimitTally
from training.rtcp.settings import DEFAULT, UNMODIFIED, RtcpStudySettings
from training.space import Point

__all__ = ["CaseRunner", "triggered"]

NO_DELAYS = np.zeros(0, dtype=np.uint32)


class CaseRunner:
    """Runs points on cases, with what of the parameters is `held` to a value.

    threads: of one call; callers that run several at once pass 1.
    """

    edges_us: NDArray[np.float64] = np.zeros(0)  # no goal asks for delays

    def __init__(self, study: RtcpStudySettings, *, threads: int, held: Mapping[str, int] | None = None) -> None:
        self._threads = threads
        self._held = dict(held or {})
        self._cca = study.cca
        self._names = [name for name in study.names if name not in self._held]
        self._unmodified = Trial(UNMODIFIED[study.cca], {})
        self._default = Trial(study.cca, DEFAULT)
        self._rivals: dict[str, LimitTally] = {}

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[LimitTally]]:
        """A tally for every case and point: result[case][point]."""
        trials = [Trial(self._cca, {**self._held, **dict(zip(self._names, point, strict=True))}) for point in points]
        return self.run_trials(cases, trials)

    def run_trials(self, cases: Sequence[Case], trials: Sequence[Trial]) -> list[list[LimitTally]]:
        """The same of trials: result[case][trial]."""
        self._run_rivals([case for case in cases if case.key not in self._rivals])
        rows = self._each(cases, trials)
        return [[self._beside(case, tally) for tally in row] for case, row in zip(cases, rows, strict=True)]

    def _run_rivals(self, cases: Sequence[Case]) -> None:
        for case, [tally] in zip(cases, self._each(cases, [self._unmodified]), strict=True):
            self._rivals[case.key] = replace(tally, rival_bytes=tally.delivered_bytes,
                                             rival_resent_pkts=tally.resent_pkts)  # fmt: skip
        for case, [tally] in zip(cases, self._each(cases, [self._default]), strict=True):
            rival = self._rivals[case.key]
            default_bytes = round(tally.delivered_bytes * rival.duration_s / tally.duration_s)
            self._rivals[case.key] = replace(rival, default_bytes=default_bytes, default_is_limited=tally.is_limited)

    def _each(self, cases: Sequence[Case], trials: Sequence[Trial]) -> list[list[LimitTally]]:
        if not cases:
            return []
        found = measure([case.scenario for case in cases], trials, threads=self._threads)
        return [[_tally(case, found, (i, j)) for j in range(len(trials))] for i, case in enumerate(cases)]

    def _beside(self, case: Case, tally: LimitTally) -> LimitTally:
        """With the rivals', over the time that this run took."""
        rival = self._rivals[case.key]
        longer = tally.duration_s / rival.duration_s
        return replace(
            tally,
            rival_bytes=round(rival.delivered_bytes * longer),
            rival_resent_pkts=rival.resent_pkts,
            default_bytes=round(rival.default_bytes * longer),
            default_is_limited=rival.default_is_limited,
        )


def _tally(case: Case, found: Measures, at: tuple[int, int]) -> LimitTally:
    """Of files the time in which connections had data, and their bytes; of a download the measured time and goodput."""
    if case.group == "limited":
        seconds, delivered = max(float(found.busy_s[at]), 1e-3), int(found.offered_bytes[at])
        capacity = round(case.limit_mbps * BYTES_PER_S * seconds)  # of R alone: the bucket comes on top
    else:
        seconds, delivered = float(found.duration_s[at]), int(found.goodput_bytes[at])
        capacity = int(found.capacity_bytes[at])
    return LimitTally(
        duration_s=seconds,
        capacity_bytes=capacity,
        delivered_bytes=delivered,
        packets=int(found.packets[at]),
        delays=NO_DELAYS,
        kind=cast("Kind", case.group),
        resent_pkts=int(found.retransmitted_pkts[at]),
        is_limited=bool(found.limited[at]),
    )


def triggered(study: RtcpStudySettings, cases: Sequence[Case], *, threads: int) -> list[Case]:
    """The cases in which detection begins; in the others all sets of parameters do the same."""
    found = measure([case.scenario for case in cases], [Trial(study.cca, DEFAULT)], threads=threads)
    return [case for case, detecting in zip(cases, found.detecting[:, 0], strict=True) if detecting]
