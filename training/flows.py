# SPDX-License-Identifier: MIT
"""What training asks of the simulator: reference flows, and epochs x points.

A point runs on an epoch from `warmup_s` before it (the recording permitting), with
its own parameters throughout, and is measured over the epoch. The slow start and
the filling of the queue fall into the warm-up, as the flow that comes into an
epoch online has them behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.measures import Trial, measure
from emulation.scenario import FlowSpec, LinkSpec, Scenario
from emulation.simulator import compact_edges_us, simulate_many
from emulation.traces import Recording
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text
from training.cases import Case
from training.objective import Objective, Tally
from training.settings import StudySettings
from training.space import Point
from training.states import StateEpoch, Turn

__all__ = [
    "EpochRunner",
    "Ran",
    "axes_of",
    "core_version",
    "default_values",
    "epoch_cases",
    "flat_text",
    "objectives",
    "reference_text",
    "reference_turns",
]

Ran = Callable[[float], None]


def core_version() -> str:
    """sha256 (hex) over the tokens of the sources of core and simulator that the engine was built from.

    Comments and formatting do not change it (emulation/source_tokens.py).
    """
    return _engine.SOURCES_DIGEST


def default_values(cca: str) -> dict[str, int]:
    """The tuned parameters of an algorithm at their defaults."""
    return {spec.name: spec.default for spec in ALGORITHMS[cca].tuned}


def axes_of(study: StudySettings) -> tuple[Axis, ...]:
    """The axes of a study: throughput, and minimum RTT where the study has it."""
    first, *others = ALGORITHMS[study.cca].axes
    throughput = Axis(first.name, "linear", study.levels.step_bytes_per_s, study.levels.count)
    if study.rtts is None:
        return (throughput,)
    rtts = study.rtts
    return throughput, Axis(others[0].name, "log", rtts.shortest_ms * 1000, rtts.count, rtts.per_octave)


def flat_text(
    cca: str, *, epoch_ms: int, estimate_ms: int, delay_class: DelayClass, axis: Axis, values: Mapping[str, int]
) -> str:
    """A table with one parameter set in every row: its flows measure and take turns, and adapt nothing."""
    table = Ensemble(
        cca=cca,
        epoch_ms=epoch_ms,
        estimate_ms=estimate_ms,
        epsilon_pct=0,
        classes=(delay_class,),
        axes=(axis,),
        columns=tuple(values),
        rows=(tuple(values.values()),) * axis.count,
    )
    return table_text(table, Deployment("training", "reference", 1))


def reference_text(study: StudySettings) -> str:
    """The defaults in every row, measured as the study says."""
    first = study.classes[0]
    return flat_text(
        study.cca,
        epoch_ms=study.epochs.epoch_s * 1000,
        estimate_ms=study.epochs.estimate_ms,
        delay_class=DelayClass(first.percentile, first.queueing_delay_ms * 1000),
        axis=axes_of(study)[0],
        values=default_values(study.cca),
    )


def link_of(study: StudySettings, recording: Recording, *, rtt: int = 0) -> LinkSpec:
    """The study's path over a recording, from its start; rtt: which of its paths."""
    link = study.link
    return LinkSpec(trace=recording.trace, rtt_ms=study.paths_ms[rtt], buffer_pkts=link.buffer_pkts, loss=link.loss)


def reference_turns(
    study: StudySettings,
    recordings: Sequence[Recording],
    *,
    threads: int,
    rtt: int = 0,
    ran: Ran = lambda _seconds: None,
) -> list[list[Turn]]:
    """Where a default flow's epochs end on each recording, and what it then measures, by the core's own clock.

    rtt: over which path.
    """
    flow = FlowSpec(cca=study.cca, ensemble_text=reference_text(study))
    scenarios = [
        Scenario(name=r.name, link=link_of(study, r, rtt=rtt), flows=(flow,), duration_s=r.duration_s, seed=study.seed)
        for r in recordings
    ]
    told = 0.0

    def progress(done: int) -> None:
        nonlocal told
        seconds = sum(r.duration_s for r in recordings[:done])
        ran(seconds - told)
        told = seconds

    results = simulate_many(scenarios, threads=threads, progress=progress)
    return [
        [Turn(round(turn.at_ms), turn.measured_bytes_per_s) for turn in result.flows[0].turns] for result in results
    ]


