# SPDX-License-Identifier: MIT
"""Draws the report's picture, with a panel for each part that was run.

    halved     smoothed RTT over time, in one run of each algorithm on the first link, with the middle buffer
    recorded   distribution of smoothed RTTs over all runs, in a stationary and a mobile panel
    share      share of one flow beside one flow of ROCCET, over its equal share, by buffer

A shade is a 95 % interval.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from emulation.errors import EmulationError
from emulation.figure import PALETTE, new_figure
from emulation.run.plot import FAINT, INK, STYLE, check_path, save
from emulation.run.simulator import simulate
from experiments.roccet.cases import KINDS, RIVALS, made_cases
from experiments.roccet.made import NAMES
from experiments.roccet.runs import SERIES_EVERY_S, Results, column
from experiments.roccet.settings import RoccetSettings, named_scenarios
from training.intervals import interval_of

__all__ = ["draw", "make_figure"]

COLOURS = dict(zip(("roccet", "cubic", "bbr", "bbr3"), PALETTE, strict=False)) | {"held": FAINT}
SMOOTH = {**STYLE, "lw": 1.2}


def draw(settings: RoccetSettings, results: Results, *, path: Path) -> None:
    """Draw the parts that were run into a .png, .svg or .pdf file.

    Raises:
        EmulationError: the file has another extension, or cannot be written.
    """
    check_path(path)
    save(make_figure(settings, results), path=path)


def make_figure(settings: RoccetSettings, results: Results) -> Figure:
    """The figure, with a panel for each part that was run. The part `frozen` has none."""
    panels: list[partial[None]] = []
    if any(name.endswith("-held") for name in results):
        panels.append(partial(_halved, settings=settings))
    panels += [partial(_recorded, results=results, kind=kind) for kind in KINDS if f"{kind}-roccet" in results]
    if any(name.endswith("-beside-1") for name in results):
        panels.append(partial(_shares, settings=settings, results=results))
    if not panels:
        raise EmulationError("report: expected halved, recorded or share to draw, got frozen alone")
    rows, columns = (2, 2) if len(panels) == 4 else (1, len(panels))
    figure = new_figure(5 * columns, 0.6 + 3.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=True):
        panel(axes)
        axes.grid(color=FAINT, alpha=0.25, lw=0.6)
        axes.legend(frameon=False, fontsize=8, **LEGENDS.get(panel.func, {}))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


def _halved(axes: Axes, *, settings: RoccetSettings) -> None:
    name, scenario = next(iter(named_scenarios(settings.halved.scenarios).items()))
    products = settings.halved.buffers_bdp[len(settings.halved.buffers_bdp) // 2]
    at = f"{name}-{products:g}bdp-".replace(".", "-")
    for case in made_cases(settings, "halved"):
        if not case.name.startswith(at):
            continue
        scheme = case.name.removeprefix(at)
        qos = simulate(case.scenarios[0], series_every_s=SERIES_EVERY_S)
        time_s, rtts_ms = (column(qos, column_name, 0, scenario.duration_s)
                           for column_name in ("time_s", "smoothed_rtt_ms"))  # fmt: skip
        axes.plot(time_s, rtts_ms, color=COLOURS[scheme], label=NAMES[scheme],
                  **{**SMOOTH, "ls": "--" if scheme == "held" else "-"})  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    low_ms, high_ms = axes.get_ylim()
    axes.set_ylim(low_ms, 2 * high_ms)  # the legend stands above the lines
    axes.yaxis.set_major_locator(LogLocator(base=2, subs=(0.9375,)))  # 30, 60, 120 and so on
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}"))
    axes.set(xlabel="time (s)", ylabel="smoothed RTT (ms)")
    axes.set_title(f"{scenario.link.steps[0].rate_mbps:g} to {scenario.link.steps[1].rate_mbps:g} Mbit/s, "
                   f"{scenario.link.rtt_ms:g} ms, {products:g} BDP", color=INK, fontsize=10)  # fmt: skip


def _recorded(axes: Axes, *, results: Results, kind: str) -> None:
    for scheme in ("roccet", *RIVALS):
        samples_ms = np.sort(results[f"{kind}-{scheme}"]["rtts_ms"].ravel())
        axes.plot(samples_ms, np.arange(1, len(samples_ms) + 1) / len(samples_ms), color=COLOURS[scheme],
                  label=NAMES[scheme], **SMOOTH)  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}" if f"{ms:g}"[0] in "25" else ""))
    axes.set(xlabel="smoothed RTT (ms)", ylabel="share of the time", ylim=(0, 1))
    axes.set_title(f"{kind}, {len(results[f'{kind}-roccet']['goodput_mbps'])} runs", color=INK, fontsize=10)


def _shares(axes: Axes, *, settings: RoccetSettings, results: Results) -> None:
    name, scenario = next(iter(named_scenarios(settings.share.scenarios).items()))
    buffers = settings.share.buffers_bdp
    for cca in ("roccet", *RIVALS):
        cells = [results[f"{name}-{b:g}bdp".replace(".", "-") + f"-{cca}-beside-1"]["share"] * 2 for b in buffers]
        mean, half = (np.array([of(cell) for cell in cells]) for of in (np.mean, interval_of))
        axes.fill_between(buffers, mean - half, mean + half, color=COLOURS[cca], alpha=0.2, lw=0)
        axes.plot(buffers, mean, color=COLOURS[cca], marker="o", ms=4, label=NAMES[cca], **SMOOTH)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda bdp, _at: f"{bdp:g}"))
    axes.set(xlabel="buffer (BDP)", ylabel="share beside ROCCET / equal share", ylim=(0, 2.05))
    axes.set_title(f"{scenario.link.rate_mbps:g} Mbit/s, {scenario.link.rtt_ms:g} ms", color=INK, fontsize=10)


# Legends stand where the lines leave room.
LEGENDS: dict[Any, dict[str, Any]] = {_halved: {"loc": "upper left", "ncols": 3}, _shares: {"loc": "lower left"}}
