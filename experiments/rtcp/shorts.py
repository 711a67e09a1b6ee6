# SPDX-License-Identifier: MIT
"""Short videos behind the limited operators (R-TCP 2026, section 6.3, Appendix O, Tables 3 and 10).

A viewer watches each video for a fixed time and then swipes to the next one, while later videos load on several
persistent connections at a time. Each connection carries every n-th video: it is a player whose chunks are whole videos
and play for n x the viewing time (emulation/scenario/video.py). The seed spreads the sizes, for all algorithms alike.

A video starts when it has arrived and the previous one was watched. The wait for it is rebuffering. The figures of a
session are:

    retransmission_rate   of all connections together
    stalls_per_ms         rebuffering events over the viewing time in ms (the paper's count ratio)
    stalled               rebuffering time over the viewing time (the paper's duration ratio)
    mean_kbps             mean bitrate of the videos

DEVIATION: The paper does not name the app, its bitrates, its ABR, or how many videos it loads ahead. The constants
below are this project's. While the viewer waits for the video of one connection, the others continue to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, Scenario
from emulation.scenario.video import VideoFlowQoS, VideoSpec
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, below, markdown_table, quotients, within
from experiments.rtcp.cells import ALL, BASES, NAMES, PAIRS, Cell, RtcpResults, case_of, link_at
from experiments.rtcp.probing import ORDER
from experiments.rtcp.settings import RtcpSettings
from experiments.rtcp.several import found_limits

# Tables 3 and 10: retransmission rate, count and duration of rebuffering, mean kbit/s. BBRv1's duration behind op2
# cannot be read in this project's copy of the paper.
PAPER: dict[tuple[str, Cca], tuple[float, float, float, float]] = {
    ("op1", "bbr"): (0.135, 2e-7, 0.7e-3, 572), ("op1", "rtcp_bbr"): (0.066, 3e-7, 0.5e-3, 565),
    ("op1", "cubic"): (0.089, 2e-7, 4e-4, 580), ("op1", "rtcp_cubic"): (0.053, 8e-8, 2e-4, 584),
    ("op1", "bbr3"): (0.23, 3e-7, 5e-4, 487), ("op1", "rtcp_bbr3"): (0.116, 2e-7, 4e-4, 485),
    ("op2", "bbr"): (0.184, 0.4e-5, np.nan, 533), ("op2", "rtcp_bbr"): (0.073, 0.4e-5, np.nan, 537),
    ("op2", "cubic"): (0.128, 4e-6, 1e-2, 536), ("op2", "rtcp_cubic"): (0.081, 4e-6, 1e-2, 535),
    ("op2", "bbr3"): (0.35, 2e-6, 6e-3, 412), ("op2", "rtcp_bbr3"): (0.156, 2e-6, 4e-3, 409),
}  # fmt: skip
VIDEOS, WATCHED_S, CONNECTIONS = 60, 10.0, 3  # Table 2 and Figure 4
LASTS_S, SPREAD = 20.0, 0.2  # playing time of a whole video, and of its size around bitrate x time
BITRATES_KBPS, ABR = (300, 450, 600, 750), "robust-mpc"
AHEAD = 2  # videos of a connection that are loaded and not watched, including that on the screen
COLUMNS = ("retransmission_rate", "stalls_per_ms", "stalled", "mean_kbps")
LEAST_BITRATE = 0.98  # "comparable": the least quotient of two bitrates in Tables 3 and 10 is 0.988
SAVES: dict[Cca, float] = {"rtcp_bbr": 0.13, "rtcp_bbr3": 0.24}  # of all bytes


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each operator and algorithm."""
    for place in settings.limited:
        for cca in ALL:
            scenario = partial(session, settings, place, cca)
            yield case_of(Cell("shorts", place, cca, "videos"), settings.seeds, scenario, together=True, more=_watched)


def session(settings: RtcpSettings, place: str, cca: Cca, seed: int) -> Scenario:
    """The connections of a viewer, with enough time for all videos."""
    limited, rng = settings.limited[place], np.random.default_rng(seed)
    nominal = np.outer(rng.uniform(1 - SPREAD, 1 + SPREAD, VIDEOS), BITRATES_KBPS)
    sizes = np.rint(nominal * 125 * LASTS_S).astype(int)
    chunk_s = WATCHED_S * CONNECTIONS
    flows = [
        FlowSpec(cca=cca, video=VideoSpec(
            abr=ABR, bitrates_kbps=BITRATES_KBPS, chunk_s=chunk_s, chunks=VIDEOS // CONNECTIONS, switch_penalty=0,
            buffer_s=AHEAD * chunk_s, sizes_bytes=sizes[number::CONNECTIONS].tolist()))
        for number in range(CONNECTIONS)
    ]  # fmt: skip
    most_s = 4 * int(sizes.max(axis=1).sum()) * 8e-6 / limited.rate_mbps + VIDEOS * WATCHED_S
    return Scenario(link=link_at(settings, limited), flows=tuple(flows), duration_s=most_s, seed=seed)


