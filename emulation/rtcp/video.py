# SPDX-License-Identifier: MIT
"""Videos behind the limited operators (R-TCP 2026, section 6.2): runs, and what is stated of them.

A client watches `sessions` videos, one after the other, each on a persistent connection of its own; the first one
knows nothing of the limiter, those behind it what has been found by then (SR-TCP). Plain algorithms play the same. By
seed the chunks' sizes are spread around bitrate x duration, each chunk by one factor for all of its bitrates, so that
every algorithm and every way to choose bitrates (ABR) meets the same videos.

    reduction   1 - stateful / plain, of segments sent again over sent ones, all sessions together, seed by seed, then
                over operators and ABRs
    QoE         Pensieve's linear one (emulation/video.py), the mean of the sessions; kept: 1 + (stateful - plain) /
                |the seeds' mean of plain|, of the sums over operators and ABRs
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emulation.figures import Figure, quotients, within
from emulation.path import Frozen
from emulation.qos import QoS
from emulation.scenario import Cca, FlowSpec, LinkSpec, Scenario
from emulation.video import Abr, VideoFlowQoS, VideoSpec

if TYPE_CHECKING:
    from emulation.rtcp.campaign import Results
    from emulation.rtcp.settings import RtcpSettings

__all__ = ["COLUMNS", "VideoSettings", "cell", "columns_of", "kept_qoe", "reduced_by", "scenario_of"]

Values = NDArray[np.float64]

COLUMNS = (
    "first_retransmission_rate", "later_retransmission_rate", "qoe", "first_qoe", "later_qoe", "startup_s",
    "rebuffer_s", "mean_kbps",
)  # fmt: skip


class VideoSettings(Frozen):
    """What is watched, and who chooses the bitrates; the video's own abr stands for nothing."""

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
            ValueError: the two do not go together.
        """
        return VideoSpec.model_validate({**self.video.model_dump(), "abr": abr})


# --- runs ------------------------------------------------------------------------------------------------------------


def _spread(video: VideoSpec, spread: float, rng: np.random.Generator) -> VideoSpec:
    n = len(video.bitrates_kbps)
    sizes = np.reshape(video.sizes, (video.chunks, n))
    drawn = np.rint(sizes * rng.uniform(1 - spread, 1 + spread, (video.chunks, 1))).astype(int)
    return VideoSpec.model_validate({**video.model_dump(), "sizes_bytes": drawn.tolist()})


def scenario_of(settings: RtcpSettings, link: LinkSpec, place: str, cca: Cca, abr: str, *, seed: int) -> Scenario:
    """The sessions of a client, with time for all of them."""
    watched = settings.video
    rng = np.random.default_rng(seed)
    videos = [_spread(watched.chosen_by(abr), watched.spread, rng) for _ in range(watched.sessions)]
    flows = [FlowSpec(cca=cca, video=videos[0])]
    flows += [
        FlowSpec(cca=cca, video=video, after=before, start_s=watched.idle_s) for before, video in enumerate(videos[1:])
    ]
    bits = 8 * sum(video.page_bytes + video.most_bytes for video in videos)
    idle_s = sum(video.chunks * video.chunk_s + watched.idle_s + 30 for video in videos)
    most_s = 4 * bits * 1e-6 / settings.limited[place].rate_mbps + idle_s
    return Scenario(link=link, flows=tuple(flows), duration_s=most_s, seed=seed)


def columns_of(qos: QoS) -> dict[str, float | None]:
    """COLUMNS of a run; of several sessions together a mean, but of rebuffering the sum of each, then the mean."""
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


# --- statements ------------------------------------------------------------------------------------------------------


def _cells(results: Results) -> list[tuple[str, str]]:
    """Operators and ABRs that were run."""
    return list(dict.fromkeys((part.place, part.value) for part in results.parts if part.kind == "video"))


def cell(results: Results, place: str, abr: str, cca: Cca, column: str = "retransmission_rate") -> Values:
    """A column of the clients of an operator and an ABR, one a seed."""
    part = next(part for part in results.parts if (part.kind, part.place, part.cca, part.value) ==
                ("video", place, cca, abr))  # fmt: skip
    return results.column(part, column)


def _reduction(results: Results, place: str, abr: str, pair: tuple[Cca, Cca], column: str) -> Values:
    plain, capped = pair
    return 1 - quotients(cell(results, place, abr, capped, column), cell(results, place, abr, plain, column))


def reduced_by(
    pair: tuple[Cca, Cca], least: float, *, column: str = "retransmission_rate"
) -> Callable[[Results], list[Figure]]:
    """The mean over operators and ABRs, and beside it each of them, of which nothing is asked.

    pair: plain, stateful.
    """

    def figures(results: Results) -> list[Figure]:
        cells = {f"{place} {abr}": _reduction(results, place, abr, pair, column) for place, abr in _cells(results)}
        if not cells:
            return []
        mean: Values = np.mean(list(cells.values()), axis=0)
        return [within("mean", mean, least=least), *(within(label, values) for label, values in cells.items())]

    return figures


def kept_qoe(pair: tuple[Cca, Cca], least: float) -> Callable[[Results], list[Figure]]:
    """QoE kept over everything and behind each operator, over the ABRs; beside it each cell, of which nothing is asked.

    pair: plain, stateful.
    """

    def figures(results: Results) -> list[Figure]:
        cells = _cells(results)
        if not cells:
            return []
        places = list(dict.fromkeys(place for place, _ in cells))
        asked = [within("all", _kept(results, cells, pair), least=least)]
        if len(places) > 1:
            asked += [within(place, _kept(results, [at for at in cells if at[0] == place], pair), least=least)
                      for place in places]  # fmt: skip
        return [*asked, *(within(" ".join(at), _kept(results, [at], pair)) for at in cells)]

    return figures


def _kept(results: Results, cells: list[tuple[str, str]], pair: tuple[Cca, Cca]) -> Values:
    """Over these operators and ABRs, seed by seed. Over the mean of the plain ones: a seed's own may be about 0."""
    plain, capped = (np.sum([cell(results, *at, cca, "qoe") for at in cells], axis=0) for cca in pair)
    mean = abs(plain.mean())
    values: Values = 1 + quotients(capped - plain, np.full_like(plain, mean))
    return values


def row_of(results: Results, place: str, abr: str, pair: tuple[Cca, Cca]) -> list[str]:
    """Cells of a table: retransmission in percent, then QoE in Mbit/s, each plain > stateful."""

    def both(column: str, scale: float, digits: int) -> str:
        means = [scale * cell(results, place, abr, cca, column).mean() for cca in pair]
        return " > ".join(f"{mean:.{digits}f}" for mean in means)

    rates = [both(f"{which}retransmission_rate", 100, 1) for which in ("", "first_", "later_")]
    figures: list[Any] = [both("qoe", 1, 2), both("mean_kbps", 1, 0), both("rebuffer_s", 1, 1)]
    return [*rates, *figures]
