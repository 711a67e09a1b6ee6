# SPDX-License-Identifier: MIT
"""Runs sets of R-TCP's parameters on cases, beside the unmodified algorithm; a `Runner` of training/evaluator.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from emulation.qos import QoS
from emulation.rtcp.limits import is_limited
from emulation.scenario import Scenario
from emulation.simulator import BYTES_PER_S, simulate_many
from training.rtcp.cases import Case
from training.rtcp.objective import LimitTally
from training.rtcp.settings import DEFAULT, UNMODIFIED, RtcpStudySettings
from training.space import Point

__all__ = ["CaseRunner", "Scheme", "triggered"]

NO_DELAYS = np.zeros(0, dtype=np.uint32)


@dataclass(frozen=True)
class Scheme:
    """What the flows of a case run: an algorithm with parameters, or following a table."""

    cca: str
    params: Mapping[str, int]
    table: str | None = None

    def on(self, case: Case) -> Scenario:
        """The case with these flows."""
        return case.with_flows(self.cca, params=self.params, table=self.table)


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
        self._unmodified = Scheme(UNMODIFIED[study.cca], {})
        self._default = Scheme(study.cca, DEFAULT)
        self._rivals: dict[str, LimitTally] = {}

    def run(self, epochs: Sequence[Case], points: Sequence[Point]) -> list[list[LimitTally]]:
        """A tally for every case and point: result[case][point]."""
        schemes = [Scheme(self._cca, {**self._held, **dict(zip(self._names, point, strict=True))}) for point in points]
        return self.run_schemes(epochs, schemes)

    def run_schemes(self, cases: Sequence[Case], schemes: Sequence[Scheme]) -> list[list[LimitTally]]:
        """The same of schemes: result[case][scheme]."""
        self._run_rivals([case for case in cases if case.key not in self._rivals])
        rows = self._each(cases, schemes)
        return [[self._beside(case, tally) for tally in row] for case, row in zip(cases, rows, strict=True)]

    def _run_rivals(self, cases: Sequence[Case]) -> None:
        for case, [tally] in zip(cases, self._each(cases, [self._unmodified]), strict=True):
            self._rivals[case.key] = replace(tally, rival_bytes=tally.delivered_bytes,
                                             rival_resent_pkts=tally.resent_pkts)  # fmt: skip
        for case, [tally] in zip(cases, self._each(cases, [self._default]), strict=True):
            rival = self._rivals[case.key]
            default_bytes = round(tally.delivered_bytes * rival.duration_s / tally.duration_s)
            self._rivals[case.key] = replace(rival, default_bytes=default_bytes, default_is_limited=tally.is_limited)

    def _each(self, cases: Sequence[Case], schemes: Sequence[Scheme]) -> list[list[LimitTally]]:
        scenarios = [scheme.on(case) for case in cases for scheme in schemes]
        results = iter(simulate_many(scenarios, threads=self._threads)) if scenarios else iter(())
        pairs = iter(scenarios)
        return [[_tally(case, next(pairs), next(results)) for _ in schemes] for case in cases]

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


def _tally(case: Case, scenario: Scenario, qos: QoS) -> LimitTally:
    if case.kind == "limited":
        seconds, delivered = _files(scenario, qos)
        capacity = round(case.limit_mbps * BYTES_PER_S * seconds)  # of R alone: the bucket comes on top
    else:
        seconds = scenario.duration_s - scenario.warmup_s
        delivered = round(qos.goodput_mbps * BYTES_PER_S * seconds)
        capacity = round(qos.capacity_mbps * BYTES_PER_S * seconds)
    return LimitTally(
        duration_s=seconds,
        capacity_bytes=capacity,
        delivered_bytes=delivered,
        packets=qos.packets,
        delays=NO_DELAYS,
        kind=case.kind,
        resent_pkts=round(qos.retransmission_rate * qos.sent),
        is_limited=is_limited([limit for flow in qos.flows for limit in flow.limits]),
    )


def _files(scenario: Scenario, qos: QoS) -> tuple[float, int]:
    """Time in which connections had data, and their bytes; one that did not complete counts with all the time.

    A connection that never began, because the one before it did not complete, counts nothing.
    """
    seconds, delivered = 0.0, 0
    for flow, spec in zip(qos.flows, scenario.flows, strict=True):
        if flow.transfers:
            seconds += (flow.complete_s or scenario.duration_s) - flow.transfers[0].start_s
            delivered += spec.size_bytes or 0
    return max(seconds, 1e-3), delivered


def triggered(study: RtcpStudySettings, cases: Sequence[Case], *, threads: int) -> list[Case]:
    """The cases in which detection begins; in the others all sets of parameters do the same."""
    scheme = Scheme(study.cca, DEFAULT)
    results = simulate_many([scheme.on(case) for case in cases], threads=threads)
    return [case for case, qos in zip(cases, results, strict=True) if any(flow.limits for flow in qos.flows)]
