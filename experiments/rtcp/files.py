# SPDX-License-Identifier: MIT
"""Statements of sections 3.1, 4.1 and 6.1: files, each with its own connection and a full bucket.

The reduction is 1 - R-TCP's retransmission rate over the base algorithm's, seed by seed. Means over the operators are
seed by seed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure as Picture

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import INK
from emulation.scenario.model import WIRE, Cca, FlowSpec, Scenario
from experiments.campaign import Case, Links, Values
from experiments.figures import (
    Figure,
    Statement,
    arrows,
    below,
    draw_rates,
    markdown_table,
    megabytes,
    megabytes_of,
    quotients,
    within,
)
from experiments.rtcp.cells import ALL, BASES, LEAST_GOODPUT, NAMES, NONE, PAIRS, Cell, RtcpResults, case_of, one_file
from experiments.rtcp.settings import RtcpSettings

SAME = 0.1  # largest reduction, or increase, that counts as "similar"


def cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each size, algorithm and operator."""
    for place in settings.limited:
        for cca in ALL:
            for size in settings.sizes_bytes:
                scenario = partial(_file, settings, place, cca, size)
                yield case_of(Cell("files", place, cca, str(size)), settings.seeds, scenario)


def _file(settings: RtcpSettings, place: str, cca: Cca, size_bytes: int, seed: int) -> Scenario:
    flow = FlowSpec(cca=cca, size_bytes=size_bytes)
    return one_file(settings, settings.limited[place], flow, size_bytes, seed)


def rate(results: RtcpResults, place: str, cca: Cca, size_bytes: int) -> Values:
    """Retransmission rates of a file, one for each seed."""
    return results.get(Cell("files", place, cca, str(size_bytes)), "retransmission_rate")


def reduction(results: RtcpResults, place: str, cca: Cca, size_bytes: int) -> Values:
    """1 - R-TCP's retransmission rate over the base algorithm's, seed by seed; cca: the variant of R-TCP."""
    return 1 - quotients(rate(results, place, cca, size_bytes), rate(results, place, BASES[cca], size_bytes))


def mean_reduction(results: RtcpResults, cca: Cca, size_bytes: int) -> Values:
    """The mean reduction over the operators, seed by seed."""
    values: Values = np.mean([reduction(results, place, cca, size_bytes) for place in results.settings.limited], axis=0)
    return values


def baseline(cca: Cca, place: str, *, least: float, most: float = 1.0) -> Callable[[RtcpResults], list[Figure]]:
    """The unmodified algorithm's retransmission rate for the largest file; no figure if the operator is not run."""

    def figures(results: RtcpResults) -> list[Figure]:
        if place not in results.settings.limited:
            return []
        values = rate(results, place, cca, results.settings.sizes_bytes[-1])
        return [within(f"{NAMES[cca]} {place}", values, least=least, most=most)]

    return figures


def reduced_by(cca: Cca, least: float) -> Callable[[RtcpResults], list[Figure]]:
    """The mean reduction over the operators, for the largest file.

    The other figures are the reductions behind each operator, which have no bound.
    """

    def figures(results: RtcpResults) -> list[Figure]:
        size = results.settings.sizes_bytes[-1]
        of_each = [within(place, reduction(results, place, cca, size)) for place in results.settings.limited]
        return [within(f"{NAMES[cca]} mean", mean_reduction(results, cca, size), least=least), *of_each]

    return figures


def same_goodput(results: RtcpResults) -> list[Figure]:
    figures = []
    for plain, capped in PAIRS.items():
        for place in results.settings.limited:
            over = [
                quotients(*(results.get(Cell("files", place, cca, str(size)), "goodput_mbps")
                            for cca in (capped, plain)))
                for size in results.settings.sizes_bytes
            ]  # fmt: skip
            worst = min(over, key=lambda values: float(values.mean()))
            figures.append(within(f"{NAMES[capped]} {place}", worst, least=LEAST_GOODPUT))
    return figures


def within_the_bucket(results: RtcpResults) -> list[Figure]:
    settings = results.settings
    return [
        within(f"{NAMES[cca]} {place} {megabytes(size)}", rate(results, place, cca, size), most=NONE)
        for cca in BASES for place, limited in settings.limited.items() for size in settings.sizes_bytes
        if size * WIRE * 1.05 < limited.bucket_bytes
    ]  # fmt: skip


def grows_with_size(results: RtcpResults) -> list[Figure]:
    sizes = [size for size in results.settings.sizes_bytes
             if all(size > limited.bucket_bytes for limited in results.settings.limited.values())]  # fmt: skip
    return [
        below(f"{NAMES[cca]} {megabytes(smaller)}", mean_reduction(results, cca, smaller),
              mean_reduction(results, cca, larger))
        for cca in BASES for smaller, larger in pairwise(sizes)
    ]  # fmt: skip


