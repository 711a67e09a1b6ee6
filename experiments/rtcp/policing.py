# SPDX-License-Identifier: MIT
"""Sections 3.1 and 4.1, appendices A and B: unmodified algorithms behind the policer of the first operator.

    sender -> policer (R, B) -> access link -> jitter -> receiver

In section 3.1 the server is on a fast network, and the policer drops packets before the mobile link. Each file has its
own connection and a full bucket. The paper achieves this with 15 s of silence, which bring more than four times B. The
seed determines the jitter and where the cycles of BBR begin.

A cell's place is the access rate and the RTT, and its value is the size. Moments (Appendix A) come from a time series
of the largest file:

    loss_s         time of the policer's first drop
    window_share   cwnd two RTTs after that drop over cwnd at the drop. The two RTTs are as measured at the drop and
                   include the access link's queue. The sender learns of a drop after one of them
    window_bdps    the same cwnd over R RTT
    detection_s    time from which BBRv1's pacing rate stays constant for 12 RTTs. Its cycle alone changes the rate
                   within 6 RTTs
    pacing_mbps    mean pacing rate from 5 s on, in wire bytes, which the policer counts

A statement is judged at each access rate; `talk` is the paper's slides. Words and bounds name sizes of the settings:
{small} is below the bucket, {first} and {second} are the first two beyond it, and {last} is the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.figure import PALETTE, new_figure
from emulation.run.plot import INK, STYLE
from emulation.run.qos import QoS
from emulation.scenario.model import MSS_BYTES, WIRE, Cca, FlowSpec, Scenario
from experiments.campaign import Case, Links, Values
from experiments.figures import (
    Figure,
    Statement,
    above,
    below,
    draw_rates,
    markdown_table,
    megabytes,
    megabytes_of,
    quotients,
    within,
)
from experiments.rtcp.cells import NAMES, NONE, PAIRS, Cell, RtcpResults, case_of, limited_link
from experiments.rtcp.settings import RtcpSettings

Figures = Callable[["View"], list[Figure]]
# Which sizes of the settings: the one below the bucket, the first one beyond it, the largest, and all beyond it.
SMALL, FIRST, LAST, LARGE = slice(0, 1), slice(1, 2), slice(-1, None), slice(1, None)

CCAS = tuple(PAIRS)
MARKS = dict(zip(CCAS, ("o", "s", "^"), strict=True))
EVERY_S = 0.01  # between two points of a moment's series ...
MOMENTS_S = 20.0  # ... of this length
STEADY_FROM_S = 5.0
CONSTANT_RTTS = 12

NORMAL = 0.01  # from the talk: a flow that retransmits less is not policed
HIGH = 0.10
MARKEDLY = 0.8


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """All algorithms and sizes, at every access rate and RTT; and the moments of the algorithms that have them.

    The statements use the longer RTTs for BBRv1 only, but the picture shows all algorithms.
    """
    seeds = min(settings.seeds, settings.policing.seeds)
    own_ms = settings.policed.rtt_ms
    for access_mbps in sorted(settings.access_mbps):
        for rtt_ms in settings.policed_rtts_ms:
            at = f"{access_mbps:g}-{rtt_ms:g}"
            for cca in CCAS:
                for size in settings.sizes_bytes:
                    scenario = partial(one_file, settings, (access_mbps, rtt_ms), cca, size)
                    yield case_of(Cell("policing", at, cca, str(size)), seeds, scenario)
                if cca == "bbr" or (cca == "bbr3" and rtt_ms == own_ms):
                    scenario = partial(one_file, settings, (access_mbps, rtt_ms), cca, settings.sizes_bytes[-1])
                    yield case_of(Cell("policing", at, cca, "moments"), seeds, partial(_begin, scenario),
                                  every_s=EVERY_S, more=partial(_moments, settings.policed.rate_mbps))  # fmt: skip


def one_file(settings: RtcpSettings, at: tuple[float, float], cca: Cca, size_bytes: int, seed: int) -> Scenario:
    """A file. at: the access rate in Mbit/s, and the RTT in ms."""
    access_mbps, rtt_ms = at
    policer = settings.policed.policer
    link = limited_link(settings, policer, rtt_ms=rtt_ms, access_mbps=access_mbps)
    if settings.policer == "behind":
        link = link.model_copy(update={"before": (), "behind": (policer, *link.behind)})
    most_s = 4 * size_bytes * 8e-6 / settings.policed.rate_mbps + 30
    return Scenario(link=link, flows=(FlowSpec(cca=cca, size_bytes=size_bytes),), duration_s=most_s, seed=seed)


def _begin(scenario: Callable[[int], Scenario], seed: int) -> Scenario:
    """The first MOMENTS_S of a file."""
    return scenario(seed).model_copy(update={"duration_s": MOMENTS_S})


def _moments(rate_mbps: float, scenario: Scenario, qos: QoS) -> dict[str, float]:
    rtt_ms = scenario.link.rtt_ms
    names = ("time_s", "cwnd_pkts", "pacing_mbps", "rtt_ms")
    time_s, cwnd_pkts, pacing_mbps, rtts_ms = (qos.series[name] for name in names)
    at = np.flatnonzero(_policed(qos))
    loss_s = window_share = window_bdps = np.nan
    if len(at):
        loss_s = float(time_s[at[0]])
        behind = min(int(np.searchsorted(time_s, loss_s + 2 * rtts_ms[at[0]] / 1000)), len(time_s) - 1)
        window_share = float(cwnd_pkts[behind] / cwnd_pkts[at[0]])
        window_bdps = float(cwnd_pkts[behind] * MSS_BYTES * WIRE * 8e-3 / (rate_mbps * rtt_ms))
    return {
        "loss_s": loss_s,
        "window_share": window_share,
        "window_bdps": window_bdps,
        "detection_s": first_constant_s(time_s, pacing_mbps, least_s=CONSTANT_RTTS * rtt_ms / 1000, from_s=loss_s),
        "pacing_mbps": float(pacing_mbps[time_s >= STEADY_FROM_S].mean()) * WIRE,
    }


def _policed(qos: QoS) -> NDArray[np.uint64]:
    """The number of packets that the policer dropped since the previous point: uint64 [points]."""
    if qos.element_series is None:
        raise EmulationError(f"{qos.scenario}: expected a run with points over time, got none")
    return qos.element_series.dropped[:, [element.name for element in qos.elements].index("policer")]


def constant_spans(values: Values, begin: int = 0) -> Iterator[tuple[int, int]]:
    """The spans of equal values [n] from index begin on: the first index of each, and the first one after it.

    The last span ends at the last index, which does not count to it.
    """
    return pairwise([begin, *(begin + 1 + np.flatnonzero(np.diff(values[begin:]))), len(values) - 1])


def first_constant_s(time_s: Values, values: Values, *, least_s: float, from_s: float) -> float:
    """The first time from from_s on at which values [n] begin to stay constant for least_s.

    NaN: this never happens.
    """
    if not np.isfinite(from_s):
        return float("nan")
    for first, end in constant_spans(values, int(np.searchsorted(time_s, from_s))):
        if time_s[end] - time_s[first] >= least_s:
            return float(time_s[first])
    return float("nan")


class View:
    """The campaign's results at one access rate."""

    def __init__(self, results: RtcpResults, access_mbps: float) -> None:
        self.settings = results.settings
        self._results, self._access_mbps = results, access_mbps
        self.sizes = self.settings.sizes_bytes
        self.large = self.sizes[1:]
        self.rtts_ms = self.settings.policing.longer_rtts_ms

    def rate(self, cca: Cca, size_bytes: int, rtt_ms: float | None = None) -> Values:
        """Retransmission rates, one for each seed."""
        return self._get(cca, str(size_bytes), rtt_ms, "retransmission_rate")

    def goodput(self, cca: Cca, size_bytes: int, rtt_ms: float | None = None) -> Values:
        """Goodput over R, one for each seed."""
        return self._get(cca, str(size_bytes), rtt_ms, "goodput_mbps") / self.settings.policed.rate_mbps

    def moment(self, cca: Cca, name: str, rtt_ms: float | None = None) -> Values:
        """A moment, one for each seed."""
        return self._get(cca, "moments", rtt_ms, name)

    def _get(self, cca: Cca, value: str, rtt_ms: float | None, column: str) -> Values:
        place = f"{self._access_mbps:g}-{rtt_ms or self.settings.policed.rtt_ms:g}"
        return self._results.get(Cell("policing", place, cca, value), column)


