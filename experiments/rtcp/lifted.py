# SPDX-License-Identifier: MIT
"""Appendix H: a limit that is raised during a download, or that ends or stays between two connections.

    lifted   a download behind a policer whose rate is raised. place: "limit" (that of Appendix H), or a rate and an RTT
             of the grid; value: the random loss, in percent. Its runs have two more figures: speed_mbps is the
             throughput from 3 s after the rise to the end of the run, and regained_s the time from the rise to the end
             of the first half second with at least half of the new limit (None: there is none)
    freed    a file behind a limit, and then a file to the same client without a limit. place: the rate; value: the RTT
    kept     as freed, but the limit stays, and the second file has the size of the first

A cell of the grid is qualified if at least 9 of 10 runs of the unmodified algorithm regain half of the new rate. In
such a cell R-TCP may be later: the median of its times less the median of the unmodified algorithm's is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import PathElement, Policer, RateStep, SteppedPolicer
from experiments.campaign import Case, Links, Values
from experiments.figures import Figure, Statement, quotients, share, within
from experiments.rtcp.cells import ALL, BASES, NAMES, Cell, RtcpResults, case_of, limited_link
from experiments.rtcp.settings import Lifted, RtcpSettings

AFTER_S = 3.0  # the speed is measured from this time after the limit was raised ...
FOR_S = 10.0  # ... to this time
FREED_S = 120.0  # length of the time without a limit
WINDOW_S = 0.5
LEAST_SPEED = 0.8  # smallest share of the unmodified algorithm's speed after the rise; "overlap" in Appendix H
MOST_REGAINED_S = 3.0
LEAST_QUALIFIED = 0.9  # smallest share of the unmodified algorithm's runs
MOST_LATER_S = 10.0
MOST_NEVER = 0.01  # largest share of R-TCP's runs in all qualified cells
MOST_FREED = 1.5  # times the unmodified algorithm's median, ...
MOST_FREED_S = 2.0  # ... plus this
MOST_KEPT = 0.3  # largest share of the unmodified algorithm's retransmission rate, if the limit stays


def lifted_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """The limit of Appendix H and the grid, with each algorithm and loss."""
    grid = settings.lifted.grid
    places = {f"{rate:g}-{rtt:g}": settings.lifted.at(rate, rtt) for rate in grid.rates_mbps for rtt in grid.rtts_ms}
    for place, lift in {"limit": settings.lifted, **places}.items():
        runs, watched_s = (settings.seeds, FOR_S) if place == "limit" else (grid.runs, grid.for_s)
        for cca in ALL:
            for loss in settings.lifted.losses:
                cell = Cell("lifted", place, cca, f"{100 * loss:g}")
                scenario = partial(_lifted, settings, lift, cca, loss, watched_s=watched_s)
                yield case_of(cell, runs, scenario, more=partial(_regained, lift))


def _lifted(settings: RtcpSettings, lift: Lifted, cca: Cca, loss: float, seed: int, *, watched_s: float) -> Scenario:
    """A download without end, measured from the time at which its limit is raised."""
    link = limited_link(settings, lift.policer, rtt_ms=lift.rtt_ms, access_mbps=lift.access_mbps, loss=loss)
    end_s = lift.at_s + watched_s
    return Scenario(link=link, flows=(FlowSpec(cca=cca),), duration_s=end_s, warmup_s=lift.at_s, window_s=WINDOW_S,
                    seed=seed)  # fmt: skip


def _regained(lift: Lifted, _scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    mbps = qos.windows.delivered_bytes * 8e-6 / WINDOW_S
    fast = np.flatnonzero(mbps >= lift.to_mbps / 2)
    return {
        "speed_mbps": float(mbps[round(AFTER_S / WINDOW_S) :].mean()),
        "regained_s": float(fast[0] + 1) * WINDOW_S if len(fast) else None,
    }


def between_connections(kind: str, settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each algorithm, rate and RTT, with a limit that ends ("freed") or stays ("kept") between two connections."""
    free = settings.freed
    for cca in ALL:
        for rate in free.rates_mbps:
            for rtt in free.rtts_ms:
                scenario = partial(_freed if kind == "freed" else _kept, settings, cca, rate, rtt)
                yield case_of(Cell(kind, f"{rate:g}", cca, f"{rtt:g}"), free.runs, scenario)


def _first_bytes(settings: RtcpSettings, rate_mbps: float) -> int:
    """The size of a file that empties the bucket and then takes limited_s at the rate."""
    return int(1.2 * settings.freed.bucket_bytes + rate_mbps * 1e6 / 8 * settings.freed.limited_s)


def _behind(settings: RtcpSettings, limit: PathElement, rtt_ms: float) -> LinkSpec:
    return limited_link(settings, limit, rtt_ms=rtt_ms, access_mbps=settings.freed.access_mbps)


