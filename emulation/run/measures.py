# SPDX-License-Identifier: MIT
"""Runs every scenario with every trial, and returns the measures that training and evaluation need.

A trial sets the algorithm of all flows of a scenario, with its parameters or with a table that it follows. The path,
the transfers and the random numbers are those of the scenario, so that trials differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from emulation import _engine
from emulation.errors import EmulationError
from emulation.run.jobs import Jobs
from emulation.run.simulator import Progress, default_threads
from emulation.scenario.model import FlowSpec, Scenario


@dataclass(frozen=True)
class Trial:
    """The algorithm of all flows of a scenario.

    params: values that replace the algorithm's defaults, by name. ensemble_text: the table that the flows follow, in
    the format of /proc; None: no table.
    """

    cca: str
    params: Mapping[str, int] = field(default_factory=dict)
    ensemble_text: str | None = None

    def on(self, scenario: Scenario) -> Scenario:
        """Return the scenario with all flows changed to this trial."""
        update = {"cca": self.cca, "params": dict(self.params), "ensemble_text": self.ensemble_text}
        flows = tuple(flow.model_copy(update=update) for flow in scenario.flows)
        return scenario.model_copy(update={"flows": flows})


@dataclass(frozen=True, eq=False, repr=False)
class Measures:
    """Columns of the runs of n scenarios with m trials, each [n, m].

    The transfers' columns (busy_s, offered_bytes, complete) and R-TCP's (detecting, limited) are for the whole run, the
    others for the measured time.

    duration_s: the measured time, float64.
    capacity_bytes: wire bytes that the bottleneck could carry, uint64.
    delivered_bytes: wire bytes that the bottleneck carried, including retransmissions, uint64.
    goodput_bytes: payload that arrived new and in order at the receivers, uint64.
    packets: packets that the bottleneck carried, uint64.
    sent_pkts, retransmitted_pkts: packets of all flows, uint64.
    busy_s: time in which flows with an end had data, summed over these flows, float64. An incomplete transfer counts
        until the end of the run.
    offered_bytes: payload of the transfers of these flows that have begun, uint64.
    complete: whether all data of the flows with an end was acknowledged, bool.
    detecting: whether R-TCP has looked for a rate limiter, bool.
    limited: whether R-TCP regards the client as rate-limited at the end of the run, bool.
    delay_counts: packets by queueing delay, uint32 [n, m, bins] in the bins of compact_edges_us().
    srtt_counts: RTT samples by the smoothed RTT after each sample, uint32 [n, m, bins] in the same bins.
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

    def __repr__(self) -> str:
        return f"Measures(scenarios={self.packets.shape[0]}, trials={self.packets.shape[1]})"


def measure(
    scenarios: Sequence[Scenario],
    trials: Sequence[Trial],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measures:
    """Run each scenario with each trial.

    threads: None: one for each processor. progress: called about ten times a second with the number of finished runs.

    Raises EmulationError for no scenarios, no trials, or a trial that the algorithm or the engine does not accept.
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
