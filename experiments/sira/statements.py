# SPDX-License-Identifier: MIT
"""Statements of the SIRA-H paper on SIRA (section III), on SIRA-H (section V) and on mobile links (section IV.A).

The words are ours. The paper reduces a delay a to b "by a factor of" (a - b) / b: (203.7 - 17.8) / 17.8 = 10.4. Delays
and throughputs are means over the runs. Those of a run are over its packets. "Comparable" has a bound here.

Three statements do not hold of the paper's own figures: III-2 (1.465 of CUBIC), V-2 (3.03) and V-4 (93.6 %). Their
bounds are those of the words all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from emulation.traces import Recording
from experiments.campaign import Results, Values
from experiments.figures import Figure, Statement, above, below, sums_over, within
from experiments.sira.cases import MBPS, RULES, SIRA, SIRA_H, TCP
from experiments.sira.settings import SiraSettings
from training.intervals import interval_of

Get = Callable[[str, str], Values]  # a figure of an algorithm, one for each run
SiraResults = Results[SiraSettings]


def _get(results: SiraResults, at: str, rule: str, name: str, column: str) -> Values:
    return results.get(("flow", at, f"{name}, {rule}" if name == SIRA_H else name), column)


def table1_views(results: SiraResults) -> dict[str, Get]:
    """The figures of each place, without SIRA-H."""
    return {at: partial(_get, results, at, "") for at in results.settings.places}


def sira_h_views(results: SiraResults) -> dict[str, Get]:
    """The figures of each place, with SIRA-H by each rule."""
    return {f"{at}, {rule}": partial(_get, results, at, rule) for at in results.settings.places for rule in RULES}


def reduced(get: Get, *, column: str, by: float, of: str, than: Sequence[str]) -> list[Figure]:
    """Check the factor (a - b) / b by which an algorithm reduces the delay of others."""
    b = get(of, column)
    return [
        sums_over(f"{other} {get(other, column).mean():.1f} ms, {of} {b.mean():.1f} ms:", get(other, column) - b, b,
                  least=by)
        for other in than
    ]  # fmt: skip


def throughput_of(get: Get, *, of: str, than: Sequence[str], least: float, most: float = math.inf) -> list[Figure]:
    return [replace(sums_over(f"of {other}'s", get(of, "mbps"), get(other, "mbps"), least=least, most=most), unit="%")
            for other in than]  # fmt: skip


def in_bounds(get: Get, *, of: str, column: str, least: float = -math.inf, most: float = math.inf) -> list[Figure]:
    unit = "%" if column == "utilization" else "ms"
    return [within(of, get(of, column), least=least, most=most, unit=unit)]


def lowest(get: Get, *, of: str, others: Sequence[str], columns: Sequence[str]) -> list[Figure]:
    """Check that an algorithm's mean is below that of all others, of which the figure names the lowest one."""
    found = []
    for column in columns:
        rival = min(others, key=lambda name: float(get(name, column).mean()))
        unit = "Mbit/s" if column == "mbps" else "ms"
        label = f"{rival} {get(rival, column).mean():.2f}, {of}"
        found.append(below(label, get(of, column), get(rival, column), unit=unit))
    return found


def highest_use(get: Get, *, of: str, others: Sequence[str]) -> list[Figure]:
    rival = max(others, key=lambda name: float(get(name, "utilization").mean()))
    label = f"{rival} {100 * get(rival, 'utilization').mean():.1f}, {of}"
    return [above(label, get(of, "utilization"), get(rival, "utilization"))]


DELAYS = ("mean_ms", "p95_ms")
BY_FACTOR = "(a - b) / b >= {} x"
over_tcp = partial(reduced, of=SIRA, than=("CUBIC", "Reno"))
over_sira = partial(reduced, of=SIRA_H, than=(SIRA,))
TABLE1: tuple[Statement[Get], ...] = (
    Statement("III-1", "SIRA's mean queueing delay is lower than CUBIC's and Reno's by a factor of at least 1.37",
              BY_FACTOR.format(1.37), partial(over_tcp, column="mean_ms", by=1.37)),
    Statement("III-2", "The 95th percentile of its delay is lower than theirs by a factor of at least 1.47",
              BY_FACTOR.format(1.47), partial(over_tcp, column="p95_ms", by=1.47)),
    Statement("III-3", "Its throughput is comparable to theirs", "90 to 110 %",
              partial(throughput_of, of=SIRA, than=("CUBIC", "Reno"), least=0.9, most=1.1)),
    Statement("III-4", "It uses 96.3 % of the link", ">= 96.3 %",
              partial(in_bounds, of=SIRA, column="utilization", least=0.963)),
    Statement("III-5", "Vegas has the lowest delays and the lowest throughput", "below all others'",
              partial(lowest, of="Vegas", others=("CUBIC", "Reno", SIRA), columns=(*DELAYS, "mbps"))),
    Statement("V-1", "CUBIC uses most of the link", "above all others'",
              partial(highest_use, of="CUBIC", others=("Reno", "Vegas", SIRA))),
)  # fmt: skip
SIRA_H_OVER_SIRA: tuple[Statement[Get], ...] = (
    Statement("V-2", "The 95th percentile of SIRA-H's queueing delay is lower than SIRA's by a factor of over 3.9",
              BY_FACTOR.format(3.9), partial(over_sira, column="p95_ms", by=3.9)),
    Statement("V-3", "Its mean queueing delay is lower than SIRA's by a factor of 10.4", BY_FACTOR.format(10.4),
              partial(over_sira, column="mean_ms", by=10.4)),
    Statement("V-4", "Its throughput is only 6 % lower", ">= 94 %",
              partial(throughput_of, of=SIRA_H, than=(SIRA,), least=0.94)),
    Statement("V-5", "The 95th percentile of its delay is within 100 ms", "<= 100 ms",
              partial(in_bounds, of=SIRA_H, column="p95_ms", most=100)),
    Statement("V-6", "Its mean queueing delay is 17.8 ms", "<= 17.8 ms",
              partial(in_bounds, of=SIRA_H, column="mean_ms", most=17.8)),
    Statement("V-7", "Its delays are the lowest", "below all others'",
              partial(lowest, of=SIRA_H, others=(*TCP, SIRA), columns=DELAYS)),
)  # fmt: skip


# --- section V.D -----------------------------------------------------------------------------------------------------

SYMBOLS = {"delay_threshold_us": "T", "queue_threshold_pkts": "L_q", "compensated_intervals": "L_u",
           "residuals": "L_U"}  # fmt: skip


@dataclass(frozen=True)
class Varied:
    """SIRA-H at one place with one rule, over the values of each parameter."""

    results: SiraResults
    at: str
    rule: str

    def get(self, parameter: str, value: int, column: str) -> Values:
        return self.results.get(("varied", self.at, self.rule, parameter, f"{value}"), column)


def varied_views(results: SiraResults) -> dict[str, Varied]:
    """Each place with each rule."""
    return {f"{at}, {rule}": Varied(results, at, rule) for at in results.settings.places for rule in RULES}


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