def _kept(settings: RtcpSettings, cca: Cca, rate_mbps: float, rtt_ms: float, seed: int) -> Scenario:
    """Two connections behind a limit that stays. The second one starts idle_s after the end of the first one."""
    size_bytes, idle_s = _first_bytes(settings, rate_mbps), settings.second.idle_s
    limit = Policer(rate_mbps=rate_mbps, bucket_bytes=settings.freed.bucket_bytes)
    first = FlowSpec(cca=cca, size_bytes=size_bytes)
    later = FlowSpec(cca=cca, size_bytes=size_bytes, after=0, start_s=idle_s)
    most_s = 2 * (4 * size_bytes * 8e-6 / rate_mbps + 30) + idle_s
    link = _behind(settings, limit, rtt_ms)
    return Scenario(link=link, flows=(first, later), duration_s=most_s, seed=seed)


def _freed(settings: RtcpSettings, cca: Cca, rate_mbps: float, rtt_ms: float, seed: int) -> Scenario:
    """Two connections to a client. The limit ends when the second one starts."""
    free, first_bytes = settings.freed, _first_bytes(settings, rate_mbps)
    free_at_s = 1.3 * first_bytes * 8e-6 / rate_mbps + 1  # the first file takes less time, even with no bucket
    steps = (RateStep(at_s=0, rate_mbps=rate_mbps), RateStep(at_s=free_at_s, rate_mbps=100 * free.access_mbps))
    limit = SteppedPolicer(steps=steps, bucket_bytes=free.bucket_bytes)
    first = FlowSpec(cca=cca, size_bytes=first_bytes)
    later = FlowSpec(cca=cca, size_bytes=free.size_bytes, start_s=free_at_s)
    link = _behind(settings, limit, rtt_ms)
    return Scenario(link=link, flows=(first, later), duration_s=free_at_s + FREED_S, seed=seed)


def lifted(results: RtcpResults, cca: Cca, loss: float, column: str) -> Values:
    """A column of the downloads whose limit is raised, one for each seed."""
    return results.get(Cell("lifted", "limit", cca, f"{100 * loss:g}"), column)


def lifted_speed(results: RtcpResults) -> list[Figure]:
    return [
        within(f"{NAMES[cca]} {100 * loss:g} % loss",
               quotients(*(lifted(results, of, loss, "speed_mbps") for of in (cca, base))), least=LEAST_SPEED)
        for cca, base in BASES.items() for loss in results.settings.lifted.losses
    ]  # fmt: skip


def regained_s(results: RtcpResults, cca: Cca, loss: float) -> Values:
    """Seconds to half of the new limit, one for each seed. A run that does not reach it counts as FOR_S."""
    return np.nan_to_num(lifted(results, cca, loss, "regained_s"), nan=FOR_S)


def lifted_in_time(results: RtcpResults) -> list[Figure]:
    """The time of each variant of R-TCP, and of its unmodified algorithm, which has no bound."""
    figures = []
    for cca, base in BASES.items():
        for loss in results.settings.lifted.losses:
            label = f"{NAMES[cca]} {100 * loss:g} % loss"
            figures.append(within(label, regained_s(results, cca, loss), most=MOST_REGAINED_S, unit="s"))
            figures.append(within(NAMES[base], regained_s(results, base, loss), unit="s"))
    return figures


def grid_cells(results: RtcpResults, cca: Cca) -> list[tuple[str, Values, Values]]:
    """The qualified cells, each with a label and the times of R-TCP and of the unmodified algorithm.

    Each time is the number of seconds from the rise of the limit until the flow has half of the new rate, or infinity
    if it never has. cca: the variant of R-TCP.
    """
    grid, cells = results.settings.lifted.grid, []
    for loss in results.settings.lifted.losses:
        for rate in grid.rates_mbps:
            for rtt in grid.rtts_ms:
                place, value = f"{rate:g}-{rtt:g}", f"{100 * loss:g}"
                capped, plain = (
                    np.nan_to_num(results.get(Cell("lifted", place, of, value), "regained_s"), nan=np.inf)
                    for of in (cca, BASES[cca])
                )
                if np.isfinite(plain).mean() >= LEAST_QUALIFIED:
                    cells.append((f"{rate:g} Mbit/s {rtt:g} ms {value} % loss", capped, plain))
    return cells


def regained_later(results: RtcpResults) -> list[Figure]:
    """For each base algorithm, the cell in which R-TCP is latest, and the number of qualified cells."""
    figures = []
    for cca in BASES:
        cells = grid_cells(results, cca)
        if not cells:
            continue
        later = {label: _median(capped) - _median(plain) for label, capped, plain in cells}
        worst = max(later, key=lambda label: later[label])
        label = f"{NAMES[cca]} {len(cells)} cells, latest at {worst}"
        figures.append(Figure(label, later[worst], math.nan, later[worst] <= MOST_LATER_S, "s"))
    return figures


