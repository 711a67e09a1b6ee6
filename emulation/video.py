# SPDX-License-Identifier: MIT
"""Chunked video: what a flow plays, who chooses its bitrates, and what the viewer got.

    fixed        the first bitrate, always
    bola         from the buffer (Spiteri, Urgaonkar, Sitaraman 2016; emulation/cpp/video/bola.cpp)
    mpc          from buffer and predicted throughput (Yin et al. 2015; emulation/cpp/video/mpc.cpp)
    robust-mpc   the same with the prediction's lower bound

QoE is Pensieve's linear form (Mao, Netravali, Alizadeh 2017), here the mean over N chunks, in Mbit/s:

    QoE = (sum R_n - mu sum T_n - lambda sum |R_n+1 - R_n|) / N

R_n is a chunk's bitrate in Mbit/s, T_n its rebuffering in s, mu 4.3 and lambda 1. The start-up, up to the first
chunk's arrival, is told apart and counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulation.path import Frozen
from emulation.qos import FlowQoS

__all__ = ["Abr", "ChunkQoS", "VideoFlowQoS", "VideoQoS", "VideoSpec"]

Abr = Literal["fixed", "bola", "mpc", "robust-mpc"]
Kbps = Annotated[int, Field(ge=1, le=10_000_000)]
Bytes = Annotated[int, Field(ge=1, lt=2**32)]
MOST_BYTES = 2**32 - 1
MOST_SIZES = 1_000_000
MOST_PLANNED = 8  # bitrates; MPC looks at all ways to choose five chunks


class VideoSpec(Frozen):
    """A video on one connection: a page, if there is one, then chunk by chunk, each at the bitrate that is chosen.

    A chunk is asked for when the one before has come and the buffer has room for all of it; bola may wait longer.
    """

    abr: Abr = Field("bola", description="what chooses the bitrates")
    bitrates_kbps: tuple[Kbps, ...] = Field(
        (300, 750, 1200, 1850, 2850, 4300), min_length=1, max_length=64, description="ascending; Mao et al. 2017"
    )
    chunk_s: float = Field(4.0, gt=0, le=600, description="what a chunk plays")
    chunks: int = Field(12, ge=1, le=100_000, description="how many")
    sizes_bytes: tuple[tuple[Bytes, ...], ...] = Field(
        (), description="of each chunk at each bitrate, in their orders; none: bitrate x chunk_s"
    )
    buffer_s: float = Field(30.0, gt=0, le=86400, description="most playing time that the player holds")
    first_kbps: int | None = Field(None, description="of the first chunk; None: the lowest")
    page_bytes: int = Field(0, ge=0, le=MOST_BYTES, description="fetched in front of the first chunk")
    rebuffer_penalty_mbps: float = Field(4.3, ge=0, le=1e6, description="mu: of a second without picture")
    switch_penalty: float = Field(1.0, ge=0, le=1e6, description="lambda: of each Mbit/s between two chunks")

    @model_validator(mode="after")
    def _fits_together(self) -> VideoSpec:
        bitrates = self.bitrates_kbps
        if list(bitrates) != sorted(set(bitrates)):
            raise ValueError(f"expected bitrates_kbps ascending, each once, got {list(bitrates)}")
        if self.abr in {"mpc", "robust-mpc"} and len(bitrates) > MOST_PLANNED:
            raise ValueError(f"expected at most {MOST_PLANNED} bitrates_kbps with abr {self.abr}, got {len(bitrates)}")
        if self.first_kbps is not None and self.first_kbps not in bitrates:
            raise ValueError(f"expected first_kbps among {', '.join(map(str, bitrates))}, got {self.first_kbps}")
        if self.buffer_s < self.chunk_s:
            raise ValueError(f"expected buffer_s of at least chunk_s, {self.chunk_s:g} s, got {self.buffer_s:g}")
        if self.sizes_bytes and {len(self.sizes_bytes)} | {len(row) for row in self.sizes_bytes} != {
            self.chunks, len(bitrates),
        }:  # fmt: skip
            raise ValueError(f"expected sizes_bytes of {self.chunks} chunks, each with {len(bitrates)} sizes")
        if self.chunks * len(bitrates) > MOST_SIZES:
            raise ValueError(f"expected at most {MOST_SIZES} chunks x bitrates, got {self.chunks * len(bitrates)}")
        if self.page_bytes + self.most_bytes > MOST_BYTES:
            raise ValueError("expected a video of less than 2^32 bytes in all at its highest bitrates")
        return self

    @property
    def sizes(self) -> list[int]:
        """Bytes chunk by chunk, of each its bitrates in order."""
        if self.sizes_bytes:
            return [size for row in self.sizes_bytes for size in row]
        return [max(1, round(kbps * 125 * self.chunk_s)) for kbps in self.bitrates_kbps] * self.chunks

    @property
    def most_bytes(self) -> int:
        """All chunks, each at its largest."""
        n, sizes = len(self.bitrates_kbps), self.sizes
        return sum(max(sizes[at : at + n]) for at in range(0, len(sizes), n))

    @property
    def first(self) -> int:
        """The number of the first chunk's bitrate."""
        return 0 if self.first_kbps is None else self.bitrates_kbps.index(self.first_kbps)


