# SPDX-License-Identifier: MIT
"""A small plan, and a kernel that is the simulator itself: what a campaign does around its runs needs no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from emulation.errors import EmulationError
from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.translate import Runner
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import Scenario
from experiments.fidelity import kernels
from experiments.fidelity.plan import Case, Pieces, Plan, cases_of, load_plan

PLAN = """\
runs: 2
seeds: 3
duration_s: 2
algorithms: {mahimahi: [cubic, reno], vm: [gr]}
targets:
  throughput: {within: 0.05, at_least: 0.9, never_beyond: 0.15}
  queueing_delay: {within: 0.10, within_units: 5, at_least: 0.8, never_beyond: 0.30, never_beyond_units: 15}
  retransmissions: {within_units: 1.5, at_least: 0.8}
scenarios:
  - {name: slow, link: {rate_mbps: 2, rtt_ms: 50, buffer_bdp: 2}}
  - {name: fast, link: {rate_mbps: 12, rtt_ms: 40, buffer_pkts: 50}, algorithms: [cubic]}
short: {cases: [fast/cubic], runs: 1, duration_s: 1}
explanations:
  slow/reno: {metrics: [throughput], at_fault: emulation, mechanism: what a test says of it}
"""


class StandInKernel:
    """Runs on the simulator, counts runs, notes how many may be side by side, and fails or is interrupted as told.

    slower: by which factor than the simulator. breaks_at: the number of runs after which Ctrl-C comes.
    """

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.tried: list[str] = []
        self.processors: list[int | None] = []
        self.failing: set[str] = set()
        self.breaks_at: int | None = None
        self.slower = 1.0

    def emulate_each(
        self,
        scenarios: Sequence[Scenario],
        each: Callable[[int, QoS | EmulationError], None],
        *,
        processors: int | None = None,
    ) -> None:
        self.processors.append(processors)
        for number, scenario in enumerate(scenarios):
            if self.breaks_at is not None and len(self.ran) >= self.breaks_at:
                raise KeyboardInterrupt
            if scenario.name in self.failing:
                self.tried.append(scenario.name)
                each(number, EmulationError(f"{scenario.name}: the link broke"))
                continue
            self.ran.append(scenario.name)
            path = path_of_mahimahi(self._slowed(scenario), runner="mahimahi")
            each(number, simulate(path))

    def _slowed(self, scenario: Scenario) -> Scenario:
        rate_mbps = (scenario.link.rate_mbps or 0) * self.slower
        return scenario.model_copy(update={"link": scenario.link.model_copy(update={"rate_mbps": rate_mbps})})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> StandInKernel:
    """In place of this machine's and the guest's."""
    kernel = StandInKernel()
    algorithms = {"cubic": "cubic", "reno": "reno"}
    monkeypatch.setattr(kernels.host, "host_runner", lambda: Runner(name="mahimahi", algorithms=algorithms))
    monkeypatch.setattr(kernels.host, "emulate_each", kernel.emulate_each)
    monkeypatch.setattr(kernels, "lacking_for_guests", lambda: "no guest in this test")
    return kernel


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """The small plan."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, encoding="utf-8")
    return path


@pytest.fixture
def plan(plan_file: Path) -> Plan:
    """The small plan, read."""
    return load_plan(plan_file)


@pytest.fixture
def choose(plan: Plan, plan_file: Path) -> Callable[..., list[Case]]:
    """Cases of the small plan; options as of cases_of."""

    def choose(*patterns: str, short: bool = False, runners: tuple[str, ...] = ()) -> list[Case]:
        return cases_of(plan, source=plan_file, pieces=Pieces(None), patterns=patterns, short=short, runners=runners)

    return choose
