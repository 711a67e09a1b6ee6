# SPDX-License-Identifier: MIT
"""Draws the runs that verified an ensemble: the kernel's figure of each run over the simulator's of the same case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from emulation._plot import FAINT, FLOW_COLOURS, save

__all__ = ["draw"]

PANELS = (("throughput_mbps", "throughput (Mbit/s)"), ("delay_ms", "percentile of the queueing delay (ms)"))
SIDES = (("simulator", "the study's path"), ("simulated_path", "the path that Mahimahi provides"))


def draw(rows: Sequence[Mapping[str, Any]], *, path: Path) -> None:
    """Draw two panels into a .png, .svg or .pdf file; points on the line agree.

    Raises:
        EmulationError: the file cannot be written.
    """
    figure = Figure(figsize=(10, 4.6), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    runs = [run for row in rows for one in row["finalists"] for run in one["runs"]]
    for axes, (name, title) in zip(figure.subplots(1, 2), PANELS, strict=True):
        kernel = [run["kernel"][name] for run in runs]
        for (side, label), colour in zip(SIDES, FLOW_COLOURS, strict=False):
            axes.scatter([run[side][name] for run in runs], kernel, s=14, color=colour, label=label, alpha=0.8, lw=0)
        most = 1.05 * max([*kernel, *(run[side][name] for run in runs for side, _ in SIDES), 1e-3])
        axes.plot([0, most], [0, most], color=FAINT, lw=1)
        axes.set(xlim=(0, most), ylim=(0, most), xlabel=f"simulator: {title}", ylabel="kernel")
        axes.legend(loc="upper left", fontsize=8, frameon=False, title="simulated over", title_fontsize=8)
    save(figure, path=path)