def _watched(_scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    """The figures of a viewer; None: not all videos arrived."""
    played = [flow.video.played for flow in qos.flows if isinstance(flow, VideoFlowQoS)]
    videos = [video for together in zip(*played, strict=False) for video in together]
    arrivals_s = [video.complete_s for video in videos if video.complete_s is not None]
    if len(arrivals_s) < VIDEOS:
        return dict.fromkeys(COLUMNS[1:])
    waits_s = stalls(arrivals_s, WATCHED_S)
    return {
        "stalls_per_ms": sum(wait_s > 0 for wait_s in waits_s) / (VIDEOS * WATCHED_S * 1000),
        "stalled": sum(waits_s) / (VIDEOS * WATCHED_S),
        "mean_kbps": sum(video.bitrate_kbps for video in videos) / len(videos),
    }


def stalls(arrivals_s: list[float], watched_s: float) -> list[float]:
    """How long a viewer waits for each video after the first one, in s. arrivals_s: in the order of viewing."""
    waits, until_s = [], arrivals_s[0]
    for arrival_s in arrivals_s[1:]:
        due_s = until_s + watched_s
        until_s = max(due_s, arrival_s)
        waits.append(until_s - due_s)
    return waits


def figure(results: RtcpResults, place: str, cca: Cca, column: str = "retransmission_rate") -> Values:
    """A column of the sessions, one for each seed."""
    return results.get(Cell("shorts", place, cca, "videos"), column)


def _over_pairs(
    judge: Callable[[RtcpResults, str, Cca, Cca], Figure],
) -> Callable[[RtcpResults], list[Figure]]:
    """A figure for each operator of the paper's tables and each pair: its plain algorithm, and that with R-TCP."""

    def figures(results: RtcpResults) -> list[Figure]:
        places = [place for place in results.settings.limited if (place, "cubic") in PAPER]
        return [judge(results, place, plain, capped) for place in places for plain, capped in PAIRS.items()]

    return figures


def _reduction(results: RtcpResults, place: str, plain: Cca, capped: Cca) -> Figure:
    theirs = 1 - PAPER[place, capped][0] / PAPER[place, plain][0]
    values = 1 - quotients(*(figure(results, place, cca) for cca in (capped, plain)))
    return within(f"{NAMES[capped]} {place} (paper: {100 * theirs:.0f} %)", values, least=theirs)


def _bitrate(results: RtcpResults, place: str, plain: Cca, capped: Cca) -> Figure:
    values = quotients(*(figure(results, place, cca, "mean_kbps") for cca in (capped, plain)))
    return within(f"{NAMES[capped]} {place}", values, least=LEAST_BITRATE)


def _stalled(results: RtcpResults, place: str, plain: Cca, capped: Cca) -> Figure:
    found = {cca: figure(results, place, cca, "stalled") for cca in (plain, capped)}
    return below(f"{NAMES[capped]} {place} (without: {100 * found[plain].mean():.1f} %)", found[capped], found[plain])


def _level(results: RtcpResults, place: str, plain: Cca, _capped: Cca) -> Figure:
    theirs = PAPER[place, plain][0]
    label = f"{NAMES[plain]} {place} (paper: {100 * theirs:.1f} %)"
    return within(label, figure(results, place, plain), least=theirs / ORDER, most=theirs * ORDER)


def _saved(results: RtcpResults) -> list[Figure]:
    """The share of bytes that R-TCP saves for the same videos behind op2. By the paper's tables it is 12 and 23 %."""
    if "op2" not in results.settings.limited:
        return []
    sent = {cca: 1 / (1 - figure(results, "op2", cca)) for pair in PAIRS.items() for cca in pair}
    return [within(NAMES[cca], 1 - sent[cca] / sent[BASES[cca]], least=least) for cca, least in SAVES.items()]


def _found(results: RtcpResults) -> list[Figure]:
    return found_limits(results, "shorts", {place: place for place in results.settings.limited})


SHORTS: tuple[Statement[RtcpResults], ...] = (
    Statement("5.4-2", "Found by the connections of short videos, R close", "in all runs, mean error <= 5 %", _found),
    Statement("6.3-1", "In a short-video app R-TCP retransmits less, by the reductions of Tables 3 and 10",
              ">= the paper's", _over_pairs(_reduction)),
    Statement("6.3-2", "It retransmits as much as in the paper without R-TCP", "a third to three times",
              _over_pairs(_level)),
    Statement("6.3-3", "The bitrates are comparable with those without R-TCP", ">= 98 %", _over_pairs(_bitrate)),
    Statement("6.3-4", "and so is rebuffering: its share of the viewing time", "not more", _over_pairs(_stalled)),
    Statement("6.3-5", "R-TCP saves 13 % of BBRv1's bytes and 24 % of BBRv3's; behind op2", ">= 13 %, >= 24 %", _saved),
)  # fmt: skip


def shorts_table(results: RtcpResults) -> list[str]:
    """A row for each operator and algorithm, with the paper's figures in parentheses.

    The columns are the retransmission rate in percent, rebuffering events per 10^6 ms and rebuffering time in permille
    of the viewing time, and the mean bitrate in kbit/s.
    """
    rows = []
    for place in results.settings.limited:
        for cca in ALL:
            theirs = PAPER.get((place, cca), (np.nan,) * len(COLUMNS))
            cells = []
            for column, paper, scale in zip(COLUMNS, theirs, (100, 1e6, 1e3, 1), strict=True):
                ours = f"{scale * figure(results, place, cca, column).mean():.{0 if scale == 1 else 1}f}"
                cells.append(ours if np.isnan(paper) else f"{ours} ({scale * paper:.3g})")
            rows.append((place, NAMES[cca], *cells))
    heads = ("operator", "algorithm", "retransmitted, %", "events per 10^6 ms", "rebuffering, permille", "kbit/s")
    return markdown_table(heads, rows)
