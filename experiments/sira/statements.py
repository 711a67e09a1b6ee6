# SPDX-License-Identifier: MIT
"""Statements of the SIRA-H paper on SIRA (section III), on SIRA-H (section V) and on mobile links (section IV.A).

The words are ours. The paper reduces a delay a to b "by a factor of" (a - b) / b: (203.7 - 17.8) / 17.8 = 10.4. Delays
and throughputs are means over the runs, and a run's delay is that of its packets. "Comparable" throughput has a bound
here. V-2 has the paper's factor, and V-3 the one that follows from its own delays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from emulation.traces import Recording
from experiments.campaign import Results, Values
from experiments.figures import Figure, Statement, above, below, sums_over, within
from experiments.sira.cases import MBPS, RULES, SCHEMES, TCP
from experiments.sira.settings import SiraSettings
from training.intervals import interval_of

Get = Callable[[str, str], Values]  # a figure of an algorithm, one for each run
SiraResults = Results[SiraSettings]
SIRA, SIRA_H = SCHEMES


def flow_views(results: SiraResults) -> dict[str, Get]:
    """The figures of each place with each rule. The TCP variants are the same with both."""

    def get(place: str, rule: str, scheme: str, column: str) -> Values:
        return results.get(("flow", place, scheme, "" if scheme in TCP else rule), column)

    return {f"{place}, {rule}": partial(get, place, rule) for place in results.settings.places for rule in RULES}


def reduced(get: Get, column: str, *, by: float, of: str, than: str) -> Figure:
    """Check the factor (a - b) / b by which an algorithm reduces another one's delay."""
    much, little = get(than, column), get(of, column)
    return sums_over(f"{than} {much.mean():.0f} ms, {of} {little.mean():.0f} ms:", much - little, little, least=by)


def against_tcp(get: Get, *, column: str, by: float) -> list[Figure]:
    return [reduced(get, column, by=by, of=SIRA, than=than) for than in ("CUBIC", "Reno")]


def against_sira(get: Get, *, column: str, by: float) -> list[Figure]:
    return [reduced(get, column, by=by, of=SIRA_H, than=SIRA)]


def comparable(get: Get) -> list[Figure]:
    return [sums_over(f"over {its}'s", get(SIRA, "mbps"), get(its, "mbps"), least=0.9, most=1.1)
            for its in ("CUBIC", "Reno")]  # fmt: skip


def utilization(get: Get, *, of: str, least: float) -> list[Figure]:
    return [within(of, get(of, "utilization"), least=least)]


def vegas_least(get: Get) -> list[Figure]:
    return [
        below(f"{its} {get(its, column).mean():.{digits}f} {unit}, Vegas", get("Vegas", column), get(its, column),
              unit=unit)
        for column, unit, digits in (("mean_ms", "ms", 0), ("p95_ms", "ms", 0), ("mbps", "Mbit/s", 2))
        for its in ("CUBIC", "Reno", SIRA)
    ]  # fmt: skip


def cubic_most(get: Get) -> list[Figure]:
    return [above(f"{its} {get(its, 'mbps').mean():.2f}, CUBIC", get("CUBIC", "mbps"), get(its, "mbps"), unit="Mbit/s")
            for its in ("Reno", "Vegas", SIRA)]  # fmt: skip


def throughput_left(get: Get) -> list[Figure]:
    return [sums_over("of SIRA's", get(SIRA_H, "mbps"), get(SIRA, "mbps"), least=0.94)]


def at_most(get: Get, *, column: str, most: float) -> list[Figure]:
    return [within(SIRA_H, get(SIRA_H, column), most=most, unit="ms")]


def lowest_delays(get: Get) -> list[Figure]:
    return [
        below(f"{its} {name} {get(its, column).mean():.0f}, SIRA-H", get(SIRA_H, column), get(its, column), unit="ms")
        for column, name in (("mean_ms", "mean"), ("p95_ms", "p95")) for its in (*TCP, SIRA)
    ]  # fmt: skip