def similar_at_first(results: RtcpResults) -> list[Figure]:
    place, limited = next(iter(results.settings.limited.items()))
    first = next((size for size in results.settings.sizes_bytes if size > limited.bucket_bytes), None)
    if first is None:
        return []
    return [within(f"{NAMES[cca]} {place} {megabytes(first)}", reduction(results, place, cca, first),
                   least=-SAME, most=SAME) for cca in BASES]  # fmt: skip


FILES: tuple[Statement[RtcpResults], ...] = (
    Statement("4.1-1", "Unmodified BBRv1 retransmits 9 % of the largest file behind op1", "7 to 11 %",
              baseline("bbr", "op1", least=0.07, most=0.11)),
    Statement("4.1-2", "Unmodified CUBIC retransmits 5 % of it", "3 to 7 %",
              baseline("cubic", "op1", least=0.03, most=0.07)),
    Statement("talk-1", "Unmodified BBRv3 retransmits more than a tenth of it", "> 10 %",
              baseline("bbr3", "op1", least=0.1)),
    Statement("6.1-1", "Unmodified BBRv1 retransmits 8.6 % of it behind op2", "7 to 11 %",
              baseline("bbr", "op2", least=0.07, most=0.11)),
    Statement("6.1-2", "Unmodified BBRv1 retransmits 23.2 % of it behind op3", "19 to 27 %",
              baseline("bbr", "op3", least=0.19, most=0.27)),
    Statement("6.1-3", "R-TCP retransmits 57 % less than CUBIC of the largest file, mean of the operators",
              ">= 57 %", reduced_by("rtcp_cubic", 0.57)),
    Statement("6.1-4", "and 80 % less than BBRv1", ">= 80 %", reduced_by("rtcp_bbr", 0.80)),
    Statement("6.1-5", "and 76 % less than BBRv3", ">= 76 %", reduced_by("rtcp_bbr3", 0.76)),
    Statement("6.1-6", "Goodput stays within 5 % of the unmodified version's; the worst size of each",
              ">= 95 %", same_goodput),
    Statement("6.1-7", "Less with smaller files", "each at most the size above", grows_with_size),
    Statement("6.1-8", "Similar to the unmodified version at the first size beyond the bucket of op1",
              "-10 to 10 %", similar_at_first),
    Statement("6.1-9", "Little to no retransmission of a file that the bucket holds", "< 0.05 %",
              within_the_bucket),
)  # fmt: skip


def files_table(results: RtcpResults) -> list[str]:
    """Mean retransmission rates in percent, without R-TCP > with it.

    The table has a row for each operator and base algorithm.
    """
    sizes = results.settings.sizes_bytes
    rows = [
        (place, NAMES[pair[0]], *(arrows(*(rate(results, place, cca, size) for cca in pair)) for size in sizes))
        for place in results.settings.limited
        for pair in PAIRS.items()
    ]
    return markdown_table(("operator", "algorithm", *megabytes_of(sizes)), rows)


def draw(results: RtcpResults) -> Picture:
    """The retransmission rate over the file size, with a panel for each operator.

    A line is a mean over the seeds with its 95 % interval, dashed without R-TCP and solid with it.
    """
    settings = results.settings
    figure = new_figure(max(1.5 + 3.1 * len(settings.limited), 7.0), 3.6)  # the legend takes 7 in
    panels = figure.subplots(1, len(settings.limited), sharey=True, squeeze=False)[0]
    for axes, (place, limited) in zip(panels, settings.limited.items(), strict=True):
        for pair, colour in zip(PAIRS.items(), PALETTE, strict=False):
            for cca, style in zip(pair, ("--", "-"), strict=True):
                rates = [rate(results, place, cca, size) for size in settings.sizes_bytes]
                draw_rates(axes, settings.sizes_bytes, rates, name=NAMES[cca], bucket_bytes=limited.bucket_bytes,
                           color=colour, ls=style, lw=1.6, marker="o", ms=3)  # fmt: skip
        title = f"{place}: {limited.rate_mbps:g} Mbit/s, {limited.bucket_bytes / 1000:g} kB"
        axes.set_title(title, color=INK, fontsize=10)
    panels[0].set_ylim(bottom=0)  # the panels share this axis, so that it covers the data of all
    panels[0].set_ylabel("retransmitted (%)", color=INK)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(PAIRS), frameon=False)
    return figure
