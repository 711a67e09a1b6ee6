# SPDX-License-Identifier: MIT
"""Draws the retransmission rate over the file size, with a panel for each operator.

A line is a mean over the seeds, dashed without R-TCP and solid with it. Its shade is the 95 % interval of that mean. A
vertical line marks the bucket size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import FAINT, INK, check_path, save
from experiments.figures import UNVALIDATED
from experiments.rtcp.campaign import PAIRS, Results
from experiments.rtcp.statements.common import NAMES
from experiments.rtcp.statements.files import rate
from training.intervals import interval_of

__all__ = ["draw", "make_figure"]


def draw(results: Results, *, path: Path) -> None:
    """Draw the picture into a .png, .svg or .pdf file.

    Raises:
        EmulationError: the file has another extension, or cannot be written.
    """
    check_path(path)
    save(make_figure(results), path=path)


def make_figure(results: Results) -> Figure:
    """The figure, with a column for each operator."""
    places = list(results.settings.limited)
    figure = new_figure(max(1.5 + 3.1 * len(places), 7.0), 3.6)  # the legend takes 7 in
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for axes, place in zip(panels, places, strict=True):
        _panel(axes, results, place=place)
    panels[0].set_ylim(bottom=0)  # the panels share this axis, so that it covers the data of all
    panels[0].set_ylabel("retransmitted (%)", color=INK)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(PAIRS), frameon=False)
    return figure


def _panel(axes: Axes, results: Results, *, place: str) -> None:
    settings = results.settings
    limited = settings.limited[place]
    sizes_mb = np.array(settings.sizes_bytes) / 1e6
    for pair, colour in zip(PAIRS.items(), PALETTE, strict=False):
        for cca, style in zip(pair, ("--", "-"), strict=True):
            rates = [rate(results, place, cca, size) for size in settings.sizes_bytes]
            mean = 100 * np.array([values.mean() for values in rates])
            half = 100 * np.array([interval_of(values) for values in rates])
            name = NAMES[cca].replace(UNVALIDATED, " (unvalidated)")
            axes.fill_between(sizes_mb, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
            axes.plot(sizes_mb, mean, color=colour, ls=style, lw=1.6, marker="o", ms=3, label=name)
    axes.axvline(limited.bucket_bytes / 1e6, color=FAINT, lw=1, ls=(0, (2, 2)))
    axes.set_title(f"{place}: {limited.rate_mbps:g} Mbit/s, {limited.bucket_bytes / 1000:g} kB", color=INK, fontsize=10)
    axes.set_xlabel("file (MB)", color=INK)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes_mb.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda mb, _at: f"{mb:g}"))
    axes.grid(color=FAINT, alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
