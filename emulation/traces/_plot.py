# SPDX-License-Identifier: MIT
"""Draws recordings: the rate over time, and its variation at every time scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from emulation.figure import new_figure
from emulation.run.plot import save
from emulation.traces.recording import Recording
from emulation.traces.variation import variation_of

MOST_ROWS = 8
TITLE_CHARS = 100


def draw_recordings(recordings: Sequence[Recording], path: Path) -> None:
    """Draw one row for each of the first eight recordings; PNG, SVG or PDF by the name. Raises EmulationError."""
    shown = recordings[:MOST_ROWS]
    figure = new_figure(13, 2.6 * len(shown))
    grid = figure.subplots(len(shown), 2, width_ratios=(2.4, 1), squeeze=False)
    for (left, right), recording in zip(grid, shown, strict=True):
        mbps = recording.trace.bin_counts(1000) * 0.012
        left.fill_between(np.arange(len(mbps)), mbps, step="post", color="#1f6fb4", alpha=0.55, linewidth=0)
        left.axhline(recording.trace.mean_rate_mbps, color="#b03030", linestyle=":", linewidth=1)
        left.set(ylabel="Mbit/s", xlabel="time (s)", xlim=(0, max(len(mbps), 1)), ylim=(0, None))
        title = f"{recording.name}: mean {recording.trace.mean_rate_mbps:.2f} Mbit/s"
        left.set_title(textwrap.fill(title, TITLE_CHARS), fontsize=10)
        variation = variation_of(recording.trace)
        right.semilogx(variation.scale_ms / 1000, 100 * variation.deviation, color="#d98c21", marker="o", markersize=3)
        right.set(xlabel="time scale (s)", ylabel="variation (%)", ylim=(0, None))
        right.xaxis.set_major_formatter(FuncFormatter(lambda scale_s, _: f"{scale_s:g}"))
        right.xaxis.set_minor_formatter(NullFormatter())
        right.grid(alpha=0.25)
    save(figure, path=path)
