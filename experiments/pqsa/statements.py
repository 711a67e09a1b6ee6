# SPDX-License-Identifier: MIT
"""Statements of the PQSA paper (sections II and V), and two targets of this project, with the simulator's figures.

The wording is this project's. The paper's "close", "best", "similar" and "consistent" have bounds here.
The 95th percentile of
the delay is over the packets of all runs of a case, and its interval is a percentile bootstrap over runs. Throughputs
are sums over runs. All algorithms have the same links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from emulation.run.qos import Delays
from emulation.run.simulator import compact_edges_us
from experiments.campaign import Results, Values
from experiments.figures import BOOTSTRAP_SEED, Figure, Statement, above, half_of, share, sums_over, within
from experiments.pqsa.cases import GR, ONE_ROW, SHARED
from experiments.pqsa.settings import PqsaSettings
from training.intervals import drawn_percentiles, drawn_rows, drawn_weights

PqsaResults = Results[PqsaSettings]
Columns = Mapping[str, Values]
Cases = Mapping[str, Columns]  # by the last part of their keys: the algorithm, the target or the clock
Values2 = Mapping[str, Cases]  # by what was varied
SHARE = 95
CLOSE = 0.25  # the paper's epsilon: a delay further from its target makes a flow look its row up again
MOST_APART = 0.364  # in table IV, where a target of 50 ms gave 68.2 ms
LEAST_JAIN = 0.95


def views(results: PqsaResults, *, part: str) -> dict[str, Cases]:
    """The cases of a part by the middle of their keys, and then by the last part."""
    found: dict[str, dict[str, Columns]] = {}
    for (name, *at, last), columns in results.cases.items():
        if name == part:
            found.setdefault(", ".join(at), {})[last] = columns
    return dict(found)


def varied_views(results: PqsaResults, *, part: str) -> dict[str, Values2]:
    """The same in three steps: what was varied, its value, the algorithm."""
    found: dict[str, dict[str, Cases]] = {}
    for at, cases in views(results, part=part).items():
        varied, value = at.split(", ")
        found.setdefault(varied, {})[value] = cases
    return dict(found)


def p95_ms(case: Columns) -> tuple[float, Values]:
    """The 95th percentile of the delay over all packets, and its bootstrap draws."""
    counts, edges_us = case["delays"], compact_edges_us()
    drawn = drawn_percentiles(drawn_weights(len(counts), seed=BOOTSTRAP_SEED), counts, edges_us, share=SHARE / 100)
    return Delays(edges_us, counts.sum(axis=0).astype(np.int64)).percentile_ms(SHARE), drawn / 1000


def delay_near(label: str, case: Columns, *, target_ms: float, apart: float) -> Figure:
    """Check that the delay is within a share of its target, up to its interval, which must be no larger."""
    found_ms, drawn = p95_ms(case)
    half, most_ms = half_of(drawn), apart * target_ms
    return Figure(label, found_ms, half, half <= most_ms and abs(found_ms - target_ms) <= most_ms + half, "ms")


def delay_over(label: str, case: Columns, than: Columns, *, most: float = 1) -> Figure:
    """Check that the quotient of two delays is at most `most`, up to its interval."""
    (mine_ms, mine), (other_ms, others) = p95_ms(case), p95_ms(than)
    half = half_of(mine / others)
    return Figure(label, mine_ms / other_ms, half, mine_ms / other_ms <= most + half, "x")


def near_target(cases: Cases, *, label: str = "p95", apart: float = CLOSE) -> list[Figure]:
    return [delay_near(label, cases[GR], target_ms=100, apart=apart)]


def outperforms(cases: Cases) -> list[Figure]:
    """No other algorithm may have both a shorter delay and more throughput."""
    found = []
    for name in (name for name in cases if name != GR):
        delay = delay_over(f"p95 over {name}'s", cases[GR], cases[name])
        carried = sums_over(f"throughput over {name}'s", cases[GR]["mbps"], cases[name]["mbps"], least=1)
        either = delay.agrees or carried.agrees
        found += [replace(delay, agrees=either), replace(carried, agrees=either)]
    return found


def carries(cases: Cases, *, of: str, least: float = 0.9) -> list[Figure]:
    return [sums_over(f"over {of}'s", cases[GR]["mbps"], cases[of]["mbps"], least=least)]


def near_at_each(by_value: Values2) -> list[Figure]:
    return [figure for value, cases in by_value.items() for figure in near_target(cases, label=f"{value}:")]


def steadier(by_hour: Values2) -> list[Figure]:
    """Check that the delays of two hours differ by a smaller factor than another algorithm's do, if there are two."""
    hours = list(by_hour.values())
    if len(hours) < 2:
        return []
    names = [name for name in hours[0] if name != GR]
    own, drawn = _spread([p95_ms(cases[GR]) for cases in hours])
    found = []
    for name in names:
        other, its = _spread([p95_ms(cases[name]) for cases in hours])
        half = half_of(drawn - its)
        found.append(Figure(f"{name} {other:.2f}, {GR}", own, half, own <= other + half, "x"))
    return found


def _spread(delays: list[tuple[float, Values]]) -> tuple[float, Values]:
    """The largest of these delays over the smallest one, and its draws."""
    found, drawn = [ms for ms, _ in delays], np.array([draws for _, draws in delays])
    return max(found) / min(found), drawn.max(axis=0) / drawn.min(axis=0)


def low_rate(cases: Cases) -> list[Figure]:
    return [delay_over("p95 over bbr's", cases[GR], cases["bbr"]),
            within("below the bandwidth in", cases[GR]["below"], least=0.5)]  # fmt: skip


def each_target(cases: Cases) -> list[Figure]:
    return [delay_near(f"{target}:", case, target_ms=float(target), apart=MOST_APART) for target, case in cases.items()]


