# SPDX-License-Identifier: MIT
"""Figure 7 and Appendix G: the rate that BBRv1's own policer detector takes for R, and R-TCP's estimate of R.

    estimates   files with BBRv1 and R-TCP-BBRv1, over the path of `files` and with a radio that holds data
    detector    files with R-TCP-BBRv1 and the paper's probing, over the path of `files` and with random loss. In half
                of them R-TCP only observes (act 0). Then BBRv1's packets are sent, and its detector is not reset

BBRv1 paces at 99 % of its detector's rate for 48 round trips (bbr1_lt.h). A run does not say when. So a pacing rate
counts that stays the same for 48 RTTs while at least half of it arrives. BBRv1's gains change all other rates within a
few rounds, unless ACKs are missing. R-TCP's estimate counts while the client is classified as limited. Both are over R,
in wire bytes, at points EVERY_S apart up to the file's last ACK. The figures of a run, None without an estimate:

    error, above, spread   mean of |estimate - 1|; share of the points above 1.05; standard deviation
    lowest, first          detector: the lowest rate of BBRv1's detector; |R-TCP's first estimate - 1|
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import WIRE, Cca, FlowSpec, Scenario
from emulation.scenario.path import Clock
from experiments.campaign import Case, Links, Row, Values
from experiments.figures import Figure, Statement, arrows, below, markdown_table, share, within
from experiments.rtcp.cells import MOST_ERROR, NAMES, Cell, RtcpResults, case_of, one_file
from experiments.rtcp.policing import constant_spans
from experiments.rtcp.settings import Limited, RtcpSettings

SIZE_BYTES = 4_000_000  # the size that section 6.1 names beside Figure 7
EVERY_S = 0.01
ROUNDS = 48
PACED = 0.99  # of the detector's rate
LEAST_ARRIVING = 0.5
LOW = 0.8  # "significantly lower"
MOST_RETRANSMITTED = 0.084
CCAS: tuple[Cca, ...] = ("bbr", "rtcp_bbr")
HELD = {"behind": (Clock(least_ms=10, most_ms=40),)}
LOSSY = {"loss": 0.1}
WATCHING, ACTING = "watching", "acting"


def estimate_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """A file with each algorithm behind each operator, over both paths."""
    for path, changed in (("clean", {}), ("held", HELD)):
        for place in settings.limited:
            for cca in CCAS:
                yield _case(settings, Cell("estimates", place, cca, path), FlowSpec(cca=cca), changed, _errors)


def detector_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """A file behind each operator, over both paths, with and without the reset of section 4.4."""
    for path, changed in (("clean", {}), ("lossy", LOSSY)):
        for place in settings.limited:
            for act, does in enumerate((WATCHING, ACTING)):
                flow = FlowSpec(cca="rtcp_bbr", params={"act": act, "probing": 1})
                yield _case(settings, Cell("detector", place, "rtcp_bbr", f"{path}-{does}"), flow, changed, _begin)


def _case(
    settings: RtcpSettings, cell: Cell, flow: FlowSpec, changed: Mapping[str, Any],
    more: Callable[[Limited, Scenario, QoS], Row],
) -> Case:  # fmt: skip
    limited = settings.limited[cell.place]

    def scenario(seed: int) -> Scenario:
        file = one_file(settings, limited, flow.model_copy(update={"size_bytes": SIZE_BYTES}), SIZE_BYTES, seed)
        return file.model_copy(update={"link": file.link.model_copy(update=changed)})

    return case_of(cell, settings.seeds, scenario, every_s=EVERY_S, more=partial(more, limited))


def of_detector(limited: Limited, qos: QoS) -> Values:
    """The rate of BBRv1's detector over R while it is in use, at the points of the series up to the file's end."""
    time_s, pacing_mbps, rate_mbps = (_until_end(qos, name) for name in ("time_s", "pacing_mbps", "rate_mbps"))
    found: Values = np.full(len(time_s), np.nan)
    for first, end in constant_spans(pacing_mbps):
        lasts = time_s[end] - time_s[first] >= ROUNDS * limited.rtt_ms / 1000
        if lasts and rate_mbps[first:end].mean() >= LEAST_ARRIVING * pacing_mbps[first]:
            found[first:end] = pacing_mbps[first] * WIRE / PACED / limited.rate_mbps
    return found[np.isfinite(found)]


def of_rtcp(limited: Limited, qos: QoS) -> Values:
    """R-TCP's estimate of R over R, while the client is classified as limited, at these points."""
    time_s = _until_end(qos, "time_s")
    found: Values = np.full(len(time_s), np.nan)
    for limit in qos.flows[0].limits:
        over = limit.bytes_per_s * 8e-6 * WIRE / limited.rate_mbps
        found[time_s >= limit.at_ms / 1000] = over if limit.kind == "limited" else np.nan
    return found[np.isfinite(found)]


def _until_end(qos: QoS, column: str) -> Values:
    ends_s = qos.flows[0].complete_s or np.inf
    values: Values = qos.series[column][qos.series["time_s"] <= ends_s]
    return values


