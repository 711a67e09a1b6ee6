# SPDX-License-Identifier: MIT
"""Figure 7 and Appendix G: the rate that BBRv1's own policer detector takes for R, and R-TCP's estimate of R.

    estimates   a file with BBRv1 and with R-TCP-BBRv1
    detector    a file with R-TCP-BBRv1 and the paper's probing, which observes (act 0) or acts. If it observes, BBRv1's
                packets are sent, and BBRv1's detector is not reset

    clean       the path of `files`
    held        a radio that holds data for 10 to 40 ms, instead of the jitter
    lossy       a link that loses 10 % of the packets

BBRv1 paces at 99 % of its detector's rate for 48 round trips (bbr1_lt.h). A run does not say when this is so.
Therefore a pacing rate counts if it stays the same for 48 RTTs while at least half of it arrives. Every other pacing
rate is changed earlier by BBRv1's gains, unless ACKs are missing. R-TCP's estimate counts while the client is
classified as limited. Both are divided by R, in wire bytes, at points EVERY_S apart up to the file's last ACK. A run
has these figures, or NaN without an estimate:

    error, above, spread   mean of |estimate - 1|; share of the points above 1.05; standard deviation. BBRv1's runs have
                           those of its detector, R-TCP's runs those of R-TCP
    lowest                 the lowest rate of BBRv1's detector
    first                  the error of R-TCP's first estimate
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import WIRE, FlowSpec, Scenario
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
PATHS: dict[str, Mapping[str, Any]] = {
    "clean": {}, "held": {"behind": (Clock(least_ms=10, most_ms=40),)}, "lossy": {"loss": 0.1},
}  # fmt: skip
FLOWS = {
    "estimates": {"plain": FlowSpec(cca="bbr", size_bytes=SIZE_BYTES),
                  "capped": FlowSpec(cca="rtcp_bbr", size_bytes=SIZE_BYTES)},
    "detector": {name: FlowSpec(cca="rtcp_bbr", size_bytes=SIZE_BYTES, params={"act": act, "probing": 1})
                 for act, name in enumerate(("watching", "acting"))},
}  # fmt: skip


def cases(kind: str, paths: tuple[str, str], settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """A file with each flow of a kind, behind each operator over each of the paths."""
    for path in paths:
        for place, limited in settings.limited.items():
            for name, flow in FLOWS[kind].items():
                yield case_of(
                    Cell(kind, place, flow.cca, f"{path}-{name}"), settings.seeds,
                    partial(_file, settings, limited, flow, path), every_s=EVERY_S, more=partial(_errors, limited),
                )  # fmt: skip


def _file(settings: RtcpSettings, limited: Limited, flow: FlowSpec, path: str, seed: int) -> Scenario:
    scenario = one_file(settings, limited, flow, SIZE_BYTES, seed)
    return scenario.model_copy(update={"link": scenario.link.model_copy(update=PATHS[path])})


def of_detector(limited: Limited, qos: QoS) -> Values:
    """The rate of BBRv1's detector over R, at the points of the series at which it is in use."""
    time_s, pacing_mbps, rate_mbps = (_until_end(qos, name) for name in ("time_s", "pacing_mbps", "rate_mbps"))
    found: Values = np.full(len(time_s), np.nan)
    for first, end in constant_spans(pacing_mbps):
        lasts = time_s[end] - time_s[first] >= ROUNDS * limited.rtt_ms / 1000
        if lasts and rate_mbps[first:end].mean() >= LEAST_ARRIVING * pacing_mbps[first]:
            found[first:end] = pacing_mbps[first] * WIRE / PACED / limited.rate_mbps
    return found[np.isfinite(found)]


def of_rtcp(limited: Limited, qos: QoS) -> Values:
    """R-TCP's estimate over R, at the points at which the client is classified as limited."""
    time_s = _until_end(qos, "time_s")
    found: Values = np.full(len(time_s), np.nan)
    for limit in qos.flows[0].limits:
        over = limit.bytes_per_s * 8e-6 * WIRE / limited.rate_mbps
        found[time_s >= limit.at_ms / 1000] = over if limit.kind == "limited" else np.nan
    return found[np.isfinite(found)]


