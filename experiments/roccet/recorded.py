# SPDX-License-Identifier: MIT
"""Statements of the ROCCET paper on live networks (sections VI and VII), judged on recorded links.

Quantiles are those of smoothed RTTs pooled over all runs. The goodputs of two algorithms are compared run by run, on
the same links. The 95 % intervals are percentile bootstraps over runs (Efron, Tibshirani 1993, chapter 13). Where two
algorithms ran over the same links, the interval is that of their difference. `target` marks a requirement of this
project that the paper does not state.

DEVIATION: the paper measures two 5G networks whose links are not available. The links here are 4G links recorded in one
place ("stationary") and 3G and 4G links recorded while driving ("mobile"). Their RTT and buffer are choices of this
project.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from experiments.campaign import Results, Values
from experiments.figures import BOOTSTRAP_SEED, Figure, Statement, half_of, sums_over
from experiments.roccet.cases import KINDS
from experiments.roccet.made import NAMES, Get, of_scheme
from experiments.roccet.settings import RoccetSettings
from kmod.terminal import counted
from training.intervals import drawn_rows

Place = tuple[str, Get]  # the kind of links, and the figures on them
RTTS, MAXIMA, GOODPUT = "rtts_ms", "rtt_max_ms", "goodput_mbps"


def quantile_below(label: str, values: Values, share: float, than: Values, than_share: float) -> Figure:
    """Check that a quantile of pooled samples is below another one, up to the interval of the difference.

    values, than: [runs, samples], a row for each run.
    """
    figure, apart, half = _quantiles(label, values, share, than, than_share)
    return replace(figure, agrees=apart <= half)


def quantile_near(label: str, values: Values, share: float, than: Values, *, within_share: float) -> Figure:
    """Check that two quantiles of pooled samples differ by at most a share of the second one.

    within_share: this share. The difference may exceed it by its interval.
    """
    figure, apart, half = _quantiles(label, values, share, than, share)
    return replace(figure, agrees=abs(apart) <= within_share * float(np.quantile(than, share)) + half)


def _quantiles(
    label: str, values: Values, share: float, than: Values, than_share: float
) -> tuple[Figure, float, float]:
    """A figure of the first quantile, the difference of the two, and the interval of the difference."""
    here, there = float(np.quantile(values, share)), float(np.quantile(than, than_share))
    drawn = drawn_rows(len(values), seed=BOOTSTRAP_SEED)
    half = half_of(np.array([np.quantile(values[rows], share) - np.quantile(than[rows], than_share) for rows in drawn]))
    return Figure(f"{label} {there:.1f}:", here, half, agrees=False, unit="ms"), here - there, half


def _below(get: Get, share: float, rival: str, than_share: float) -> Figure:
    label = f"ROCCET {_named(share)}, {NAMES[rival]} {_named(than_share)}"
    return quantile_below(label, get("roccet", RTTS), share, get(rival, RTTS), than_share)


def _named(share: float) -> str:
    return "median" if share == 0.5 else f"p{100 * share:g}"


def _longest_below(get: Get, label: str, than_ms: float) -> Figure:
    """Check the longest RTT of all runs. It has no interval, because it is a single sample."""
    longest_ms = float(get("roccet", MAXIMA).max())
    return Figure(f"ROCCET max, {label} {than_ms:.1f}:", longest_ms, math.nan, longest_ms <= than_ms, "ms")


def all_below_first_quartile(get: Get) -> list[Figure]:
    return [_longest_below(get, "CUBIC p25", float(np.quantile(get("cubic", RTTS), 0.25)))]


def below_bbr3_median(get: Get) -> list[Figure]:
    return [_below(get, 0.75, "bbr3", 0.5)]


def cubic_has_more(get: Get) -> list[Figure]:
    return [sums_over("CUBIC's over ROCCET's", get("cubic", GOODPUT), get("roccet", GOODPUT), least=1)]


def goodput_like_bbr3(get: Get) -> list[Figure]:
    return [sums_over("ROCCET's over BBRv3's*", get("roccet", GOODPUT), get("bbr3", GOODPUT), least=0.9, most=1.1)]


def below_cubic_p75(get: Get) -> list[Figure]:
    return [_below(get, 0.5, "cubic", 0.75), _below(get, 0.75, "cubic", 0.75), _below(get, 0.5, "cubic", 0.5)]


def below_bbr3_above(get: Get) -> list[Figure]:
    return [
        _below(get, 0.75, "bbr3", 0.75),
        _longest_below(get, f"{NAMES['bbr3']} max", float(get("bbr3", MAXIMA).max())),
    ]


def like_bbr3_below(get: Get) -> list[Figure]:
    return [
        quantile_near(f"ROCCET {_named(share)}, BBRv3*", get("roccet", RTTS), share, get("bbr3", RTTS),
                      within_share=0.2)
        for share in (0.25, 0.5)
    ]  # fmt: skip


def p75_below_median(get: Get) -> list[Figure]:
    return [_below(get, 0.75, "cubic", 0.5)]


def each_below(get: Get) -> list[Figure]:
    return [_below(get, 0.5, "cubic", 0.5), _below(get, 0.75, "cubic", 0.75)]


def goodput_of_bbr(get: Get) -> list[Figure]:
    mine = get("roccet", GOODPUT)
    return [sums_over(f"{NAMES[rival]}", mine, get(rival, GOODPUT), least=0.9) for rival in ("bbr", "bbr3")]


STATIONARY: tuple[Statement[Get], ...] = (
    Statement("VI-1", "All of ROCCET's smoothed RTTs are below CUBIC's first quartile", "max < p25",
              all_below_first_quartile),
    Statement("VI-2", "75 % of ROCCET's smoothed RTTs are below BBRv3's median", "p75 < median", below_bbr3_median),
    Statement("VI-3", "CUBIC's goodput is higher", ">= 1 x", cubic_has_more),
    Statement("VI-4", "ROCCET's and BBRv3's goodput are nearly the same", "0.9 to 1.1 x", goodput_like_bbr3),
    Statement("target-3a", "ROCCET's 75th percentile is below CUBIC's median", "p75 < median", p75_below_median),
    Statement("target-3b", "ROCCET's goodput is at least 90 % of BBR's", ">= 0.9 x", goodput_of_bbr),
)  # fmt: skip
MOBILE: tuple[Statement[Get], ...] = (
    Statement("VII-1", "ROCCET's median and 75th percentile are below CUBIC's 75th, its median below CUBIC's",
              "median and p75 < p75, median < median", below_cubic_p75),
    Statement("VII-2", "CUBIC's goodput is higher", ">= 1 x", cubic_has_more),
    Statement("VII-3", "ROCCET's 75th percentile and maximum are below BBRv3's", "p75 < p75, max < max",
              below_bbr3_above),
    Statement("VII-4", "ROCCET's 25th percentile and median are nearly BBRv3's", "within 20 %", like_bbr3_below),
    Statement("VII-5", "ROCCET and BBRv3 have nearly the same goodput", "0.9 to 1.1 x", goodput_like_bbr3),
    Statement("target-3c", "ROCCET's median and 75th percentile are each below CUBIC's", "median < median, p75 < p75",
              each_below),
    Statement("target-3d", "ROCCET's goodput is at least 90 % of BBR's", ">= 0.9 x", goodput_of_bbr),
)  # fmt: skip


def of_kind(kind: str, statement: Statement[Get]) -> Statement[Place]:
    """The statement with figures on one kind of links, and none on the other."""

    def figures(place: Place) -> list[Figure]:
        return statement.figures(place[1]) if place[0] == kind else []

    return Statement(statement.name, statement.words, statement.expected, figures)


RECORDED = (*(of_kind("stationary", one) for one in STATIONARY), *(of_kind("mobile", one) for one in MOBILE))


def recorded_views(results: Results[RoccetSettings]) -> dict[str, Place]:
    """The figures of both kinds of links."""
    runs = {kind: len(results.get(("recorded", kind, "roccet"), GOODPUT)) for kind in KINDS}
    return {
        f"{kind}, {counted(runs[kind], 'run')}": (kind, partial(of_scheme, results, "recorded", kind)) for kind in KINDS
    }
