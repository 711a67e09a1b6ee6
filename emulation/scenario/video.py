# SPDX-License-Identifier: MIT
"""Chunked video: the video that a flow plays, the algorithm that chooses its bitrates, and the resulting QoE.

The algorithms choose the bitrate of a chunk:

    fixed        always the first bitrate
    bola         by the buffer (Spiteri, Urgaonkar, Sitaraman 2016; emulation/cpp/video/bola.cpp)
    mpc          by the buffer and the predicted throughput (Yin et al. 2015; emulation/cpp/video/mpc.cpp)
    robust-mpc   as mpc, with a lower bound of the prediction
    fast-mpc     as mpc, but by a table that assumes chunks of nominal size (the same paper, section 5)

The QoE is Pensieve's linear form (Mao, Netravali, Alizadeh 2017), here as the mean over N chunks, in Mbit/s:

    QoE = (sum R_n - mu sum T_n - lambda sum |R_n+1 - R_n|) / N

R_n is a chunk's bitrate in Mbit/s and T_n its rebuffering time in s. By default mu is 4.3 and lambda is 1.
The start-up, which ends when the first chunk has arrived, is reported separately and does not count as rebuffering.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulation.run.qos import FlowQoS, fields_of
from emulation.scenario.path import Frozen

Abr = Literal["fixed", "bola", "mpc", "robust-mpc", "fast-mpc"]
Kbps = Annotated[int, Field(ge=1, le=10_000_000)]
Bytes = Annotated[int, Field(ge=1, lt=2**32)]
MOST_BYTES = 2**32 - 1
MOST_SIZES = 1_000_000
MOST_PLANNED = 8  # bitrates; MPC tries all combinations of bitrates for five chunks


class VideoSpec(Frozen):
    """A video. First a page is fetched, if there is one, and then each chunk at its chosen bitrate.

    A chunk is requested when the previous one has arrived and the buffer has room for it. bola may wait longer.
    """

    abr: Abr = Field("bola", description="algorithm that chooses the bitrates")
    bitrates_kbps: tuple[Kbps, ...] = Field(
        (300, 750, 1200, 1850, 2850, 4300), min_length=1, max_length=64, description="ascending; Mao et al. 2017"
    )
    chunk_s: float = Field(4.0, gt=0, le=600, description="playing time of a chunk")
    chunks: int = Field(12, ge=1, le=100_000, description="number of chunks")
    sizes_bytes: tuple[tuple[Bytes, ...], ...] = Field(
        (), description="size of each chunk at each bitrate, in their orders; empty: bitrate x chunk_s"
    )
    buffer_s: float = Field(30.0, gt=0, le=86400, description="maximum of playing time in the player's buffer")
    first_kbps: int | None = Field(None, description="bitrate of the first chunk; None: the lowest")
    page_bytes: int = Field(0, ge=0, le=MOST_BYTES, description="size of a page that is fetched before the first chunk")
    rebuffer_penalty_mbps: float = Field(4.3, ge=0, le=1e6, description="mu: penalty of a second of rebuffering")
    switch_penalty: float = Field(1.0, ge=0, le=1e6, description="lambda: penalty of each Mbit/s between two chunks")

    @model_validator(mode="after")
    def _fits_together(self) -> VideoSpec:
        bitrates = self.bitrates_kbps
        if list(bitrates) != sorted(set(bitrates)):
            raise ValueError(f"expected bitrates_kbps ascending, each once, got {list(bitrates)}")
        if self.abr.endswith("mpc") and len(bitrates) > MOST_PLANNED:
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
        """The sizes in bytes, chunk by chunk, and for each chunk in the order of the bitrates."""
        if self.sizes_bytes:
            return [size for row in self.sizes_bytes for size in row]
        return [max(1, round(kbps * 125 * self.chunk_s)) for kbps in self.bitrates_kbps] * self.chunks

    @property
    def most_bytes(self) -> int:
        """The bytes of all chunks if each has its largest size."""
        n, sizes = len(self.bitrates_kbps), self.sizes
        return sum(max(sizes[at : at + n]) for at in range(0, len(sizes), n))

    @property
    def first(self) -> int:
        """The index of the first chunk's bitrate."""
        return 0 if self.first_kbps is None else self.bitrates_kbps.index(self.first_kbps)


