# SPDX-License-Identifier: MIT
"""What a run is given: link, flows, times. Frozen and checked; equal scenarios give equal runs.

link   the bottleneck and the path around it
flow   an algorithm with its parameters, or an ensemble that it follows
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from emulation.traces import OPPORTUNITY_BYTES, Trace
from kmod.abi import ALGORITHMS

__all__ = ["FlowSpec", "LinkSpec", "Scenario"]

Cca = Literal["gr", "reno", "cubic", "bbr1", "fixed"]
MSS_BYTES = 1448
NO_END_PKTS = 2**32 - 1
FIXED_PARAMS = ("cwnd_pkts", "pacing_bytes_per_s")


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class LinkSpec(_Frozen):
    """A trace or a constant rate, behind a drop-tail buffer."""

    trace: Trace | None = Field(None, description="delivery opportunities; repeats with its period")
    rate_mbps: float | None = Field(None, ge=1e-3, le=1e5, description="constant rate, instead of a trace")
    start_ms: int = Field(0, ge=0, lt=2**40, description="where in the trace the run begins")
    rtt_ms: float = Field(100.0, gt=0, le=60_000, description="propagation delay, both ways together")
    buffer_pkts: int | None = Field(1000, ge=1, lt=2**32, description="most packets in the queue; None: any number")
    buffer_bytes: int | None = Field(None, ge=1500, lt=2**40, description="most bytes in the queue; None: any number")
    loss: float = Field(0.0, ge=0, lt=1, description="share of the delivered packets lost at random")
    opportunity_bytes: int = Field(OPPORTUNITY_BYTES, ge=1, lt=2**31, description="what an opportunity carries")

    @model_validator(mode="after")
    def _one_kind(self) -> LinkSpec:
        if (self.trace is None) == (self.rate_mbps is None):
            raise ValueError("expected either a trace or rate_mbps")
        return self


class FlowSpec(_Frozen):
    """A bulk flow. `params` overrides defaults by name; `fixed` is a window that never changes, for tests."""

    cca: Cca = "gr"
    params: dict[str, Annotated[int, Field(ge=0, lt=2**32)]] = {}
    ensemble_text: str | None = Field(None, description="the table as /proc takes it; gr only")
    delay_class: int = Field(0, ge=0, le=7, description="which of the table's classes")
    start_s: float = Field(0.0, ge=0, le=86400)
    stop_s: float | None = Field(None, gt=0, le=86400, description="sends nothing new from here on; None: to the end")
    size_bytes: int | None = Field(None, ge=1, description="what the application has to send; None: no end")

    @model_validator(mode="after")
    def _within_ranges(self) -> FlowSpec:
        self.values()
        if self.ensemble_text is not None and self.cca != "gr":
            raise ValueError("expected an ensemble only for gr, which is the algorithm that takes one")
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError("expected stop_s behind start_s")
        return self

    @property
    def size_pkts(self) -> int:
        """The segments that the application has to send; 2^32 - 1 where it has no end."""
        if self.size_bytes is None:
            return NO_END_PKTS
        return min(-(-self.size_bytes // MSS_BYTES), NO_END_PKTS)

    def values(self) -> list[int]:
        """All parameters in the engine's order.

        Raises:
            ValueError: an unknown name, a value out of range, or a fixed window without its size.
        """
        if self.cca == "fixed":
            unknown = set(self.params) - set(FIXED_PARAMS)
            if unknown or not self.params.get("cwnd_pkts"):
                raise ValueError(f"expected cwnd_pkts >= 1 and pacing_bytes_per_s, got {self.params}")
            return [self.params["cwnd_pkts"], self.params.get("pacing_bytes_per_s", 0)]
        specs = ALGORITHMS[self.cca].params if self.cca in ALGORITHMS else ()
        unknown = set(self.params) - {spec.name for spec in specs}
        if unknown:
            known = ", ".join(spec.name for spec in specs) or "none"
            raise ValueError(f"expected parameters of {self.cca} ({known}), got {', '.join(sorted(unknown))}")
        values = []
        for spec in specs:
            value = self.params.get(spec.name, spec.default)
            if not spec.minimum <= value <= spec.maximum:
                raise ValueError(f"expected {spec.name} from {spec.minimum} to {spec.maximum} {spec.unit}, got {value}")
            values.append(value)
        return values


class Scenario(_Frozen):
    """Flows over a link for a time. Measured from warmup_s on, in windows of window_s (None: one)."""

    name: str = "scenario"
    link: LinkSpec
    flows: tuple[FlowSpec, ...] = Field((FlowSpec(),), min_length=1)
    duration_s: float = Field(30.0, gt=0, le=86400, description="of the whole run, warm-up included")
    warmup_s: float = Field(0.0, ge=0)
    window_s: float | None = Field(None, ge=1e-3)
    seed: int = Field(0, ge=0, lt=2**64)

    @model_validator(mode="after")
    def _measures_something(self) -> Scenario:
        if self.warmup_s >= self.duration_s:
            raise ValueError("expected warmup_s below duration_s")
        return self
