# SPDX-License-Identifier: MIT
"""Draws the runs that verified an ensemble: the kernel's figure of each run over the simulator's of the same case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import FAINT, save

__all__ = ["draw"]

PANELS = (("throughput_mbps", "throughput (Mbit/s)"), ("delay_ms", "percentile of the queueing delay (ms)"))


def draw(rows: Sequence[Mapping[str, Any]], *, path: Path) -> None:
    """Draw two panels into a .png, .svg or .pdf file; points on the line agree.

    Raises:
        EmulationError: the file cannot be written.
    """
    figure = new_figure(10, 4.6)
    runs = [run for row in rows for one in row["finalists"] for run in one["runs"]]
    for axes, (name, title) in zip(figure.subplots(1, 2), PANELS, strict=True):
        simulator, kernel = ([run[side][name] for run in runs] for side in ("simulator", "kernel"))
        axes.scatter(simulator, kernel, s=14, color=PALETTE[0], alpha=0.8, lw=0)
        most = 1.05 * max([*kernel, *simulator, 1e-3])
        axes.plot([0, most], [0, most], color=FAINT, lw=1)
        axes.set(xlim=(0, most), ylim=(0, most), xlabel=f"simulator: {title}", ylabel=f"kernel: {title}")
    save(figure, path=path)
