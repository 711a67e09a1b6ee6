# SPDX-License-Identifier: MIT
"""Traces of links, scenarios of flows over links, the packet simulator, and the QoS of a run."""

from emulation.errors import EmulationError, TraceError
from emulation.run.measures import Trial, measure
from emulation.run.qos import (
    Delays,
    ElementQoS,
    FlowQoS,
    LimitEstimate,
    QoS,
)
from emulation.run.simulator import simulate, simulate_many
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.model import FlowSpec, LinkSpec, ReceiverSpec, Scenario, Transfer
from emulation.scenario.path import (
    AccessLink,
    AckPath,
    Clock,
    Codel,
    GilbertElliott,
    Jitter,
    LinkRate,
    PathElement,
    Policer,
    RandomLoss,
    RateStep,
    Reorder,
    Shaper,
    SteppedPolicer,
)
from emulation.scenario.video import ChunkQoS, VideoFlowQoS, VideoQoS, VideoSpec

__all__ = [
    "AccessLink",
    "AckPath",
    "BaseDelay",
    "ChunkQoS",
    "Clock",
    "Codel",
    "DelayStep",
    "Delays",
    "ElementQoS",
    "EmulationError",
    "FlowQoS",
    "FlowSpec",
    "GilbertElliott",
    "Jitter",
    "LimitEstimate",
    "LinkRate",
    "LinkSpec",
    "PathElement",
    "Policer",
    "QoS",
    "RandomLoss",
    "RateStep",
    "ReceiverSpec",
    "Reorder",
    "Scenario",
    "Shaper",
    "SteppedPolicer",
    "TraceError",
    "Transfer",
    "Trial",
    "VideoFlowQoS",
    "VideoQoS",
    "VideoSpec",
    "measure",
    "simulate",
    "simulate_many",
]