def views_of(results: RtcpResults) -> dict[str, View]:
    """The results at each access rate."""
    return {f"{rate:g} Mbit/s": View(results, rate) for rate in sorted(results.settings.access_mbps)}


def words_of(settings: RtcpSettings) -> dict[str, str]:
    """The sizes that the names in the statements' words stand for."""
    sizes = [megabytes(size) for size in settings.sizes_bytes]
    return {"small": sizes[0], "first": sizes[1], "second": sizes[min(2, len(sizes) - 1)], "last": sizes[-1]}


def named(cca: Cca, size_bytes: int) -> str:
    """The label of a figure: the algorithm and the file's size."""
    return f"{NAMES[cca]} {megabytes(size_bytes)}"


def rates(ccas: Sequence[Cca], sizes: slice, *, least: float = -math.inf, most: float = math.inf) -> Figures:
    """The retransmission rate of each of these algorithms and sizes."""
    return lambda view: [
        within(named(cca, size), view.rate(cca, size), least=least, most=most)
        for cca in ccas
        for size in view.sizes[sizes]
    ]


def goodputs(sizes: slice, *, least: float) -> Figures:
    """The goodput of each algorithm with these sizes, over R."""
    return lambda view: [
        within(named(cca, size), view.goodput(cca, size), least=least, unit="R")
        for cca in CCAS
        for size in view.sizes[sizes]
    ]


