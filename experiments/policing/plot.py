# SPDX-License-Identifier: MIT
"""Draws the retransmission rate over the file size, with a panel for each RTT and access rate.

A line is an algorithm's mean over the seeds, and its shade is the 95 % interval of that mean. A vertical line marks the
bucket size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import FAINT, INK, STYLE, check_path, save
from experiments.figures import UNVALIDATED
from experiments.policing.campaign import CCAS, Case, Results
from experiments.policing.statements import NAMES
from training.intervals import interval_of

__all__ = ["draw", "make_figure"]

MARKS = dict(zip(CCAS, ("o", "s", "^"), strict=True))


def draw(results: Results, *, path: Path) -> None:
    """Draw the picture into a .png, .svg or .pdf file.

    Raises:
        EmulationError: the file has another extension, or cannot be written.
    """
    check_path(path)
    save(make_figure(results), path=path)


def make_figure(results: Results) -> Figure:
    """The figure, with a row of panels for each RTT and a column for each access rate."""
    settings = results.settings
    rtts_ms, rates = settings.all_rtts_ms, settings.access_mbps
    figure = new_figure(1.5 + 3.1 * len(rates), 1.2 + 2.0 * len(rtts_ms))
    panels = figure.subplots(len(rtts_ms), len(rates), sharex=True, sharey=True, squeeze=False)
    for row, rtt_ms in zip(panels, rtts_ms, strict=True):
        for axes, rate in zip(row, rates, strict=True):
            _panel(axes, results, access_mbps=rate, rtt_ms=rtt_ms)
        row[0].set_ylabel(f"RTT {rtt_ms:g} ms\nretransmitted (%)", color=INK)
    for axes, rate in zip(panels[0], rates, strict=True):
        axes.set_title(f"access {rate:g} Mbit/s", color=INK, fontsize=10)
    panels[0][0].set_ylim(bottom=0)  # the panels share this axis, so that it covers the data of all
    for axes in panels[-1]:
        axes.set_xlabel("file (MB)", color=INK)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def _panel(axes: Axes, results: Results, *, access_mbps: float, rtt_ms: float) -> None:
    settings = results.settings
    sizes_mb = np.array(settings.sizes_bytes) / 1e6
    for cca, colour in zip(CCAS, PALETTE, strict=False):
        cells = [results.files[Case(cca, access_mbps, rtt_ms, size)] for size in settings.sizes_bytes]
        mean = 100 * np.array([cell.retransmission_rate.mean() for cell in cells])
        half = 100 * np.array([interval_of(cell.retransmission_rate) for cell in cells])
        name = NAMES[cca].replace(UNVALIDATED, " (unvalidated)")
        axes.fill_between(sizes_mb, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
        axes.plot(sizes_mb, mean, color=colour, marker=MARKS[cca], ms=4, label=name, **STYLE)
    axes.axvline(settings.bucket_bytes / 1e6, color=FAINT, lw=1, ls=(0, (2, 2)))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes_mb.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda mb, _at: f"{mb:g}"))
    axes.grid(color=FAINT, alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
