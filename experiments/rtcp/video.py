# SPDX-License-Identifier: MIT
"""Videos behind the limited operators (R-TCP 2026, section 6.2).

A client watches `sessions` videos, one after the other, each on its own persistent connections: three with BOLA, which
take turns at the chunks, otherwise one. With R-TCP the first connection knows nothing of the limiter. The later ones
start with what the earlier ones found (SR-TCP). Unmodified algorithms play the same videos. The seed spreads the
sizes of chunks around bitrate x duration, with one factor for all bitrates of a chunk. Every algorithm and every ABR
(adaptive bitrate algorithm) therefore gets the same videos.

A cell's value is the ABR. Its runs have these figures, too, as means over the sessions: retransmission rates of the
first session and of the later ones, QoE (Pensieve's linear form, emulation/scenario/video.py), the mean bitrate, a
session's start-up time and total rebuffering, and the bitrate of the first session's second chunk. None: a session
lacks the figure.

    reduction   1 - retransmission rate with stateful R-TCP over that of the unmodified (plain) algorithm, seed by
                seed, of all sessions together. The mean is over operators and ABRs
    kept QoE    1 + (stateful - plain) / |mean of plain over the seeds|, where each QoE is a sum over operators and ABRs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from emulation.run.qos import FlowQoS, QoS
from emulation.scenario.model import Cca, FlowSpec, Scenario, Transfer
from emulation.scenario.video import VideoFlowQoS, VideoSpec
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, arrows, markdown_table, quotients, share, within
from experiments.rtcp.cells import ALL, NAMES, PAIRS, Cell, RtcpResults, case_of, link_at, of_kind
from experiments.rtcp.settings import RtcpSettings

LEAST_QOE = 0.97
CONNECTIONS: dict[str, int] = {"bola": 3}  # of a session, by ABR; others have one
CUBIC, BBR, BBR3 = PAIRS.items()  # plain, stateful


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each operator, algorithm and ABR."""
    for place in settings.limited:
        for cca in ALL:
            for abr in settings.video.abrs:
                scenario = partial(sessions, settings, place, cca, abr)
                cell = Cell("video", place, cca, abr)
                yield case_of(cell, settings.seeds, scenario, together=True, more=lambda _scenario, qos: watched(qos))


def _spread(video: VideoSpec, spread: float, rng: np.random.Generator) -> VideoSpec:
    n = len(video.bitrates_kbps)
    sizes = np.reshape(video.sizes, (video.chunks, n))
    drawn = np.rint(sizes * rng.uniform(1 - spread, 1 + spread, (video.chunks, 1))).astype(int)
    return VideoSpec.model_validate({**video.model_dump(), "sizes_bytes": drawn.tolist()})


def sessions(settings: RtcpSettings, place: str, cca: Cca, abr: str, seed: int) -> Scenario:
    """The sessions of a client, with enough time for all of them."""
    plan = settings.video
    rng = np.random.default_rng(seed)
    videos = [_spread(plan.chosen_by(abr), plan.spread, rng) for _ in range(plan.sessions)]
    flows: list[FlowSpec] = []
    for video in videos:
        number = len(flows)
        before = {"after": number - CONNECTIONS.get(abr, 1), "start_s": plan.idle_s} if flows else {}
        flows.append(FlowSpec.model_validate({"cca": cca, "video": video, **before}))
        flows += [FlowSpec(cca=cca, video_of=number)] * (CONNECTIONS.get(abr, 1) - 1)
    bits = 8 * sum(video.page_bytes + video.most_bytes for video in videos)
    idle_s = sum(video.chunks * video.chunk_s + plan.idle_s + 30 for video in videos)
    limited = settings.limited[place]
    most_s = 4 * bits * 1e-6 / limited.rate_mbps + idle_s
    return Scenario(link=link_at(settings, limited), flows=tuple(flows), duration_s=most_s, seed=seed)


def _rate_of(flows: Sequence[FlowQoS]) -> float:
    """The retransmission rate of several flows together. In all, a flow sends new segments / (1 - its rate)."""
    new = [sum(Transfer(size_bytes=sent.size_bytes).size_pkts for sent in flow.transfers) for flow in flows]
    sent = sum(pkts / (1 - flow.retransmission_rate) for pkts, flow in zip(new, flows, strict=True))
    return 1 - sum(new) / sent