def _median(seconds: Values) -> float:
    """The median of seconds that may be infinite. The mean of two infinite values is infinite, not undefined."""
    ordered = np.sort(seconds)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def never_regained(results: RtcpResults) -> list[Figure]:
    """The share of R-TCP's runs, over all base algorithms together, that never reach half of the new rate."""
    runs = [capped for cca in BASES for _, capped, _ in grid_cells(results, cca)]
    if not runs:
        return []
    never = np.isinf(np.concatenate(runs))
    figure = share("of all", int(never.sum()), never.size)
    return [replace(figure, agrees=figure.mean <= MOST_NEVER)]


def freed_in_time(results: RtcpResults) -> list[Figure]:
    """For each base algorithm, the share of R-TCP's runs that take too long, and the slowest cell.

    The slowest cell is the one with the largest ratio of R-TCP's median to the base algorithm's.
    """
    free, figures = results.settings.freed, []
    for cca, base in BASES.items():
        over, worst = 0, (0.0, "")
        for rate in free.rates_mbps:
            for rtt in free.rtts_ms:
                capped, plain = (_freed_s(results, of, rate, rtt) for of in (cca, base))
                over += int((capped > MOST_FREED * np.median(plain) + MOST_FREED_S).sum())
                apart = float(np.median(capped) / np.median(plain))
                worst = max(worst, (apart, f"{rate:g} Mbit/s {rtt:g} ms"))
        cells = len(free.rates_mbps) * len(free.rtts_ms)
        late = share(f"{NAMES[cca]} later in", over, cells * free.runs)
        figures.append(replace(late, agrees=over == 0))
        figures.append(Figure(f"longest at {worst[1]}, times the base's", worst[0], math.nan, agrees=True, unit=""))
    return figures


def _freed_s(results: RtcpResults, cca: Cca, rate_mbps: float, rtt_ms: float) -> Values:
    """Seconds that the second connection takes, one for each run; infinite: it does not complete."""
    part = Cell("freed", f"{rate_mbps:g}", cca, f"{rtt_ms:g}")
    seconds = results.settings.freed.size_bytes * 8e-6 / results.get(part, "goodput_mbps")
    return np.where(results.get(part, "complete") == 1, seconds, np.inf)


def kept_limited(results: RtcpResults) -> list[Figure]:
    """For each base algorithm, R-TCP's retransmission rate over the base algorithm's.

    The figures are the mean over all cells, the number of cells above the bound, and the cell with the largest ratio.
    """
    free, figures = results.settings.freed, []
    for cca, base in BASES.items():
        ratios = {}
        for rate in free.rates_mbps:
            for rtt in free.rtts_ms:
                capped, plain = (
                    results.get(Cell("kept", f"{rate:g}", of, f"{rtt:g}"), "retransmission_rate") for of in (cca, base)
                )
                ratios[f"{rate:g} Mbit/s {rtt:g} ms"] = float(capped.mean() / plain.mean())
        worst = max(ratios, key=lambda place: ratios[place])
        over = sum(ratio > MOST_KEPT for ratio in ratios.values())
        figures.append(within(f"{NAMES[cca]} of the base's, mean of the cells", np.array([*ratios.values()]), unit="%"))
        figures.append(Figure(f"{over} of {len(ratios)} cells over {MOST_KEPT:.0%}, farthest at {worst}",
                              ratios[worst], math.nan, over == 0))  # fmt: skip
    return figures


LIFTED: tuple[Statement[RtcpResults], ...] = (
    Statement("H-1", "From 3 s after a limit's end on, its speed is that of the unmodified version",
              ">= 80 % of it", lifted_speed),
    Statement("H-2", "Half of the new limit is reached within 3 s", "<= 3 s; never counts as 10 s; half is ours",
              lifted_in_time),
    Statement("H-3", "Over the grid of rates and round trips R-TCP regains half of the new rate with its base",
              "median at most 10 s later where 9 of 10 runs of the base do", regained_later),
    Statement("H-4", "and hardly any of its runs never does", "<= 1 % of the runs within 60 s", never_regained),
)  # fmt: skip
FREED: tuple[Statement[RtcpResults], ...] = (
    Statement("H-5", "A second connection without the first one's limit takes hardly longer than its base",
              "every run <= 1.5 times the base's median + 2 s", freed_in_time),
)  # fmt: skip
KEPT: tuple[Statement[RtcpResults], ...] = (
    Statement("H-6", "A second connection behind a limit that stays retransmits little of what its base does",
              "< 30 % in each cell", kept_limited),
)  # fmt: skip