def moments(ccas: Sequence[Cca], label: str, name: str, *, least: float = -math.inf, most: float = math.inf,
            unit: str = "%") -> Figures:  # fmt: skip
    """A moment of each of these algorithms."""
    return lambda view: [
        within(f"{NAMES[cca]} {label}", view.moment(cca, name), least=least, most=most, unit=unit) for cca in ccas
    ]


# --- section 3.1 -----------------------------------------------------------------------------------------------------


def high_rates(view: View) -> list[Figure]:
    return [*rates(CCAS, FIRST, least=HIGH)(view), *rates(CCAS, LAST, least=NORMAL)(view)]


def falling(view: View) -> list[Figure]:
    return [
        below(named(cca, larger), view.rate(cca, larger), view.rate(cca, smaller))
        for cca in CCAS
        for smaller, larger in pairwise(view.large)
    ]


def version_1_lower(view: View) -> list[Figure]:
    over = {s: quotients(view.rate("bbr", s), view.rate("bbr3", s)) for s in view.large}
    figures = [within(named("bbr", s) + " over v3", over[s], most=MARKEDLY, unit="x") for s in view.large]
    at_most_sizes = 2 * sum(figure.agrees for figure in figures) > len(figures)
    return [replace(figure, agrees=at_most_sizes) for figure in figures]


def cubic_lowest(view: View) -> list[Figure]:
    return [
        below(named("cubic", s), view.rate("cubic", s), np.minimum(view.rate("bbr", s), view.rate("bbr3", s)))
        for s in view.large
    ]


# --- Appendix A ------------------------------------------------------------------------------------------------------


def paces_above(view: View) -> list[Figure]:
    pacing = view.moment("bbr3", "pacing_mbps") / view.settings.policed.rate_mbps
    return [within(f"{NAMES['bbr3']} pacing", pacing, least=1, unit="R")]


