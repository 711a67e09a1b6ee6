# SPDX-License-Identifier: MIT
"""The settings of `python -m experiments roccet`, read from configs/reports/roccet.yaml and checked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from emulation.scenario.files import load_scenario, read_settings
from emulation.scenario.model import Scenario
from emulation.scenario.path import Frozen
from experiments.figures import SettingsPath
from training.intervals import LEAST_SEEDS

WIRE_BITS = 12_000
Products = Annotated[float, Field(ge=0.25, le=1000)]


class FrozenSettings(Frozen):
    """Section III: one flow over a buffer that never overflows."""

    scenario: SettingsPath
    settled_s: float = Field(gt=0, description="windows are looked at from here on")


class HalvedSettings(Frozen):
    """Section IX: one flow over a link whose capacity changes once."""

    scenarios: tuple[SettingsPath, ...] = Field(min_length=1)
    buffers_bdp: tuple[Products, ...] = Field(min_length=1, description="of the capacity before the change")
    settled_s: float = Field(gt=0, description="figures of the time before the change begin here")


class LinksSettings(Frozen):
    """Section VI or VII: runs over pieces of recorded links."""

    dataset: str = Field(description="whole recordings are taken: nothing is trained here")
    duration_s: float = Field(ge=1, le=3600, description="of a run")
    runs: int = Field(ge=LEAST_SEEDS, description="at most; spread over the recordings")
    rtt_ms: float = Field(gt=0, le=10_000)
    buffer_pkts: int = Field(ge=1, lt=2**32)
    jitter_ms: float = Field(1.0, gt=0, le=100, description="each packet waits up to this, in order")


class RecordedSettings(Frozen):
    """Settings of both kinds of recorded links."""

    stationary: LinksSettings
    mobile: LinksSettings


class ShareSettings(Frozen):
    """Section VIII: flows of ROCCET share a link with one flow of another algorithm."""

    scenarios: tuple[SettingsPath, ...] = Field(min_length=1)
    buffers_bdp: tuple[Products, ...] = Field(min_length=2)
    roccet_flows: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field(min_length=1)
    start_within_s: float = Field(ge=0, le=10)

    @field_validator("buffers_bdp", "roccet_flows")
    @classmethod
    def _ascending(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if list(values) != sorted(set(values)) or values[0] != 1:
            raise ValueError(f"expected 1 and then ascending values, got {list(values)}")
        return values


class ConstantLink(Frozen):
    """A link of a constant rate."""

    rate_mbps: float = Field(gt=0, le=10_000)
    rtt_ms: float = Field(gt=0, le=10_000)


class BuffersSettings(Frozen):
    """Flows of ROCCET, CUBIC and BBRv3, alone and in pairs, over the size of the buffer."""

    links: tuple[ConstantLink, ...] = Field(min_length=1)
    buffers_bdp: tuple[Products, ...] = Field(min_length=1)
    duration_s: float = Field(gt=0, le=3600, description="of a run")
    start_within_s: float = Field(ge=0, description="the first flow starts at a time drawn from here")
    later_s: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = Field(
        description="the second flow starts after a time drawn from here"
    )
    settled_s: float = Field(gt=0, description="figures count from here on")
    jitter_ms: float = Field(gt=0, le=100, description="each packet waits up to this, in order")
    more_jitter_ms: float = Field(gt=0, le=100, description="the same, in a condition of its own")
    ack_interval_ms: float = Field(gt=0, le=1000, description="ACKs leave once in this time, in another condition")


class RoccetSettings(Frozen):
    """All settings of the report."""

    seeds: int = Field(ge=LEAST_SEEDS, le=10_000, description="of each case on a made link")
    frozen: FrozenSettings
    halved: HalvedSettings
    recorded: RecordedSettings
    share: ShareSettings
    buffers: BuffersSettings


load_settings = partial(read_settings, model=RoccetSettings)


def bdp_pkts(scenario: Scenario) -> float:
    """The bandwidth-delay product of a synthetic link, in packets. If its rate changes, the first rate counts."""
    link = scenario.link
    rate_mbps = link.rate_mbps if link.rate_mbps is not None else link.steps[0].rate_mbps
    return rate_mbps * 1000 * link.rtt_ms / WIRE_BITS


def named_scenarios(paths: tuple[Path, ...]) -> dict[str, Scenario]:
    """The scenarios of these files, by their names."""
    return {scenario.name: scenario for scenario in map(load_scenario, paths)}
