# SPDX-License-Identifier: MIT
"""Runs scenarios by Pantheon's protocol. Each scenario becomes a test of one scheme over the scenario's link.

The data go over Mahimahi's uplink. Packets are measured at both ends of the path instead of in mm-link's log. All flows
of a scenario must be bulk flows without end that start together, with one algorithm and equal parameters. The error for
any other scenario names the field that is not supported.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from emulation.errors import EmulationError
from emulation.mahimahi.logs import TunnelLog, log_path, read_log
from emulation.mahimahi.runner import host_runner
from emulation.mahimahi.translate import Runner, ack_opportunities_ms, check_fields, check_link, link_opportunities_ms
from emulation.pantheon.links import TestLink
from emulation.pantheon.runner import PlannedTest, RunKey, TestSettings, Verdict, run_tests
from emulation.pantheon.schemes import read_schemes
from emulation.scenario.model import FlowSpec, Scenario

# Called with a scenario's number and the log of its data link, or the error of a failed run.
Each = Callable[[int, TunnelLog | EmulationError], None]
# Two opportunities in every ms, which is 24 Mbit/s. ACKs wait at most until the next ms.
_DOWNLINK_MS = np.asarray([1, 1])


def run_scenarios(scenarios: Sequence[Scenario], each: Each, *, jobs: int = 1) -> None:
    """Run scenarios, and call `each` as soon as a run is over. Other runs continue after a failed run.

    All flows of all scenarios must have the same algorithm and equal parameters.

    Raises EmulationError if the machine lacks a program or permission, or a scenario is not supported.
    """
    runner = host_runner()
    with tempfile.TemporaryDirectory(prefix="ccatune-pantheon-") as folder:
        tests = []
        for number, scenario in enumerate(scenarios):
            data_dir = Path(folder) / str(number)
            data_dir.mkdir()
            tests.append(PlannedTest(_settings(scenario, runner), data_dir))

        def judge(number: int, key: RunKey, verdict: Verdict) -> None:
            scenario = scenarios[number]
            if verdict.kind != "ok":
                each(number, EmulationError(f"{scenario.name}: {verdict.kind}: {verdict.reason}"))
                return
            path = log_path(tests[number].data_dir, scheme=key.scheme, run=key.run, kind="datalink")
            each(number, read_log(path))

        run_tests(tests, judge, jobs=jobs)


def _settings(scenario: Scenario, runner: Runner) -> TestSettings:
    """Return the test of a scenario. Raises EmulationError for a field that is not supported."""
    check_fields(scenario, runner)
    link, flow = scenario.link, scenario.flows[0]
    for name in ("before", "behind", "delays"):
        if getattr(link, name):
            raise EmulationError(
                f"{scenario.name}: link.{name}: the runner pantheon does not support it; use the runner mahimahi"
            )
    bulk = FlowSpec(cca=flow.cca, params=flow.params)
    if any(other != bulk for other in scenario.flows):
        raise EmulationError(f"{scenario.name}: flows: the runner pantheon requires equal bulk flows without end")
    end_ms = math.ceil(scenario.duration_s * 1000)
    acks_ms = ack_opportunities_ms(link, end_ms)
    queue = "" if link.buffer_pkts is None else (
        f"--uplink-queue=droptail --uplink-queue-args=packets={link.buffer_pkts}"
    )  # fmt: skip
    schemes = read_schemes()
    if flow.cca not in schemes:
        raise EmulationError(f"{scenario.name}: flows: expected one of {', '.join(schemes)}, got {flow.cca}")
    return TestSettings(
        schemes=(schemes[flow.cca],),
        link=TestLink(
            name=scenario.name,
            source="a scenario",
            uplink=np.append(link_opportunities_ms(link, end_ms), end_ms),
            downlink=_DOWNLINK_MS if acks_ms is None else np.append(acks_ms, end_ms),
            # In a scenario packets are lost after the link, so mm-loss is outside of mm-link.
            prepend=f"mm-delay {check_link(scenario, runner)}"
            + (f" mm-loss uplink {link.loss:.9f}" if link.loss else ""),
            extra=queue,
        ),
        flows=len(scenario.flows),
        runtime_s=math.ceil(scenario.duration_s),
        parameters={flow.cca: flow.params} if flow.params else {},
    )
