# SPDX-License-Identifier: MIT
"""Statements of R-TCP 2026 on TCP behind a policer, each as a predicate over the campaign's figures.

The words are ours, and the section is the paper's; `talk` is the paper's slides. A statement is judged at each access
rate by means over the seeds. A figure agrees if it misses a bound or a comparison by no more than its 95 % interval
(experiments/figures.py). Words of the paper such as "high", "markedly" and "similar" have a bound here, written
beside them.

Words and bounds name sizes of the settings: {small} is below the bucket, {first} and {second} are the first two beyond
it, and {last} is the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from experiments.campaign import Results, Values
from experiments.figures import UNVALIDATED, Figure, Statement, above, below, megabytes, quotients, within
from experiments.policing.cases import CCAS, Cca, PolicingSettings, file_key, moment_key

Figures = Callable[["View"], list[Figure]]
Sizes = Callable[["View"], Sequence[int]]

NORMAL = 0.01  # from the talk: a flow that retransmits less is not policed
HIGH = 0.10
NONE = 0.0005  # a smaller rate rounds to 0.0 %
MARKEDLY = 0.8
NAMES: dict[Cca, str] = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": f"BBRv3{UNVALIDATED}"}


class View:
    """The campaign's results at one access rate."""

    def __init__(self, results: Results[PolicingSettings], access_mbps: float) -> None:
        self.settings = results.settings
        self._results, self._access_mbps = results, access_mbps
        self.small, *self.large = self.settings.sizes_bytes
        self.rtts_ms = self.settings.longer_rtts_ms

    def rate(self, cca: Cca, size_bytes: int, rtt_ms: float | None = None) -> Values:
        """Retransmission rates, one for each seed."""
        return self._file(cca, size_bytes, rtt_ms, "retransmission_rate")

    def goodput(self, cca: Cca, size_bytes: int, rtt_ms: float | None = None) -> Values:
        """Goodput over R, one for each seed."""
        return self._file(cca, size_bytes, rtt_ms, "goodput_mbps") / self.settings.rate_mbps

    def moment(self, cca: Cca, name: str, rtt_ms: float | None = None) -> Values:
        """A moment, one for each seed."""
        return self._results.get(moment_key(cca, self._access_mbps, rtt_ms or self.settings.rtt_ms), name)

    def _file(self, cca: Cca, size_bytes: int, rtt_ms: float | None, column: str) -> Values:
        key = file_key(cca, self._access_mbps, rtt_ms or self.settings.rtt_ms, size_bytes)
        return self._results.get(key, column)


def named(cca: Cca, size_bytes: int) -> str:
    """The label of a figure: the algorithm and the file's size."""
    return f"{NAMES[cca]} {megabytes(size_bytes)}"


def small(view: View) -> Sequence[int]:
    """The size below the bucket."""
    return [view.small]


def first(view: View) -> Sequence[int]:
    """The first size beyond the bucket."""
    return view.large[:1]


def last(view: View) -> Sequence[int]:
    """The largest size."""
    return view.large[-1:]


def rates(ccas: Sequence[Cca], sizes: Sizes, *, least: float = -math.inf, most: float = math.inf) -> Figures:
    """The retransmission rate of each of these algorithms and sizes."""
    return lambda view: [
        within(named(cca, size), view.rate(cca, size), least=least, most=most) for cca in ccas for size in sizes(view)
    ]


def goodputs(sizes: Sizes, *, least: float) -> Figures:
    """The goodput of each algorithm with these sizes, over R."""
    return lambda view: [
        within(named(cca, size), view.goodput(cca, size), least=least, unit="R") for cca in CCAS for size in sizes(view)
    ]


def moments(ccas: Sequence[Cca], label: str, name: str, *, least: float = -math.inf, most: float = math.inf,
            unit: str = "%") -> Figures:  # fmt: skip
    """A moment of each of these algorithms."""
    return lambda view: [
        within(f"{NAMES[cca]} {label}", view.moment(cca, name), least=least, most=most, unit=unit) for cca in ccas
    ]


