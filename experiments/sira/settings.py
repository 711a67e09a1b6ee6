# SPDX-License-Identifier: MIT
"""The settings of `python -m experiments sira`, read from configs/reports/sira.yaml and checked."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulation.scenario.files import read_settings
from emulation.scenario.model import FlowSpec, LinkSpec
from emulation.scenario.path import Frozen, RateMbps
from experiments.figures import Seeds, SettingsPath

Kind = Literal["recorded", "made"]


class LinkRates(Frozen):
    """The rates of the paper's traces: the mean of those of section V.B, the bounds of all of section V.A."""

    mean_mbps: RateMbps
    least_mbps: RateMbps
    most_mbps: RateMbps
    smooth_s: int = Field(ge=1, le=60, description="the rate of a second is a mean over so many, as section IV.A needs")

    @model_validator(mode="after")
    def _in_order(self) -> LinkRates:
        if not self.least_mbps < self.mean_mbps < self.most_mbps:
            raise ValueError("expected least_mbps < mean_mbps < most_mbps")
        return self


class Place(Frozen):
    """A kind of links, and the fields of the scenario's link besides its trace."""

    links: Kind
    path: dict[str, Any]

    @model_validator(mode="after")
    def _valid(self) -> Place:
        LinkSpec.model_validate({"rate_mbps": 1, **self.path})
        return self


class Varied(Frozen):
    """Section V.D: the values of each parameter, from the least to the largest. The others have their defaults."""

    runs: Seeds
    values: dict[str, Annotated[tuple[int, ...], Field(min_length=2)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _valid(self) -> Varied:
        for name, values in self.values.items():
            if list(values) != sorted(set(values)):
                raise ValueError(f"expected ascending values of {name}, got {list(values)}")
            for value in values:
                FlowSpec(cca="sira", params={name: value})
        return self


class SiraSettings(Frozen):
    """All settings of the report."""

    runs: Seeds = Field(description="of each case, spread over the links")
    duration_s: float = Field(gt=0, le=600, description="of a run")
    spacing_s: float = Field(ge=0, le=600, description="from the end of a run to the start of the next one")
    dataset: str = Field(description="of the recorded links; nothing is trained here")
    model: SettingsPath = Field(description="of the made links' slow rates, and of stand-ins for the recordings")
    rates: LinkRates
    places: dict[str, Place] = Field(min_length=1)
    varied: Varied
    segment_s: float = Field(ge=2, le=86400, description="of which a link's variation has a figure, section IV.A")


load_settings = partial(read_settings, model=SiraSettings)
