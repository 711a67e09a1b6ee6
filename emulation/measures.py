# SPDX-License-Identifier: MIT
"""Runs reduced to what training and judging are about: every scenario with every trial.

A trial says what all flows of a scenario run: an algorithm with its parameters, or one that follows a table. The
scenario keeps the path, the transfers and the random numbers, so that trials differ by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation._jobs import Jobs
from emulation.errors import EmulationError
from emulation.scenario import FlowSpec, Scenario
from emulation.simulator import Progress, default_threads

__all__ = ["Measures", "Trial", "measure"]


@dataclass(frozen=True)
class Trial:
    """What all flows of a scenario run: `params` override the algorithm's defaults by name.

    ensemble_text: the table that its flows follow, as /proc takes it; None: none.
    """

    cca: str
    params: Mapping[str, int] = field(default_factory=dict)
    ensemble_text: str | None = None

    def on(self, scenario: Scenario) -> Scenario:
        """The scenario with flows that run this."""
        update = {"cca": self.cca, "params": dict(self.params), "ensemble_text": self.ensemble_text}
        flows = tuple(flow.model_copy(update=update) for flow in scenario.flows)
        return scenario.model_copy(update={"flows": flows})


@dataclass(frozen=True, eq=False)
class Measures:
    """Columns of the runs of n scenarios with m trials, each [n, m], over the measured time.

    duration_s: the measured time, float64.
    capacity_bytes: what the bottleneck could carry, and delivered_bytes: what it carried, retransmissions with it; on
        the wire, uint64.
    goodput_bytes: payload that was new and in order at the receivers, uint64.
    packets: over the bottleneck; sent_pkts, retransmitted_pkts: of all flows; uint64.
    busy_s: the time in which flows with an end had data, summed over them (to the end of the run where a transfer is
        not complete), float64; offered_bytes: payload of their transfers that have begun, uint64.
    complete: all flows with an end were acknowledged whole, bool.
    detecting, limited: R-TCP looked for a limiter, and takes the client for limited at the end of the run, bool.
    delay_counts: packets by queueing delay, and srtt_counts: RTT samples by the smoothed RTT after them; uint32
        [n, m, bins] in the bins of compact_edges_us().
    """

    duration_s: NDArray[np.float64]
    capacity_bytes: NDArray[np.uint64]
    delivered_bytes: NDArray[np.uint64]
    goodput_bytes: NDArray[np.uint64]
    packets: NDArray[np.uint64]
    sent_pkts: NDArray[np.uint64]
    retransmitted_pkts: NDArray[np.uint64]
    busy_s: NDArray[np.float64]
    offered_bytes: NDArray[np.uint64]
    complete: NDArray[np.bool_]
    detecting: NDArray[np.bool_]
    limited: NDArray[np.bool_]
    delay_counts: NDArray[np.uint32]
    srtt_counts: NDArray[np.uint32]


def measure(
    scenarios: Sequence[Scenario],
    trials: Sequence[Trial],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measures:
    """Run each scenario with each trial on threads (None: all processors).

    progress: called about ten times a second with the number of runs done.

    Raises:
        EmulationError: no scenarios, no trials, or a trial that its algorithm or the engine does not take.
    """
    if not scenarios or not trials:
        raise EmulationError(f"measure: expected scenarios and trials, got {len(scenarios)} and {len(trials)}")
    jobs = Jobs()
    out = _engine.measure(
        [jobs.job(scenario) for scenario in scenarios],
        [_of_engine(trial, jobs) for trial in trials],
        threads or default_threads(),
        progress,
    )
    measured_s = np.array([[scenario.duration_s - scenario.warmup_s] for scenario in scenarios])
    columns = {column.name: out[column.name] for column in fields(Measures) if column.name in out}
    flags = {name: columns[name].astype(np.bool_) for name in ("complete", "detecting", "limited")}
    duration_s = np.repeat(measured_s, len(trials), axis=1)
    return Measures(**{**columns, **flags, "duration_s": duration_s})


def _of_engine(trial: Trial, jobs: Jobs) -> _engine.Trial:
    try:
        values = FlowSpec.model_validate({"cca": trial.cca, "params": dict(trial.params)}).values()
    except ValueError as error:
        raise EmulationError(f"measure: {error}") from error
    return _engine.Trial(trial.cca, values, jobs.table(trial.ensemble_text, trial.cca))