MEAN, P95 = partial(partial, column="mean_ms"), partial(partial, column="p95_ms")
TABLE1: tuple[Statement[Get], ...] = (
    Statement("III-1", "SIRA's mean queueing delay is lower than CUBIC's and Reno's by a factor of at least 1.37",
              "(a - b) / b >= 1.37 x", MEAN(against_tcp, by=1.37)),
    Statement("III-2", "Its 95th percentile is lower than theirs by a factor of at least 1.47", "(a - b) / b >= 1.47 x",
              P95(against_tcp, by=1.47)),
    Statement("III-3", "Its throughput is comparable to theirs", "0.9 to 1.1 x", comparable),
    Statement("III-4", "It uses 96.3 % of the link", ">= 96.3 %", partial(utilization, of=SIRA, least=0.963)),
    Statement("III-5", "Vegas has the lowest delays and the lowest throughput", "each below all others'", vegas_least),
    Statement("V-1", "CUBIC has the highest throughput", "above all others'", cubic_most),
)  # fmt: skip
SIRA_H_OVER_SIRA: tuple[Statement[Get], ...] = (
    Statement("V-2", "SIRA-H's 95th percentile of the queueing delay is lower than SIRA's by a factor of over 3.9",
              "(a - b) / b >= 3.9 x", P95(against_sira, by=3.9)),
    Statement("V-3", "The same, with the factor that the paper's delays of 363.3 and 90.2 ms give",
              "(a - b) / b >= 3.03 x", P95(against_sira, by=3.03)),
    Statement("V-4", "Its mean queueing delay is lower than SIRA's by a factor of 10.4", "(a - b) / b >= 10.4 x",
              MEAN(against_sira, by=10.4)),
    Statement("V-5", "Its throughput is only 6 % lower", ">= 0.94 x", throughput_left),
    Statement("V-6", "Its 95th percentile is within 100 ms", "<= 100 ms", P95(at_most, most=100)),
    Statement("V-7", "Its mean queueing delay is 17.8 ms", "<= 17.8 ms", MEAN(at_most, most=17.8)),
    Statement("V-8", "Its delays are the lowest of all", "each below all others'", lowest_delays),
)  # fmt: skip


# --- section V.D -----------------------------------------------------------------------------------------------------

SYMBOLS = {"delay_threshold_us": "T", "queue_threshold_pkts": "L_q", "compensated_intervals": "L_u",
           "residuals": "L_U"}  # fmt: skip


@dataclass(frozen=True)
class Varied:
    """SIRA-H at one place with one rule, over the values of each parameter."""

    results: SiraResults
    place: str
    rule: str

    def get(self, parameter: str, value: int, column: str) -> Values:
        return self.results.get(("varied", self.place, self.rule, parameter, f"{value}"), column)


def varied_views(results: SiraResults) -> dict[str, Varied]:
    """Each place with each rule."""
    return {f"{place}, {rule}": Varied(results, place, rule) for place in results.settings.places for rule in RULES}


def rises(label: str, values: Values, than: Values, *, unit: str = "%") -> Figure:
    """Check that `values - than`, paired by run, is above 0 by more than its interval. The figure shows the difference.

    A parameter without any effect therefore differs from the statement.
    """
    apart = values - than
    mean, interval = float(apart.mean()), interval_of(apart)
    return Figure(label, mean, interval, mean > interval, unit)


def raises_both(varied: Varied, *, parameter: str) -> list[Figure]:
    values = varied.results.settings.varied.values[parameter]
    ends = {name: [varied.get(parameter, value, name) for value in (values[-1], values[0])]
            for name in ("utilization", "p95_ms")}  # fmt: skip
    return [rises("utilization", *ends["utilization"]), rises("p95", *ends["p95_ms"], unit="ms")]


SENSITIVITY: tuple[Statement[Varied], ...] = tuple(
    Statement(f"V.D-{number}", f"A larger {symbol} raises the utilization and the 95th percentile of the delay",
              "largest value less the smallest, both > 0", partial(raises_both, parameter=parameter))
    for number, (parameter, symbol) in enumerate(SYMBOLS.items(), start=1)
)  # fmt: skip


# --- section IV.A ----------------------------------------------------------------------------------------------------

Segments = Sequence[Recording]


def variation_views(results: SiraResults) -> dict[str, Segments]:
    """The segments of each kind of links."""
    length_ms = round(1000 * results.settings.segment_s)
    kinds = results.links.recordings
    return {kind: [piece for one in its for piece in one.pieces(length_ms)] for kind, its in kinds.items()}


def share_below(segment: Recording, period_ms: int) -> float:
    """The share of neighbouring intervals of a segment whose rates differ by less than 1 Mbit/s."""
    mbps = segment.trace.bin_counts(period_ms) * MBPS * 1000 / period_ms
    return float((np.abs(np.diff(mbps)) < 1).mean())


def steady(segments: Segments, *, period_ms: int, least: float) -> list[Figure]:
    shares = np.array([share_below(segment, period_ms) for segment in segments])
    mean_mbps = np.mean([segment.trace.mean_rate_mbps for segment in segments])
    return [within(f"of {mean_mbps:.2f} Mbit/s", shares, least=least)]


VARIATION: tuple[Statement[Segments], ...] = tuple(
    Statement(f"IV-{number}", f"Rates of neighbouring intervals of {text} differ by less than 1 Mbit/s",
              f">= {100 * least:g} % of the time", partial(steady, period_ms=period_ms, least=least))
    for number, (text, period_ms, least) in enumerate((("1 s", 1000, 0.945), ("100 ms", 100, 0.563)), start=1)
)  # fmt: skip