def _errors(limited: Limited, scenario: Scenario, qos: QoS) -> Row:
    found = (of_detector if scenario.flows[0].cca == "bbr" else of_rtcp)(limited, qos)
    if not len(found):
        return dict.fromkeys(("error", "above", "spread"))
    return {"error": float(np.abs(found - 1).mean()), "above": float((found > 1 + MOST_ERROR).mean()),
            "spread": float(found.std())}  # fmt: skip


def _begin(limited: Limited, _scenario: Scenario, qos: QoS) -> Row:
    own, found = of_detector(limited, qos), of_rtcp(limited, qos)
    return {"lowest": float(own.min()) if len(own) else None,
            "first": abs(float(found[0]) - 1) if len(found) else None}  # fmt: skip


def _pair(results: RtcpResults, place: str, column: str, path: str = "clean") -> tuple[Values, Values]:
    """A column of BBRv1's runs, and of R-TCP-BBRv1's."""
    own, found = (results.get(Cell("estimates", place, cca, path), column) for cca in CCAS)
    return own, found


def more_often(results: RtcpResults) -> list[Figure]:
    """By how much the share of too high rates behind op3 exceeds that behind each other operator."""
    shares = {place: _pair(results, place, "above")[0] for place in results.settings.limited}
    of_op3 = shares.pop("op3", None)
    if of_op3 is None:
        return []
    apart = [within(f"{100 * of_op3.mean():.1f} %, above {place} by", of_op3 - other)
             for place, other in shares.items()]  # fmt: skip
    return [replace(figure, agrees=figure.mean > figure.interval) for figure in apart]


def smaller(column: str) -> Callable[[RtcpResults], list[Figure]]:
    """R-TCP's figure behind each operator, compared seed by seed with that of BBRv1's detector."""

    def figures(results: RtcpResults) -> list[Figure]:
        pairs = {place: _pair(results, place, column) for place in results.settings.limited}
        return [below(f"{place}, BBRv1 {100 * own.mean():.1f} %:", found, own) for place, (own, found) in pairs.items()]

    return figures


def retransmitted(results: RtcpResults) -> list[Figure]:
    if "op3" not in results.settings.limited:
        return []
    own, found = _pair(results, "op3", "retransmission_rate")
    return [within(NAMES["rtcp_bbr"], found, most=MOST_RETRANSMITTED), within(NAMES["bbr"], own)]


def too_low(results: RtcpResults) -> list[Figure]:
    """The share of runs in which BBRv1's detector once uses less than LOW of R; with loss it has no bound."""
    figures = []
    for path, label in (("clean", "of all runs"), ("lossy", "with 10 % loss")):
        lowest = np.concatenate([results.get(Cell("detector", place, "rtcp_bbr", f"{path}-{WATCHING}"), "lowest")
                                 for place in results.settings.limited])  # fmt: skip
        figure = share(label, int((lowest < LOW).sum()), len(lowest))
        figures.append(replace(figure, agrees=figure.mean > 0 or path == "lossy"))
    return figures


def spared(results: RtcpResults) -> list[Figure]:
    """The error of R-TCP's first estimate without the reset less that with it, a mean over the operators.

    With loss it has no bound.
    """
    figures = []
    for path, label in (("clean", "less by"), ("lossy", "with 10 % loss by")):
        errors = [[results.get(Cell("detector", place, "rtcp_bbr", f"{path}-{does}"), "first")
                   for does in (WATCHING, ACTING)] for place in results.settings.limited]  # fmt: skip
        without, with_it = np.mean(errors, axis=0)
        figure = within(f"{100 * without.mean():.1f} %, {label}", without - with_it)
        figures.append(replace(figure, agrees=figure.mean > figure.interval or path == "lossy"))
    return figures


ESTIMATES: tuple[Statement[RtcpResults], ...] = (
    Statement("6.1-12", "BBRv1's own detector takes a rate more than 5 % above R for R more often behind op3",
              "> 0, beyond the interval", more_often),
    Statement("6.1-13", "R-TCP-BBRv1's estimates of R are more accurate (Figure 7): their mean error",
              "at most that of BBRv1's detector", smaller("error")),
    Statement("6.1-14", "and more consistent: their standard deviation", "at most that of BBRv1's detector",
              smaller("spread")),
    Statement("6.1-15", "With them R-TCP-BBRv1 retransmits 8.4 % of 4 MB behind op3", "<= 8.4 %", retransmitted),
)  # fmt: skip
DETECTOR: tuple[Statement[RtcpResults], ...] = (
    Statement("G-1", "BBRv1's own detector may use a rate far below R (Figure 16: 0.55 Mbit/s)",
              "< 80 % of R in some runs", too_low),
    Statement("G-2", "Unless R-TCP resets that detector (section 4.4), its own first estimate of R has a larger error",
              "> 0, beyond the interval", spared),
)  # fmt: skip


def estimates_table(results: RtcpResults) -> list[str]:
    """Means in percent with a row for each path and operator: BBRv1's detector > R-TCP-BBRv1."""
    columns = ("error", "above", "spread", "retransmission_rate")
    rows = [
        (path, place, *(arrows(*_pair(results, place, column, path)) for column in columns))
        for path in ("clean", "held") for place in results.settings.limited
    ]  # fmt: skip
    return markdown_table(("path", "operator", "error", "> 5 % above R", "standard deviation", "retransmitted"), rows)
