# SPDX-License-Identifier: MIT
"""Draws Fig. 3 of the paper: throughput over mean queueing delay, and utilization over its 95th percentile.

A full mark is a mean over the runs on the links with the paper's rates, with its 95 % intervals. A hollow one is the
paper's. Better is up and to the left.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import INK
from experiments.figures import dress
from experiments.sira.cases import FLOWS, SIRA_H
from experiments.sira.statements import SiraResults
from training.intervals import interval_of

# Mean queueing delay (ms), its 95th percentile (ms), throughput (Mbit/s): Table 1 and section V.B.
PAPER = {
    "CUBIC": (483.1, 895.7, 6.77), "Reno": (520.2, 981.6, 6.30), "Vegas": (127.5, 211.4, 5.16),
    "SIRA": (203.7, 363.3, 6.67), SIRA_H: (17.8, 90.2, 6.24),
}  # fmt: skip
COLOURS = dict(zip(PAPER, PALETTE, strict=False))
MARKS = dict(zip(FLOWS, "ooooo^s", strict=True))


def draw(results: SiraResults) -> Figure:
    """The figure of the first place, with the algorithms that were run."""
    figure = new_figure(10, 4.2)
    at, mean_mbps = next(iter(results.settings.places)), results.settings.rates.mean_mbps
    for axes, delay in zip(figure.subplots(1, 2), ("mean_ms", "p95_ms"), strict=True):
        use, scale = ("mbps", 1) if delay == "mean_ms" else ("utilization", 100)
        for name in FLOWS:
            if (case := results.cases.get(("flow", at, name))) is not None:
                x, y = case[delay], scale * case[use]
                axes.errorbar(x.mean(), y.mean(), interval_of(y), interval_of(x), label=name, ms=6, ls="",
                              marker=MARKS[name], color=COLOURS[name.partition(",")[0]])  # fmt: skip
        for name, (mean_ms, p95_ms, mbps) in PAPER.items():
            point = (mean_ms, mbps) if use == "mbps" else (p95_ms, 100 * mbps / mean_mbps)
            axes.plot(*point, "D", ms=6, mfc="none", mec=COLOURS[name], label=f"{name}, paper")
        _finish(axes, delay=delay, use=use)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    return figure


def _finish(axes: Axes, *, delay: str, use: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{'mean' if delay == 'mean_ms' else '95th percentile of the'} queueing delay (ms)", color=INK)
    axes.set_ylabel("throughput (Mbit/s)" if use == "mbps" else "utilization (%)", color=INK)
    dress(axes)