# --- section 3.1 -----------------------------------------------------------------------------------------------------


def high_rates(view: View) -> list[Figure]:
    return [*rates(CCAS, first, least=HIGH)(view), *rates(CCAS, last, least=NORMAL)(view)]


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
    pacing = view.moment("bbr3", "pacing_mbps") / view.settings.rate_mbps
    return [within(f"{NAMES['bbr3']} pacing", pacing, least=1, unit="R")]


def same_goodput(view: View) -> list[Figure]:
    over = {s: quotients(view.goodput("bbr3", s), view.goodput("bbr", s)) for s in view.large}
    return [within(named("bbr3", s) + " over v1", over[s], least=0.9, most=1.1, unit="x") for s in view.large]


# --- Appendix B: BBRv1 -----------------------------------------------------------------------------------------------


def at_rtt(size_bytes: int, rtt_ms: float) -> str:
    return f"{megabytes(size_bytes)} {rtt_ms:g} ms"


def rates_at_rtts(sizes: Sizes, *, least: float = -math.inf, most: float = math.inf) -> Figures:
    return lambda view: [
        within(at_rtt(s, r), view.rate("bbr", s, r), least=least, most=most) for s in sizes(view) for r in view.rtts_ms
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


STATEMENTS: tuple[Statement[View], ...] = (
    Statement("3.1-1", "{small}, less than the bucket, retransmits a negligible part", "< 1 %",
              rates(CCAS, small, most=NORMAL)),
    Statement("3.1-2", "{small} passes at full speed", "goodput > 2 R", goodputs(small, least=2)),
    Statement("3.1-3", "From {first} on retransmission is very high", "{first} >= 10 %, {last} > 1 %", high_rates),
    Statement("3.1-4", "BBRv3 retransmits more than half at {first}", "> 50 %", rates(["bbr3"], first, least=0.5)),
    Statement("3.1-5", "Retransmission falls with larger files", "each at most the size before", falling),
    Statement("3.1-6", "BBRv1 is markedly below BBRv3 in most cases", "< 0.8 x at more than half of the sizes",
              version_1_lower),
    Statement("3.1-7", "CUBIC retransmits least", "below both BBRs at each size", cubic_lowest),
    Statement("3.1-8", "CUBIC retransmits 15 % at {first}", "10 to 20 %", rates(["cubic"], first, least=0.1, most=0.2)),
    Statement("3.1-9", "Goodput hardly suffers", ">= 0.9 R at each size", goodputs(lambda view: view.large, least=0.9)),
    Statement("4.1-1", "BBRv1 retransmits 9 % at {last}", "7 to 11 %", rates(["bbr"], last, least=0.07, most=0.11)),
    Statement("4.1-2", "CUBIC retransmits 5 % at {last}", "3 to 7 %", rates(["cubic"], last, least=0.03, most=0.07)),
    Statement("talk-1", "BBRv3 retransmits more than a tenth at {last}", "> 10 %", rates(["bbr3"], last, least=0.1)),
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
    Statement("B-1", "BBRv1: {small} has no retransmission at any RTT", "< 0.05 %", rates_at_rtts(small, most=NONE)),
    Statement("B-2", "BBRv1: files beyond the bucket retransmit much at any RTT", "> 1 %",
              rates_at_rtts(lambda view: view.large, least=NORMAL)),
    Statement("B-3", "BBRv1: from {second} on a longer RTT retransmits more", "each at least the RTT before",
              longer_is_higher),
    Statement("B-4", "BBRv1: at {first} a longer RTT retransmits less", "each at most the RTT before", longer_is_lower),
    Statement("B-5", "BBRv1: a longer RTT takes longer to detect the limit",
              "each at least the RTT before, from the first drop on", detects_later),
    Statement("B-6", "BBRv1: goodput is near R at every RTT", ">= 0.9 R", goodput_at_rtts),
)  # fmt: skip