def _until_end(qos: QoS, column: str) -> Values:
    values: Values = qos.series[column][qos.series["time_s"] <= (qos.flows[0].complete_s or np.inf)]
    return values


def _errors(limited: Limited, scenario: Scenario, qos: QoS) -> Row:
    own, of_r = of_detector(limited, qos), of_rtcp(limited, qos)
    found = own if scenario.flows[0].cca == "bbr" else of_r
    return {
        "error": float(np.abs(found - 1).mean()) if len(found) else np.nan,
        "above": float((found > 1 + MOST_ERROR).mean()) if len(found) else np.nan,
        "spread": float(found.std()) if len(found) else np.nan,
        "lowest": float(own.min()) if len(own) else np.nan,
        "first": float(abs(of_r[0] - 1)) if len(of_r) else np.nan,
    }


def _pair(results: RtcpResults, kind: str, place: str, column: str, path: str = "clean") -> list[Values]:
    """A column of the runs of both flows of a kind."""
    return [results.get(Cell(kind, place, flow.cca, f"{path}-{name}"), column) for name, flow in FLOWS[kind].items()]


def more_often(results: RtcpResults) -> list[Figure]:
    """By how much the share of rates that are too high is larger behind op3 than behind each other operator."""
    shares = {place: _pair(results, "estimates", place, "above")[0] for place in results.settings.limited}
    if (of_op3 := shares.pop("op3", None)) is None:
        return []
    apart = [within(f"{100 * of_op3.mean():.1f} %, above {place} by", of_op3 - s) for place, s in shares.items()]
    return [replace(figure, agrees=figure.mean > figure.interval) for figure in apart]


def smaller(column: str) -> Callable[[RtcpResults], list[Figure]]:
    """R-TCP's figure behind each operator, compared seed by seed with that of BBRv1's detector."""

    def figures(results: RtcpResults) -> list[Figure]:
        pairs = {place: _pair(results, "estimates", place, column) for place in results.settings.limited}
        return [below(f"{place}, BBRv1 {100 * own.mean():.1f} %:", found, own) for place, (own, found) in pairs.items()]

    return figures


def retransmitted(results: RtcpResults) -> list[Figure]:
    if "op3" not in results.settings.limited:
        return []
    plain, capped = _pair(results, "estimates", "op3", "retransmission_rate")
    return [within(NAMES["rtcp_bbr"], capped, most=MOST_RETRANSMITTED), within(NAMES["bbr"], plain)]


def too_low(results: RtcpResults) -> list[Figure]:
    """The share of all runs in which BBRv1's detector uses less than LOW of R at any time; with loss it has no bound.

    A run in which the detector is never in use counts as one without such a rate.
    """
    figures = []
    for path, label in (("clean", "of all runs"), ("lossy", "with 10 % loss")):
        lowest = np.concatenate([_pair(results, "detector", place, "lowest", path)[0]
                                 for place in results.settings.limited])  # fmt: skip
        figure = share(f"{label} (lowest {np.fmin.reduce(lowest):.2f} R)", int((lowest < LOW).sum()), len(lowest))
        figures.append(replace(figure, agrees=figure.mean > 0 or path == "lossy"))
    return figures


def worse_without(results: RtcpResults) -> list[Figure]:
    """By how much the error is larger without the reset, a mean over the operators; with loss it has no bound."""
    figures = []
    for path, label in (("clean", "without, more by"), ("lossy", "with 10 % loss, more by")):
        errors = [_pair(results, "detector", place, "first", path) for place in results.settings.limited]
        without, with_it = np.mean(errors, axis=0)
        figure = within(f"{100 * without.mean():.1f} % {label}", without - with_it)
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
              "> 0, beyond the interval", worse_without),
)  # fmt: skip


def estimates_table(results: RtcpResults) -> list[str]:
    """Means in percent with a row for each path and operator: BBRv1's detector > R-TCP-BBRv1."""
    columns = ("error", "above", "spread", "retransmission_rate")
    rows = [
        (path, place, *(arrows(*_pair(results, "estimates", place, column, path)) for column in columns))
        for path in ("clean", "held") for place in results.settings.limited
    ]  # fmt: skip
    return markdown_table(("path", "operator", "error", "> 5 % above R", "standard deviation", "retransmitted"), rows)