def watched(qos: QoS) -> dict[str, float | None]:
    """The figures of the sessions of a run."""
    starts = [number for number, flow in enumerate(qos.flows) if isinstance(flow, VideoFlowQoS)]
    videos = [flow.video for flow in qos.flows if isinstance(flow, VideoFlowQoS)]

    def mean(values: list[float | None]) -> float | None:
        had = [value for value in values if value is not None]
        return sum(had) / len(values) if len(had) == len(values) else None

    return {
        "first_retransmission_rate": _rate_of(qos.flows[: starts[1]]),
        "later_retransmission_rate": _rate_of(qos.flows[starts[1] :]),
        "second_kbps": videos[0].chunks[1].bitrate_kbps if len(videos[0].chunks) > 1 else None,
        "qoe": mean([video.qoe for video in videos]),
        "first_qoe": videos[0].qoe,
        "later_qoe": mean([video.qoe for video in videos[1:]]),
        "startup_s": mean([video.startup_s for video in videos]),
        "rebuffer_s": mean([video.rebuffer_s for video in videos]),
        "mean_kbps": mean([video.mean_kbps for video in videos]),
    }


def _cells(results: RtcpResults) -> list[tuple[str, str]]:
    """The pairs of operator and ABR that were run."""
    return list(dict.fromkeys((cell.place, cell.value) for cell in of_kind(results, "video")))


def cell(results: RtcpResults, place: str, abr: str, cca: Cca, column: str = "retransmission_rate") -> Values:
    """A column of the clients of an operator with an ABR, one for each seed."""
    return results.get(Cell("video", place, cca, abr), column)


def _reduction(results: RtcpResults, place: str, abr: str, pair: tuple[Cca, Cca]) -> Values:
    plain, capped = pair
    return 1 - quotients(cell(results, place, abr, capped), cell(results, place, abr, plain))


def reduced_by(pair: tuple[Cca, Cca], least: float) -> Callable[[RtcpResults], list[Figure]]:
    """The mean reduction over operators and ABRs, which has a bound, and that of each of them, which has none.

    pair: plain, stateful.
    """

    def figures(results: RtcpResults) -> list[Figure]:
        cells = {f"{place} {abr}": _reduction(results, place, abr, pair) for place, abr in _cells(results)}
        if not cells:
            return []
        mean: Values = np.mean(list(cells.values()), axis=0)
        return [within("mean", mean, least=least), *(within(label, values) for label, values in cells.items())]

    return figures


def kept_qoe(pair: tuple[Cca, Cca], least: float) -> Callable[[RtcpResults], list[Figure]]:
    """The kept QoE over all cells, and over the ABRs behind each operator; both have a bound.

    The kept QoE of each cell follows without a bound. pair: plain, stateful.
    """

    def figures(results: RtcpResults) -> list[Figure]:
        cells = _cells(results)
        if not cells:
            return []
        places = list(dict.fromkeys(place for place, _ in cells))
        bounded = [within("all", _kept(results, cells, pair), least=least)]
        if len(places) > 1:
            bounded += [within(place, _kept(results, [at for at in cells if at[0] == place], pair), least=least)
                      for place in places]  # fmt: skip
        return [*bounded, *(within(" ".join(at), _kept(results, [at], pair)) for at in cells)]

    return figures


def _kept(results: RtcpResults, cells: list[tuple[str, str]], pair: tuple[Cca, Cca]) -> Values:
    """The kept QoE over these operators and ABRs, seed by seed.

    The divisor is the mean of the plain QoE, because the QoE of a single seed may be about 0.
    """
    plain, capped = (np.sum([cell(results, *at, cca, "qoe") for at in cells], axis=0) for cca in pair)
    mean = abs(plain.mean())
    values: Values = 1 + quotients(capped - plain, np.full_like(plain, mean))
    return values


def _qoe_range(results: RtcpResults, place: str, cca: Cca) -> Values:
    """Difference between the highest and the lowest QoE of the ABRs behind an operator, in Mbit/s, for each seed."""
    values: Values = np.ptp([cell(results, *at, cca, "qoe") for at in _cells(results) if at[0] == place], axis=0)
    return values


