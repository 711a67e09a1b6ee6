# SPDX-License-Identifier: MIT
"""What `ccatune report rtcp` runs: operators with and without a limit, files, downloads, patterns; checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from emulation.figures import LEAST_SEEDS, Seeds
from emulation.files import read_settings
from emulation.path import Frozen, Policer
from emulation.scenario import MSS_BYTES, Transfer

__all__ = ["Burst", "Limited", "Map", "Pattern", "RtcpSettings", "Unlimited", "load_settings"]

Megabits = Annotated[float, Field(gt=0, le=1e4)]
Milliseconds = Annotated[float, Field(gt=0, le=10_000)]
Bytes = Annotated[int, Field(ge=1500, lt=2**32)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+$", max_length=32)]


class Limited(Frozen):
    """An operator with a policer of R and B."""

    rate_mbps: Megabits
    bucket_bytes: Bytes
    rtt_ms: Milliseconds

    @property
    def policer(self) -> Policer:
        """Its element of the path."""
        return Policer(rate_mbps=self.rate_mbps, bucket_bytes=self.bucket_bytes)


class Unlimited(Frozen):
    """An operator without a limit: a link that follows traces.

    dataset, recording: what the names of its recorded traces begin with and hold; model: what traces are made from
    where there are none, a path that counts from the file's folder.
    """

    dataset: str
    recording: str = ""
    model: Path
    rtt_ms: Milliseconds
    moving: bool = Field(default=False, description="the client rides along")


class Burst(Frozen):
    """Loss in bursts (emulation/path.py, GilbertElliott)."""

    to_bad: float = Field(gt=0, le=1)
    to_good: float = Field(gt=0, le=1)
    loss_bad: float = Field(gt=0, le=1)


class Map(Frozen):
    """Token buckets over B and R, in front of one path."""

    rates_mbps: tuple[Megabits, ...] = Field(min_length=1)
    buckets_bytes: tuple[Bytes, ...] = Field(min_length=1)
    rtt_ms: Milliseconds
    runs: int = Field(ge=1, le=10_000)


class Pattern(Frozen):
    """Data objects on one connection behind one of the limited operators."""

    limited: str
    transfers: tuple[Transfer, ...] = Field(min_length=1)


class RtcpSettings(Frozen):
    """All of it; configs/reports/rtcp.yaml says what is the paper's and what ours."""

    seeds: Seeds = Field(description=f"of each file and pattern, at least {LEAST_SEEDS}")
    runs: int = Field(ge=1, le=1_000_000, description="of each cell of detection")
    sizes_bytes: tuple[Annotated[int, Field(ge=MSS_BYTES, le=10**9)], ...] = Field(min_length=2)
    access_mbps: tuple[Megabits, ...] = Field(min_length=1)
    buffer_pkts: int = Field(ge=1, lt=2**32)
    jitter_ms: float = Field(gt=0, le=100)
    download_s: float = Field(gt=1, le=3600)
    limited: dict[Name, Limited] = Field(min_length=1)
    unlimited: dict[Name, Unlimited] = Field(min_length=1)
    buffers_pkts: tuple[Annotated[int, Field(ge=1, lt=2**32)], ...] = Field(min_length=1)
    burst: Burst
    map: Map
    patterns: dict[Name, Pattern] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> RtcpSettings:
        if list(self.sizes_bytes) != sorted(set(self.sizes_bytes)):
            raise ValueError(f"expected sizes_bytes ascending, each once, got {list(self.sizes_bytes)}")
        for name, pattern in self.patterns.items():
            if pattern.limited not in self.limited:
                raise ValueError(f"expected patterns.{name}.limited among {', '.join(self.limited)}, "
                                 f"got {pattern.limited}")  # fmt: skip
        return self


def load_settings(path: Path) -> RtcpSettings:
    """Read a file of settings; models count from its folder.

    Raises:
        EmulationError: it cannot be read, or does not hold what is expected.
    """
    settings = read_settings(path, RtcpSettings)
    located = {
        name: place.model_copy(update={"model": path.parent / place.model})
        for name, place in settings.unlimited.items()
    }
    return settings.model_copy(update={"unlimited": located})