@dataclass(frozen=True)
class ChunkQoS:
    """The result of a chunk.

    start_s: when its request arrived at the sender. complete_s: when it was complete; None if the run ended before.
    rebuffer_s: how long the playback stopped before the chunk arrived; 0 if it is not complete.
    buffer_s: the playing time in the buffer after its arrival, including the chunk; 0 if it is not complete.
    """

    bitrate_kbps: int
    size_bytes: int
    start_s: float
    complete_s: float | None
    rebuffer_s: float
    buffer_s: float

    @property
    def download_s(self) -> float | None:
        """The time from its request to its last byte; None if it is not complete."""
        return None if self.complete_s is None else self.complete_s - self.start_s


@dataclass(frozen=True)
class VideoQoS:
    """The result of a video session. Its figures are for the chunks that are complete.

    An interruption that lasts until the end of the run does not count. chunks: the chunks that were requested.
    start_s: the start of the session, which begins with the page if there is one.
    """

    chunks: tuple[ChunkQoS, ...]
    start_s: float
    rebuffer_penalty_mbps: float
    switch_penalty: float

    @property
    def played(self) -> list[ChunkQoS]:
        """The chunks that are complete."""
        return [chunk for chunk in self.chunks if chunk.complete_s is not None]

    @property
    def startup_s(self) -> float | None:
        """The time from the session's start to the arrival of the first chunk; None if that is not complete."""
        first = self.chunks[0].complete_s if self.chunks else None
        return None if first is None else first - self.start_s

    @property
    def rebuffer_s(self) -> float:
        """The total time of interruptions, without the start-up."""
        return sum(chunk.rebuffer_s for chunk in self.played)

    @property
    def interruptions(self) -> int:
        """The number of interruptions."""
        return sum(chunk.rebuffer_s > 0 for chunk in self.played)

    @property
    def mean_kbps(self) -> float | None:
        """The mean bitrate; None if no chunk is complete."""
        rates = [chunk.bitrate_kbps for chunk in self.played]
        return sum(rates) / len(rates) if rates else None

    @property
    def switches(self) -> int:
        """The number of changes of the bitrate."""
        return sum(before.bitrate_kbps != after.bitrate_kbps for before, after in pairwise(self.played))

    @property
    def qoe(self) -> float | None:
        """Pensieve's linear QoE in Mbit/s, the mean over the complete chunks; None if there are none."""
        played = self.played
        if not played:
            return None
        mbps = [chunk.bitrate_kbps / 1000 for chunk in played]
        changes = sum(abs(after - before) for before, after in pairwise(mbps))
        stood = self.rebuffer_penalty_mbps * self.rebuffer_s
        return (sum(mbps) - stood - self.switch_penalty * changes) / len(played)

    def summary(self) -> dict[str, object]:
        """Return the figures as JSON data."""
        figures = ("qoe", "startup_s", "rebuffer_s", "interruptions", "mean_kbps", "switches")
        of_chunk = ("bitrate_kbps", "size_bytes", "start_s", "download_s", "rebuffer_s", "buffer_s")
        return {**fields_of(self, *figures), "chunks": [fields_of(chunk, *of_chunk) for chunk in self.chunks]}


@dataclass(frozen=True, eq=False, kw_only=True)
class VideoFlowQoS(FlowQoS):
    """The result of a flow that played a video. Its transfers are the page, if there is one, and the chunks."""

    video: VideoQoS

    def summary(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        return {**super().summary(), "video": self.video.summary()}