def same_goodput(view: View) -> list[Figure]:
    over = {s: quotients(view.goodput("bbr3", s), view.goodput("bbr", s)) for s in view.large}
    return [within(named("bbr3", s) + " over v1", over[s], least=0.9, most=1.1, unit="x") for s in view.large]


# --- Appendix B: BBRv1 -----------------------------------------------------------------------------------------------


def at_rtt(size_bytes: int, rtt_ms: float) -> str:
    return f"{megabytes(size_bytes)} {rtt_ms:g} ms"


def rates_at_rtts(sizes: slice, *, least: float = -math.inf, most: float = math.inf) -> Figures:
    return lambda view: [
        within(at_rtt(s, r), view.rate("bbr", s, r), least=least, most=most)
        for s in view.sizes[sizes]
        for r in view.rtts_ms
    ]


def longer_is_higher(view: View) -> list[Figure]:
    return [
        below(f"{at_rtt(s, near)}, {far:g} ms {100 * view.rate('bbr', s, far).mean():.1f} %:",
              view.rate("bbr", s, near), view.rate("bbr", s, far))
        for s in view.large[1:] for near, far in pairwise(view.rtts_ms)
    ]  # fmt: skip


def longer_is_lower(view: View) -> list[Figure]:
    s = view.large[0]
    return [
        below(at_rtt(s, far), view.rate("bbr", s, far), view.rate("bbr", s, near))
        for near, far in pairwise(view.rtts_ms)
    ]


def detects_later(view: View) -> list[Figure]:
    rtts = view.rtts_ms
    took = {r: view.moment("bbr", "detection_s", r) - view.moment("bbr", "loss_s", r) for r in rtts}
    shortest = within(f"{rtts[0]:g} ms", took[rtts[0]], unit="s")
    return [shortest, *(above(f"{far:g} ms", took[far], took[near], unit="s") for near, far in pairwise(rtts))]


def goodput_at_rtts(view: View) -> list[Figure]:
    return [
        within(at_rtt(s, r), view.goodput("bbr", s, r), least=0.9, unit="R") for s in view.large for r in view.rtts_ms
    ]


POLICING: tuple[Statement[View], ...] = (
    Statement("3.1-1", "{small}, less than the bucket, retransmits a negligible part", "< 1 %",
              rates(CCAS, SMALL, most=NORMAL)),
    Statement("3.1-2", "{small} passes at full speed", "goodput > 2 R", goodputs(SMALL, least=2)),
    Statement("3.1-3", "From {first} on retransmission is very high", "{first} >= 10 %, {last} > 1 %", high_rates),
    Statement("3.1-4", "BBRv3 retransmits more than half at {first}", "> 50 %", rates(["bbr3"], FIRST, least=0.5)),
    Statement("3.1-5", "Retransmission falls with larger files", "each at most the size before", falling),
    Statement("3.1-6", "BBRv1 is markedly below BBRv3 in most cases", "< 0.8 x at more than half of the sizes",
              version_1_lower),
    Statement("3.1-7", "CUBIC retransmits least", "below both BBRs at each size", cubic_lowest),
    Statement("3.1-8", "CUBIC retransmits 15 % at {first}", "10 to 20 %", rates(["cubic"], FIRST, least=0.1, most=0.2)),
    Statement("3.1-9", "Goodput hardly suffers", ">= 0.9 R at each size", goodputs(LARGE, least=0.9)),
    Statement("4.1-1", "BBRv1 retransmits 9 % at {last}", "7 to 11 %", rates(["bbr"], LAST, least=0.07, most=0.11)),
    Statement("4.1-2", "CUBIC retransmits 5 % at {last}", "3 to 7 %", rates(["cubic"], LAST, least=0.03, most=0.07)),
    Statement("talk-1", "BBRv3 retransmits more than a tenth at {last}", "> 10 %", rates(["bbr3"], LAST, least=0.1)),
    Statement("A-1", "No loss until the bucket is empty, at about 0.4 s; then a burst", "0.2 to 0.6 s",
              moments(["bbr", "bbr3"], "first drop", "loss_s", least=0.2, most=0.6, unit="s")),
    Statement("A-2", "BBRv1's window falls to what is in flight", "< 50 % of what it was",
              moments(["bbr"], "cwnd 2 RTTs later", "window_share", most=0.5)),
    Statement("A-3", "BBRv3's window stays at the unlimited link's", "> 5 R RTT",
              moments(["bbr3"], "cwnd 2 RTTs later", "window_bdps", least=5, unit="R RTT")),
    Statement("A-4", "BBRv1 detects the limit at about 0.7 s", "0.5 to 0.9 s",
              moments(["bbr"], "paces at a constant rate from", "detection_s", least=0.5, most=0.9, unit="s")),
    Statement("A-5", "BBRv3 keeps pacing above R", "> R", paces_above),
    Statement("A-6", "BBRv3 has BBRv1's goodput", "within 10 %", same_goodput),
    Statement("B-1", "BBRv1: {small} has no retransmission at any RTT", "< 0.05 %", rates_at_rtts(SMALL, most=NONE)),
    Statement("B-2", "BBRv1: files beyond the bucket retransmit much at any RTT", "> 1 %",
              rates_at_rtts(LARGE, least=NORMAL)),
    Statement("B-3", "BBRv1: from {second} on a longer RTT retransmits more", "each at least the RTT before",
              longer_is_higher),
    Statement("B-4", "BBRv1: at {first} a longer RTT retransmits less", "each at most the RTT before", longer_is_lower),
    Statement("B-5", "BBRv1: a longer RTT takes longer to detect the limit",
              "each at least the RTT before, from the first drop on", detects_later),
    Statement("B-6", "BBRv1: goodput is near R at every RTT", ">= 0.9 R", goodput_at_rtts),
)  # fmt: skip