def abr_determines(results: RtcpResults) -> list[Figure]:
    figures = []
    for place in dict.fromkeys(place for place, _ in _cells(results)):
        between = np.mean([_qoe_range(results, place, cca) for cca in ALL], axis=0)
        apart = [np.abs(cell(results, *at, plain, "qoe") - cell(results, *at, capped, "qoe"))
                 for at in _cells(results) if at[0] == place for plain, capped in PAIRS.items()]  # fmt: skip
        figures.append(within(place, between - np.mean(apart, axis=0), least=0.0, unit="Mbit/s"))
    return figures


def wider_range(results: RtcpResults) -> list[Figure]:
    if not {"op1", "op2", "op3"} <= {place for place, _ in _cells(results)}:
        return []
    return [
        within(f"{NAMES[cca]} {place}", _qoe_range(results, place, cca) - _qoe_range(results, "op3", cca), least=0.0,
               unit="Mbit/s")
        for place in ("op1", "op2") for cca in ALL
    ]  # fmt: skip


def second_chunk(results: RtcpResults) -> list[Figure]:
    if ("op1", "fast-mpc") not in _cells(results):
        return []
    chosen = {cca: cell(results, "op1", "fast-mpc", cca, "second_kbps") for cca in ALL}
    return [share(NAMES[cca], int((kbps == 4300).sum()), len(kbps), least=1.0) for cca, kbps in chosen.items()]


def row_of(results: RtcpResults, place: str, abr: str, pair: tuple[Cca, Cca]) -> list[str]:
    """The cells of a table row. Each has the value of the plain algorithm, then that of stateful R-TCP.

    The retransmission rates in percent come first, then QoE in Mbit/s, bitrate, start-up and rebuffering.
    """

    def both(column: str, scale: float, digits: int) -> str:
        return arrows(*(cell(results, place, abr, cca, column) for cca in pair), scale=scale, digits=digits)

    rates = [both(f"{which}retransmission_rate", 100, 1) for which in ("", "first_", "later_")]
    viewed = [both("qoe", 1, 2), both("mean_kbps", 1, 0), both("startup_s", 1, 2), both("rebuffer_s", 1, 1)]
    return [*rates, *viewed]


VIDEO: tuple[Statement[RtcpResults], ...] = (
    Statement("6.2-2", "Of videos one after the other, stateful R-TCP retransmits 28 % less than CUBIC", ">= 28 %",
              reduced_by(CUBIC, 0.28)),
    Statement("6.2-3", "and 39 % less than BBRv1", ">= 39 %", reduced_by(BBR, 0.39)),
    Statement("6.2-4", "and 43 % less than BBRv3", ">= 43 %", reduced_by(BBR3, 0.43)),
    Statement("6.2-5", "QoE stays within 3 % of CUBIC's, behind each operator", ">= 97 %",
              kept_qoe(CUBIC, LEAST_QOE)),
    Statement("6.2-6", "of BBRv1's", ">= 97 %", kept_qoe(BBR, LEAST_QOE)),
    Statement("6.2-7", "and of BBRv3's", ">= 97 %", kept_qoe(BBR3, LEAST_QOE)),
    Statement("6.2-8", "The ABR determines QoE: it differs more between ABRs than with and without R-TCP",
              ">= 0, the difference", abr_determines),
    Statement("6.2-9", "QoE differs more between ABRs behind op1 and op2 than behind op3", ">= 0", wider_range),
    Statement("6.2-10", "FastMPC chooses 4.3 Mbit/s for its second chunk behind op1", "in all runs", second_chunk),
)  # fmt: skip


def video_table(results: RtcpResults) -> list[str]:
    """A row for each ABR, operator and base algorithm. A cell is: without R-TCP > with it.

    The columns are the retransmission rates in percent of all sessions, the first one and the later ones, QoE in
    Mbit/s, the mean bitrate in kbit/s, and a session's time to the first chunk and rebuffering in s.
    """
    heads = ("ABR", "operator", "algorithm", "all", "first", "later", "QoE", "kbit/s", "start-up", "rebuffering")
    cells = [
        (abr, place, NAMES[pair[0]], *row_of(results, place, abr, pair))
        for abr in results.settings.video.abrs for place in results.settings.limited for pair in PAIRS.items()
    ]  # fmt: skip
    return markdown_table(heads, cells)