@dataclass(frozen=True)
class ChunkQoS:
    """A chunk: rebuffer_s is how long the picture stood before it came, buffer_s what was there to play then.

    start_s: when its request arrived; complete_s: None where the run ended before, and then the last two are 0.
    """

    bitrate_kbps: int
    size_bytes: int
    start_s: float
    complete_s: float | None
    rebuffer_s: float
    buffer_s: float

    @property
    def download_s(self) -> float | None:
        """From its request to its last byte; None: not complete."""
        return None if self.complete_s is None else self.complete_s - self.start_s


@dataclass(frozen=True)
class VideoQoS:
    """What the viewer got; figures are of the chunks that came, an interruption that the run ended in is not among
    them. chunks: those that were asked for; start_s: the session's, its page included."""

    chunks: tuple[ChunkQoS, ...]
    start_s: float
    rebuffer_penalty_mbps: float
    switch_penalty: float

    @property
    def played(self) -> list[ChunkQoS]:
        """The chunks that came."""
        return [chunk for chunk in self.chunks if chunk.complete_s is not None]

    @property
    def startup_s(self) -> float | None:
        """From the session's start to the first chunk's arrival; None: it did not come."""
        first = self.chunks[0].complete_s if self.chunks else None
        return None if first is None else first - self.start_s

    @property
    def rebuffer_s(self) -> float:
        """How long the picture stood, the start-up not counted."""
        return sum(chunk.rebuffer_s for chunk in self.played)

    @property
    def interruptions(self) -> int:
        """How often it did."""
        return sum(chunk.rebuffer_s > 0 for chunk in self.played)

    @property
    def mean_kbps(self) -> float | None:
        """Mean bitrate; None: no chunk came."""
        rates = [chunk.bitrate_kbps for chunk in self.played]
        return sum(rates) / len(rates) if rates else None

    @property
    def switches(self) -> int:
        """How often the bitrate changed."""
        return sum(before.bitrate_kbps != after.bitrate_kbps for before, after in pairwise(self.played))

    @property
    def qoe(self) -> float | None:
        """Pensieve's linear QoE, Mbit/s, the mean of the chunks that came; None: none did."""
        played = self.played
        if not played:
            return None
        mbps = [chunk.bitrate_kbps / 1000 for chunk in played]
        changes = sum(abs(after - before) for before, after in pairwise(mbps))
        stood = self.rebuffer_penalty_mbps * self.rebuffer_s
        return (sum(mbps) - stood - self.switch_penalty * changes) / len(played)

    def summary(self) -> dict[str, object]:
        """The figures as JSON data."""
        return {
            "qoe": self.qoe,
            "startup_s": self.startup_s,
            "rebuffer_s": self.rebuffer_s,
            "interruptions": self.interruptions,
            "mean_kbps": self.mean_kbps,
            "switches": self.switches,
            "chunks": [
                {
                    "bitrate_kbps": chunk.bitrate_kbps,
                    "size_bytes": chunk.size_bytes,
                    "start_s": chunk.start_s,
                    "download_s": chunk.download_s,
                    "rebuffer_s": chunk.rebuffer_s,
                    "buffer_s": chunk.buffer_s,
                }
                for chunk in self.chunks
            ],
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class VideoFlowQoS(FlowQoS):
    """A flow that played a video; its transfers are the page, if there is one, and the chunks."""

    video: VideoQoS

    def summary(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return {**super().summary(), "video": self.video.summary()}
