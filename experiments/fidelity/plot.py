# SPDX-License-Identifier: MIT
"""Draws the errors of a campaign: a row for each scenario, a column for each metric, a mark for each algorithm.

A mark shows the error of the medians over the band that the target allows. A bar shows the range of the kernel's own
runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from emulation.figure import columns_that_fit, new_figure
from experiments.fidelity.judge import METRICS, Comparison, Error
from kmod.abi import ALGORITHMS

# Colours of Okabe and Ito 2008, which colour-blind readers can distinguish.
PALETTE = ("#CC79A7", "#009E73", "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#999999")
COLOURS = dict(zip(ALGORITHMS, PALETTE, strict=False))
OTHER = "#000000"
BAND, FAINT, INK = "#DDEBDD", "#8A939E", "#333A44"
ROW_IN = 0.4
UNITS = {"throughput": "%", "queueing_delay": "ms", "retransmissions": "points"}
# Errors up to these limits are drawn on a linear scale, larger ones on a logarithmic one.
LINEAR = {"throughput": 10.0, "queueing_delay": 10.0, "retransmissions": 2.0}


def errors_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Return the picture of the errors of at least one case."""
    names = list(dict.fromkeys(comparison.key.rpartition("/")[0] for comparison in comparisons))
    algorithms = list(dict.fromkeys(comparison.key.rpartition("/")[2] for comparison in comparisons))
    figure = new_figure(13, 1.6 + ROW_IN * len(names))
    panels = figure.subplots(1, len(METRICS), sharey=True, squeeze=False)[0]
    for at, axes in enumerate(panels):
        for comparison in comparisons:
            name, _, cca = comparison.key.rpartition("/")
            slot = (algorithms.index(cca) + 0.5) / len(algorithms) - 0.5
            _mark(axes, comparison.errors[at], names.index(name) + 0.8 * slot, 0.8 / len(algorithms), cca)
        _dress_errors(axes, [comparison.errors[at] for comparison in comparisons], n_rows=len(names))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    handles: list[Artist] = [
        Line2D([], [], color=COLOURS.get(cca, OTHER), marker="o", lw=0, label=cca) for cca in algorithms
    ]
    handles += [
        Patch(color=BAND, label="within the target"),
        Line2D([], [], color=FAINT, lw=2, label="the kernel's own runs"),
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns_that_fit(handles, 13), frameon=False, fontsize=9
    )
    figure.suptitle("simulator less kernel, medians", fontsize=11.5, color=INK)
    return figure


def _scale(error: Error) -> float:
    """Return the factor from an error to its axis.

    Throughput errors are drawn in per cent of the kernel's throughput, so that links of all rates share an axis.
    """
    if error.metric.name != "throughput":
        return 1.0
    return 100 / error.real.median if error.real.median else 0.0


def _band(error: Error) -> float:
    return max(error.target.within * abs(error.real.median), error.target.within_units) * _scale(error)


def _range(error: Error) -> list[float]:
    """Return the range of a case's real runs around their median."""
    return [(end - error.real.median) * _scale(error) for end in (error.real.least, error.real.most)]


def _mark(axes: Axes, error: Error, row: float, height: float, cca: str) -> None:
    """Draw the band of a case's target, the range of its real runs around their median, and its error."""
    band = _band(error)
    axes.barh(row, 2 * band, left=-band, height=height, color=BAND, lw=0)
    axes.plot(_range(error), [row, row], color=FAINT, lw=2, solid_capstyle="butt")
    edge = "white" if error.is_within else INK
    axes.plot(error.error * _scale(error), row, "o", ms=4.5, color=COLOURS.get(cca, OTHER), markeredgecolor=edge)


def _dress_errors(axes: Axes, errors: Sequence[Error], *, n_rows: int) -> None:
    metric = errors[0].metric
    linear = LINEAR[metric.name]
    axes.set_xscale("symlog", linthresh=linear)
    most = 1.2 * max(
        linear, *(max(map(abs, (error.error * _scale(error), _band(error), *_range(error)))) for error in errors)
    )
    axes.set_xlim(-most, most)
    ticks = [tick for tick in (linear / 2, linear, linear * 10, linear * 100) if tick <= most]
    axes.set_xticks([*(-tick for tick in reversed(ticks)), 0.0, *ticks])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if value else "0"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(0, color=INK, lw=0.8)
    for row in range(1, n_rows):
        axes.axhline(row - 0.5, color="#ECEFF2", lw=0.8, zorder=0)
    axes.set_title(metric.title, fontsize=10, color=INK)
    axes.set_xlabel(f"error ({UNITS[metric.name]})", fontsize=9, color=INK)
    axes.tick_params(colors=INK, length=3, labelsize=8.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
