# SPDX-License-Identifier: MIT
"""Links and what flows meet on them: traces, scenarios, the simulator, QoS."""

from emulation.errors import EmulationError, TraceError
from emulation.qos import Delays, EpochTurn, FlowQoS, QoS, Windows, jain_index
from emulation.scenario import FlowSpec, LinkSpec, Scenario
from emulation.simulator import (
    GridResult,
    compact_edges_us,
    default_threads,
    evaluate_grid,
    simulate,
    simulate_many,
)

__all__ = [
    "Delays",
    "EmulationError",
    "EpochTurn",
    "FlowQoS",
    "FlowSpec",
    "GridResult",
    "LinkSpec",
    "QoS",
    "Scenario",
    "TraceError",
    "Windows",
    "compact_edges_us",
    "default_threads",
    "evaluate_grid",
    "jain_index",
    "simulate",
    "simulate_many",
]
