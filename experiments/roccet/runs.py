# SPDX-License-Identifier: MIT
"""Runs the cases of the report. A case is a few scenarios, and only a few figures of each run are kept.

A journal stores each complete case, so that it does not run again. The journal's key covers the settings and the
versions of core and simulator. The runs of a case use several threads. Their figures do not depend on the number of
threads.

    smoothed RTT   as in RFC 6298, taken from the sender's own timer every 20 ms
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.run.qos import QoS
from emulation.run.simulator import default_threads, simulate
from emulation.scenario.model import Scenario
from emulation.scenario.path import Frozen
from kmod.ensemble import canonical_json
from training.evaluation.runner import core_version
from training.study.journal import Journal

__all__ = ["QUANTILES", "SERIES_EVERY_S", "Case", "Results", "column", "key_of", "run_cases"]

Values = NDArray[np.float64]
Figures = Mapping[str, float | Sequence[float]]
Results = dict[str, dict[str, Values]]
"""By case and figure: float [runs], or [runs, quantiles] for a distribution."""

SERIES_EVERY_S = 0.02
# A run keeps these quantiles of its samples, so that all runs have the same weight when their samples are pooled.
QUANTILES: Values = (np.arange(100) + 0.5) / 100
FIGURES_VERSION = 2  # increased when the stored figures of a run change


@dataclass(frozen=True)
class Case:
    """Scenarios that are run and stored together.

    name: a-z, 0-9 and dashes. measure: computes the stored figures of a run. sampled: whether it needs samples over
    time.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    measure: Callable[[Scenario, QoS], Figures]
    sampled: bool = True

    def run(self, scenario: Scenario) -> dict[str, Any]:
        """Run one of the scenarios; its figures are JSON data."""
        qos = simulate(scenario, series_every_s=SERIES_EVERY_S if self.sampled else None)
        figures = self.measure(scenario, qos)
        return {name: np.round(np.asarray(value, dtype=np.float64), 6).tolist() for name, value in figures.items()}


def key_of(settings: Frozen, cases: Sequence[Case]) -> str:
    """The key of a part's journal (hex), from its settings, its scenarios and the versions of what runs them."""
    content = {
        "cases": {case.name: [*map(_content, case.scenarios)] for case in cases},
        "settings": settings.model_dump(mode="json", exclude={"scenario", "scenarios"}),
        "core": core_version(),
        "version": FIGURES_VERSION,
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _content(scenario: Scenario) -> str:
    trace = scenario.link.trace
    return scenario.model_dump_json(exclude={"link": {"trace"}}) + ("" if trace is None else trace.digest)


def run_cases(
    cases: Sequence[Case],
    *,
    journal: Journal | None = None,
    threads: int | None = None,
    advance: Callable[[float], None] = lambda _seconds: None,
) -> Results:
    """Run all cases that the journal does not hold.

    advance: called with the simulated seconds since the previous call.
    """
    done = {} if journal is None else journal.parts()
    results: Results = {}
    with ThreadPoolExecutor(threads or default_threads()) as pool:
        for case in cases:
            rows = done.get(case.name)
            if rows is None:
                rows = list(pool.map(partial(_run_and_advance, case, advance), case.scenarios))
                if journal is not None:
                    journal.put(case.name, rows)
            else:
                advance(sum(scenario.duration_s for scenario in case.scenarios))
            results[case.name] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    return results


def _run_and_advance(case: Case, advance: Callable[[float], None], scenario: Scenario) -> dict[str, Any]:
    figures = case.run(scenario)
    advance(scenario.duration_s)
    return figures


def column(qos: QoS, name: str, start_s: float, end_s: float) -> Values:
    """A column of the first flow's samples in (start_s, end_s]."""
    time_s, flow = qos.series["time_s"], qos.series["flow"]
    values: Values = qos.series[name][(flow == 0) & (time_s > start_s + 1e-9) & (time_s <= end_s + 1e-9)]
    return values