def stringent(cases: Cases) -> list[Figure]:
    first, *others = cases
    return [sums_over(f"{first} over {ms} ms", cases[first]["mbps"], cases[ms]["mbps"], most=1) for ms in others]


DEFAULT = "epoch 30 s"


def longer(cases: Cases, *, names: tuple[str, ...], with_delay: bool = False) -> list[Figure]:
    """Check that these clocks carry less than the default one, by more than the interval, and with a shorter delay."""
    found = []
    for name in names:
        found += [delay_over(f"{name}: p95", cases[name], cases[DEFAULT])] if with_delay else []
        found += [sums_over(f"{name}: throughput", cases[name]["mbps"], cases[DEFAULT]["mbps"], most=1)]
    return [replace(figure, agrees=figure.mean + figure.interval < 1) for figure in found]


def converges(cases: Cases) -> list[Figure]:
    return [share(name, int(np.isfinite(times).sum()), len(times), least=0.95)
            for name in (GR, "bbr") for times in [cases[name]["converged_s"]]]  # fmt: skip


def as_fair_as_bbr(cases: Cases) -> list[Figure]:
    label = f"bbr {cases['bbr']['jain'].mean():.3f}, {GR}"
    return [above(label, cases[GR]["jain"], cases["bbr"]["jain"], unit="")]


def shares_equally(cases: Cases) -> list[Figure]:
    figure = within(SHARED, cases[SHARED]["jain"], least=LEAST_JAIN, unit="")
    return [replace(figure, agrees=figure.mean >= LEAST_JAIN)]


def use_at(cases: Cases, rows: NDArray[np.int64]) -> float:
    """The use of the link that a share gain adds at the delay without it, on these runs.

    It is interpolated between the thresholds with a share gain; outside of them the nearest one counts.
    """
    found = {}
    for name, case in cases.items():
        counts = case["delays"][rows].sum(axis=0).astype(np.int64)
        found[name] = Delays(compact_edges_us(), counts).percentile_ms(SHARE), float(case["utilization"][rows].mean())
    delay_ms, used = found.pop(GR)
    delays_ms, uses = zip(*sorted(found.values()), strict=True)
    return float(np.interp(delay_ms, delays_ms, uses)) - used


def carries_as_much(cases: Cases) -> list[Figure]:
    runs = len(cases[GR]["utilization"])
    added = use_at(cases, np.arange(runs))
    half = half_of(np.array([use_at(cases, rows) for rows in drawn_rows(runs, seed=BOOTSTRAP_SEED)]))
    return [Figure("use of the link, points added", added, half, added >= -half)]


NEAR = f"within {100 * CLOSE:g} %"
QOS: tuple[Statement[Cases], ...] = (
    Statement("V.B-1", "PQSA-GR's 95th percentile of the queueing delay is close to its target of 100 ms", NEAR,
              near_target),
    Statement("V.B-2", "It outperforms all others", "for each a shorter delay or more throughput", outperforms),
    Statement("V.C-1", "Its throughput is comparable to that of others", ">= 90 % of CUBIC's",
              partial(carries, of="cubic")),
)  # fmt: skip
HOURS: tuple[Statement[Values2], ...] = (
    Statement("V.C-2", "Its delay in each hour is close to the target", NEAR, near_at_each),
    Statement("V.C-3", "The delays of others vary more from hour to hour", "largest over smallest", steadier),
)
VARIED: tuple[Statement[Values2], ...] = (
    Statement("V.C-4", "Its delay does not depend on the RTT, the buffer or the duration", NEAR, near_at_each),
)
LEVELS: tuple[Statement[Mapping[str, Cases]], ...] = (
    Statement("V.D-1", "At level 0 its delay is shorter than BBR's, and it mostly sends at less than the bandwidth",
              "<= 1 x, >= 50 % of the time", lambda levels: low_rate(levels["low"]) if "low" in levels else []),
    Statement("V.D-2", "At high levels it sends as aggressively as BBR", ">= 90 % of BBR's throughput",
              lambda levels: carries(levels["high"], of="bbr") if "high" in levels else []),
)  # fmt: skip
TARGETS: tuple[Statement[Cases], ...] = (
    Statement("IV-1", "Its delay is reasonably close to each target", f"within {100 * MOST_APART:g} %, as in the paper",
              each_target),
    Statement("IV-2", "A stringent target costs throughput", "<= 1 x", stringent),
)  # fmt: skip
EPOCHS: tuple[Statement[Cases], ...] = (
    Statement("V-1", "An epoch that never ends has a shorter delay and less throughput than epochs of 30 s", "< 1 x",
              partial(longer, names=("epoch 240 s",), with_delay=True)),
    Statement("V-2", "Longer epochs than 30 s have less throughput", "< 1 x",
              partial(longer, names=("epoch 60 s", "epoch 120 s"))),
    Statement("V-3", "One row for all levels has less throughput than a row for each", "< 1 x",
              partial(longer, names=(ONE_ROW,))),
)  # fmt: skip
FAIRNESS: tuple[Statement[Cases], ...] = (
    Statement("V.D-3", "Flows of PQSA-GR, and flows of BBR, reach the fair share", "95 % of the runs", converges),
    Statement("V.D-4", "PQSA-GR's fairness is similar to BBR's", "Jain's index >= BBR's", as_fair_as_bbr),
    Statement("target-1", "With a share gain and the same row, flows with the same RTT share the link equally",
              f"Jain's index >= {LEAST_JAIN}", shares_equally),
)  # fmt: skip
PATHS: tuple[Statement[Cases], ...] = (
    Statement("target-2", "At the same 95th percentile of the delay a share gain costs no use of the link", ">= 0",
              carries_as_much),
)  # fmt: skip