def rates_table(results: RtcpResults) -> list[str]:
    """Mean retransmission rates in percent at the operator's RTT, with a row for each access rate and algorithm."""
    sizes = results.settings.sizes_bytes
    rows = [
        (at if cca == CCAS[0] else "", NAMES[cca],
         *(f"{100 * view.rate(cca, size).mean():.1f}" for size in sizes))
        for at, view in views_of(results).items() for cca in CCAS
    ]  # fmt: skip
    return markdown_table(("access", "algorithm", *megabytes_of(sizes)), rows)


def draw(results: RtcpResults) -> Picture:
    """The retransmission rate over the file size, with a row of panels for each RTT and a column for each access rate.

    A line is an algorithm's mean over the seeds, and its shade is the 95 % interval of that mean.
    """
    settings = results.settings
    rtts_ms, columns = settings.policed_rtts_ms, len(settings.access_mbps)
    figure = new_figure(1.5 + 3.1 * columns, 1.2 + 2.0 * len(rtts_ms))
    panels = figure.subplots(len(rtts_ms), columns, sharex=True, sharey=True, squeeze=False)
    for row, rtt_ms in zip(panels, rtts_ms, strict=True):
        for axes, view in zip(row, views_of(results).values(), strict=True):
            for cca, colour in zip(CCAS, PALETTE, strict=False):
                rates = [view.rate(cca, size, rtt_ms) for size in settings.sizes_bytes]
                bucket_bytes = settings.policed.bucket_bytes
                draw_rates(axes, settings.sizes_bytes, rates, name=NAMES[cca], bucket_bytes=bucket_bytes, color=colour,
                           marker=MARKS[cca], ms=4, **STYLE)  # fmt: skip
            axes.label_outer()
        row[0].set_ylabel(f"RTT {rtt_ms:g} ms\nretransmitted (%)", color=INK)
    for axes, at in zip(panels[0], views_of(results), strict=True):
        axes.set_title(f"access {at}", color=INK, fontsize=10)
    panels[0][0].set_ylim(bottom=0)  # the panels share this axis, so that it covers the data of all
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure
