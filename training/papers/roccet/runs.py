# SPDX-License-Identifier: MIT
"""Runs the cases of the report: each a handful of scenarios, of which a few figures are kept.

A case that is over is kept in a journal, under a key of the settings and of the versions of core and simulator, and
not run again. Runs of a case go beside each other on threads; their figures do not depend on how many.

    smoothed RTT   RFC 6298's, as the sender's own timer has it, every 20 ms
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

from emulation.path import Frozen
from emulation.qos import QoS
from emulation.scenario import Scenario
from emulation.simulator import default_threads, simulate
from kmod.ensemble import canonical_json
from training.evaluation.runner import core_version
from training.study.journal import Journal

__all__ = ["QUANTILES", "SERIES_EVERY_S", "Case", "Results", "column", "key_of", "run_cases"]

Values = NDArray[np.float64]
Figures = Mapping[str, float | Sequence[float]]
Results = dict[str, dict[str, Values]]
"""By case and figure: float [runs], or [runs, quantiles] for a distribution."""

SERIES_EVERY_S = 0.02
# Of a run's samples: enough to pool runs of one length, whose quantiles then weigh the same.
QUANTILES: Values = (np.arange(100) + 0.5) / 100
FIGURES_VERSION = 2  # raised where what is kept of a run changes


@dataclass(frozen=True)
class Case:
    """name: a-z, 0-9 and dashes. measure: what is kept of a run. sampled: it needs samples over time."""

    name: str
    scenarios: tuple[Scenario, ...]
    measure: Callable[[Scenario, QoS], Figures]
    sampled: bool = True

    def run(self, scenario: Scenario) -> dict[str, Any]:
        """One of the scenarios; figures as JSON data."""
        qos = simulate(scenario, series_every_s=SERIES_EVERY_S if self.sampled else None)
        figures = self.measure(scenario, qos)
        return {name: np.round(np.asarray(value, dtype=np.float64), 6).tolist() for name, value in figures.items()}


def key_of(settings: Frozen, cases: Sequence[Case]) -> str:
    """What the journal is kept under (hex): a part's settings and scenarios, and what runs them."""
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
    """Run all cases that the journal does not hold. advance: the simulated seconds done since the call before."""
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
