# SPDX-License-Identifier: MIT
"""Videos behind the limited operators (R-TCP 2026, section 6.2).

A client watches `sessions` videos, one after the other, each on its own persistent connection. With R-TCP the first
connection knows nothing of the limiter. The later ones start with what the earlier ones found (SR-TCP). Unmodified
algorithms play the same videos. The seed spreads the sizes of chunks around bitrate x duration, with one factor for all
bitrates of a chunk. Every algorithm and every ABR (way to choose bitrates) therefore gets the same videos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Frozen
from emulation.scenario.video import Abr, VideoFlowQoS, VideoSpec

if TYPE_CHECKING:
    from experiments.rtcp.settings import RtcpSettings

__all__ = ["VIDEO_COLUMNS", "VideoSettings", "scenario_of", "watched"]

VIDEO_COLUMNS = (
    "first_retransmission_rate", "later_retransmission_rate", "qoe", "first_qoe", "later_qoe", "startup_s",
    "rebuffer_s", "mean_kbps",
)  # fmt: skip


class VideoSettings(Frozen):
    """The videos, and the ABRs that choose their bitrates. The ABR of `video` itself is not used."""

    abrs: tuple[Abr, ...] = Field(min_length=1)
    sessions: int = Field(ge=2, le=100)
    idle_s: float = Field(ge=0, le=3600, description="from the last chunk of a session to the next one's start")
    spread: float = Field(ge=0, lt=1, description="sizes are within 1 +- this of bitrate x duration, evenly")
    video: VideoSpec

    @model_validator(mode="after")
    def _playable(self) -> VideoSettings:
        for abr in self.abrs:
            self.chosen_by(abr)
        return self

    def chosen_by(self, abr: str) -> VideoSpec:
        """The video with that ABR.

        Raises:
            ValueError: the video does not suit the ABR.
        """
        return VideoSpec.model_validate({**self.video.model_dump(), "abr": abr})


def _spread(video: VideoSpec, spread: float, rng: np.random.Generator) -> VideoSpec:
    n = len(video.bitrates_kbps)
    sizes = np.reshape(video.sizes, (video.chunks, n))
    drawn = np.rint(sizes * rng.uniform(1 - spread, 1 + spread, (video.chunks, 1))).astype(int)
    return VideoSpec.model_validate({**video.model_dump(), "sizes_bytes": drawn.tolist()})


def scenario_of(settings: RtcpSettings, link: LinkSpec, place: str, cca: Cca, abr: str, *, seed: int) -> Scenario:
    """The sessions of a client, with enough time for all of them."""
    plan = settings.video
    rng = np.random.default_rng(seed)
    videos = [_spread(plan.chosen_by(abr), plan.spread, rng) for _ in range(plan.sessions)]
    flows = [FlowSpec(cca=cca, video=videos[0])]
    flows += [
        FlowSpec(cca=cca, video=video, after=before, start_s=plan.idle_s) for before, video in enumerate(videos[1:])
    ]
    bits = 8 * sum(video.page_bytes + video.most_bytes for video in videos)
    idle_s = sum(video.chunks * video.chunk_s + plan.idle_s + 30 for video in videos)
    most_s = 4 * bits * 1e-6 / settings.limited[place].rate_mbps + idle_s
    return Scenario(link=link, flows=tuple(flows), duration_s=most_s, seed=seed)


def watched(qos: QoS) -> dict[str, float | None]:
    """VIDEO_COLUMNS of a run. Figures of several sessions are means.

    `rebuffer_s` is the mean of each session's total rebuffering. None: a session lacks the figure.
    """
    played = [flow for flow in qos.flows if isinstance(flow, VideoFlowQoS)]
    videos = [flow.video for flow in played]

    def mean(values: list[float | None]) -> float | None:
        had = [value for value in values if value is not None]
        return sum(had) / len(values) if len(had) == len(values) else None

    return {
        "first_retransmission_rate": played[0].retransmission_rate,
        "later_retransmission_rate": sum(flow.retransmission_rate for flow in played[1:]) / (len(played) - 1),
        "qoe": mean([video.qoe for video in videos]),
        "first_qoe": videos[0].qoe,
        "later_qoe": mean([video.qoe for video in videos[1:]]),
        "startup_s": mean([video.startup_s for video in videos]),
        "rebuffer_s": mean([video.rebuffer_s for video in videos]),
        "mean_kbps": mean([video.mean_kbps for video in videos]),
    }