class EpochRunner:
    """Runs points on epochs in the simulator; a `Runner`.

    threads: of one call; callers that run several at once pass 1.
    """

    def __init__(self, study: StudySettings, *, threads: int) -> None:
        self._study = study
        self._threads = threads
        self._names = study.names
        self._rivals = sorted({rival for asked in study.classes if (rival := study.rival_of(asked)) is not None})
        self._rival_bytes: dict[tuple[str, str], int] = {}

    @property
    def edges_us(self) -> NDArray[np.float64]:
        """The engine's compact bins."""
        return compact_edges_us()

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        """A tally for every case and point: result[case][point]."""
        trials = [Trial(self._study.cca, dict(zip(self._names, point, strict=True))) for point in points]
        found = measure([case.scenario for case in cases], trials, threads=self._threads)
        rivals_bytes = self._rivals_bytes(cases)
        return [
            [
                Tally(
                    duration_s=case.measured_s,
                    capacity_bytes=int(found.capacity_bytes[i, j]),
                    delivered_bytes=int(found.delivered_bytes[i, j]),
                    goodput_bytes=int(found.goodput_bytes[i, j]),
                    packets=int(found.packets[i, j]),
                    delays=found.delay_counts[i, j].copy(),
                    rivals_bytes=rivals_bytes[i],
                )
                for j in range(len(points))
            ]
            for i, case in enumerate(cases)
        ]

    def _rivals_bytes(self, cases: Sequence[Case]) -> list[dict[str, int]]:
        """The goodput of each of the classes' rivals on each case, in bytes."""
        missing = [(case, rival) for case in cases for rival in self._rivals
                   if (case.key, rival) not in self._rival_bytes]  # fmt: skip
        for rival in sorted({rival for _, rival in missing}):
            its = [case for case, name in missing if name == rival]
            found = measure([case.scenario for case in its], [Trial(rival)], threads=self._threads)
            for case, goodput_bytes in zip(its, found.goodput_bytes[:, 0], strict=True):
                self._rival_bytes[case.key, rival] = int(goodput_bytes)
        return [{rival: self._rival_bytes[case.key, rival] for rival in self._rivals} for case in cases]


def epoch_cases(study: StudySettings, epochs: Sequence[StateEpoch]) -> list[Case]:
    """Each epoch with its warm-up, cut out of its recording."""
    return [
        Case(epoch.key, epoch_scenario(study, epoch), epoch.state, "epoch", epoch.capacity_bytes) for epoch in epochs
    ]


def epoch_scenario(study: StudySettings, epoch: StateEpoch) -> Scenario:
    """One epoch as a scenario. Its seed comes from its key: losses are the same for every point."""
    begin_ms = max(epoch.start_ms - round(study.epochs.warmup_s * 1000), 0)
    piece = epoch.recording.cut(begin_ms, epoch.end_ms)
    return Scenario(
        name=piece.name,
        link=link_of(study, piece, rtt=epoch.rtt),
        flows=(FlowSpec(cca=study.cca),),
        duration_s=(epoch.end_ms - begin_ms) / 1000,
        warmup_s=(epoch.start_ms - begin_ms) / 1000,
        seed=int(epoch.key[:12], 16),
    )


def objectives(
    study: StudySettings, runner: EpochRunner, *, aim: bool = True, margin_se: float | None = None
) -> list[Objective]:
    """The study's classes for training; without `aim`, the targets themselves and no margin.

    margin_se: instead of the study's.
    """
    margin = study.objective.margin_se if margin_se is None else margin_se
    return [
        Objective(
            percentile=c.percentile,
            aim_us=c.aim_us if aim else c.queueing_delay_ms * 1000,
            edges_us=runner.edges_us,
            margin_se=margin if aim else 0.0,
            goal=c.goal,
            goodput_share=c.goodput_share,
            rival=study.rival_of(c) or "",
        )
        for c in study.classes
    ]
