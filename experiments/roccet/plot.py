# SPDX-License-Identifier: MIT
"""Draws the campaign's picture, with a panel for each part that was run.

    halved     smoothed RTT over time, in one run of each algorithm on the first link, with the middle buffer
    recorded   distribution of smoothed RTTs over all runs, in a stationary and a mobile panel
    share      share of one flow beside one flow of ROCCET, over its equal share, by buffer

A shade is a 95 % interval.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from emulation.figure import PALETTE, new_figure
from emulation.run.plot import FAINT, INK, STYLE
from emulation.run.simulator import simulate
from experiments.campaign import Results
from experiments.figures import dress
from experiments.roccet.cases import KINDS, RIVALS, SERIES_EVERY_S, column, halved_cases
from experiments.roccet.made import NAMES
from experiments.roccet.settings import RoccetSettings, named_scenarios
from experiments.roccet.share import share_views
from training.intervals import interval_of

COLOURS = dict(zip(("roccet", "cubic", "bbr", "bbr3"), PALETTE, strict=False)) | {"held": FAINT}
SMOOTH = {**STYLE, "lw": 1.2}


def draw(results: Results[RoccetSettings]) -> Figure:
    """The figure, with a panel for each part that was run. The part `frozen` has none."""
    parts = {key[0] for key in results.cases}
    panels: list[partial[None]] = [partial(_halved, settings=results.settings)] * ("halved" in parts)
    panels += [partial(_recorded, results=results, kind=kind) for kind in KINDS if "recorded" in parts]
    panels += [partial(_shares, results=results)] * ("share" in parts)
    rows, columns = (2, 2) if len(panels) == 4 else (1, len(panels))
    figure = new_figure(5 * columns, 0.6 + 3.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=True):
        panel(axes)
        dress(axes)
        axes.legend(frameon=False, fontsize=8, **LEGENDS.get(panel.func, {}))
    return figure


def _halved(axes: Axes, *, settings: RoccetSettings) -> None:
    name, scenario = next(iter(named_scenarios(settings.halved.scenarios).items()))
    products = settings.halved.buffers_bdp[len(settings.halved.buffers_bdp) // 2]
    for case in halved_cases(settings):
        *place, scheme = case.key
        if place != ["halved", name, f"{products:g}"]:
            continue
        qos = simulate(case.scenarios()[0], series_every_s=SERIES_EVERY_S)
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


def _recorded(axes: Axes, *, results: Results[RoccetSettings], kind: str) -> None:
    for scheme in ("roccet", *RIVALS):
        samples_ms = np.sort(results.get(("recorded", kind, scheme), "rtts_ms").ravel())
        axes.plot(samples_ms, np.arange(1, len(samples_ms) + 1) / len(samples_ms), color=COLOURS[scheme],
                  label=NAMES[scheme], **SMOOTH)  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda ms, _at: f"{ms:g}" if f"{ms:g}"[0] in "25" else ""))
    axes.set(xlabel="smoothed RTT (ms)", ylabel="share of the time", ylim=(0, 1))
    axes.set_title(
        f"{kind}, {len(results.get(('recorded', kind, 'roccet'), 'goodput_mbps'))} runs", color=INK, fontsize=10
    )


def _shares(axes: Axes, *, results: Results[RoccetSettings]) -> None:
    at, link = next(iter(share_views(results).items()))
    buffers = link.settings.buffers_bdp
    for cca in ("roccet", *RIVALS):
        cells = [link.ratio(cca, buffer, 1) for buffer in buffers]
        mean, half = (np.array([of(cell) for cell in cells]) for of in (np.mean, interval_of))
        axes.fill_between(buffers, mean - half, mean + half, color=COLOURS[cca], alpha=0.2, lw=0)
        axes.plot(buffers, mean, color=COLOURS[cca], marker="o", ms=4, label=NAMES[cca], **SMOOTH)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda bdp, _at: f"{bdp:g}"))
    axes.set(xlabel="buffer (BDP)", ylabel="share beside ROCCET / equal share", ylim=(0, 2.05))
    axes.set_title(at, color=INK, fontsize=10)


# Legends stand where the lines leave room.
LEGENDS: dict[Any, dict[str, Any]] = {_halved: {"loc": "upper left", "ncols": 3}, _shares: {"loc": "lower left"}}
