# SPDX-License-Identifier: MIT
"""Draws the figures of a Pantheon report.

    summary   throughput against the 95th percentile of the one-way delay, with a mark for each scheme. As in Pantheon,
              the delay decreases to the right, so the best place is at the top right. The delay axis is logarithmic if
              the delays differ by more than a factor of four
    run       one run over time. Above: throughput, and dashed the ingress, in front of the shaded capacity. Below: the
              delay of single packets

An ellipse around the mean of a scheme shows one standard deviation of its runs and their correlation. It is computed in
the coordinates of the figure: if the delay axis is logarithmic, from the logarithm of the delay.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from emulation.figure import PALETTE, columns_that_fit, dress, new_figure
from emulation.mahimahi.logs import Floats
from emulation.pantheon.analysis import Analysis, RunAnalysis, SchemeAnalysis
from kmod.terminal import visible

# The page replaces these five colours by variables, so that figures follow its dark theme. Only the elements of these
# names may have these colours.
INK, FAINT, GRID, CAPACITY, BLACK = "#333a44", "#7b8490", "#e9ecf0", "#e4e8ed", "#010101"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", ">", "h")
# Names of Matplotlib for a marker that is not drawn.
NO_MARKERS = {"", "None", "none"}
VISIBLE = frozenset(name for name in Line2D.markers if isinstance(name, str) and name.strip() not in NO_MARKERS)
LOG_FROM_RATIO = 4.0
ZOOM_FROM_SHARE = 0.6
LABEL_POINTS = 9.0
MARK_POINTS = 8.5
TITLE_CHARS = 95


@dataclass(frozen=True)
class Style:
    """How a scheme is shown, as in Pantheon's config.yml. color, marker: names of Matplotlib."""

    name: str
    color: str
    marker: str


def styles_of(schemes: Sequence[str], known: Mapping[str, Style]) -> dict[str, Style]:
    """Return a style for each scheme. Unknown styles get colours and markers that differ from the known ones."""
    own = {scheme: known.get(scheme, Style(scheme, "", "")) for scheme in schemes}
    colors = {to_hex(style.color) for style in own.values() if is_color_like(style.color)}
    spare_colors = cycle([color for color in PALETTE if color not in colors] or PALETTE)
    taken = {style.marker for style in own.values()}
    spare_markers = cycle([marker for marker in MARKERS if marker not in taken] or MARKERS)
    styles = {}
    for scheme, style in own.items():
        color = to_hex(style.color) if is_color_like(style.color) else next(spare_colors)
        marker = style.marker if style.marker in VISIBLE else next(spare_markers)
        styles[scheme] = Style(style.name, BLACK if color == "#000000" else color, marker)
    return styles


def summary_figure(
    analysis: Analysis,
    styles: Mapping[str, Style],
    *,
    show: Literal["runs", "mean", "both"] = "both",
    title: str = "",
) -> Figure:
    """Return the summary figure. show: single runs with a legend, means with their names beside them, or both."""
    figure = new_figure(9.0, 5.2, facecolor="none")
    axes = figure.subplots()
    if title:
        axes.set_title(textwrap.fill(title, TITLE_CHARS), color=INK, fontsize=11, loc="left", pad=12)
    draw_summary(figure, axes, analysis, styles, show=show)
    return figure


def draw_summary(
    figure: Figure,
    axes: Axes,
    analysis: Analysis,
    styles: Mapping[str, Style],
    *,
    show: Literal["runs", "mean", "both"] = "both",
) -> None:
    """Draw the summary as in summary_figure into empty axes of a figure, whose other content is drawn already."""
    points = [(styles[scheme.scheme], *_points(scheme)) for scheme in analysis.schemes]
    draw_points(figure, axes, points, capacity_mbps=analysis.capacity_mbps, show=show)


def draw_points(
    figure: Figure,
    axes: Axes,
    points: Sequence[tuple[Style, Floats, Floats]],
    *,
    capacity_mbps: float | None,
    show: Literal["runs", "mean", "both"] = "both",
    delay: str = "one-way delay",
) -> None:
    """Draw schemes into empty axes of a figure, whose other content is drawn already.

    points: of each scheme its style, and the delays in ms and throughputs in Mbit/s of its runs. delay: its name.
    """
    shown = [point for point in points if len(point[1])]
    all_ms = np.concatenate([delay_ms for _, delay_ms, _ in shown]) if shown else np.zeros(0)
    is_log = len(all_ms) > 0 and all_ms.min() > 0 and all_ms.max() > LOG_FROM_RATIO * all_ms.min()
    if is_log:
        axes.set_xscale("log")
    for style, delay_ms, rate_mbps in shown:
        _draw_scheme(axes, style, delay_ms, rate_mbps, show=show, is_log=is_log)
    _limit(axes, capacity_mbps, all_ms, [rate for _, _, rates in shown for rate in rates.tolist()], is_log=is_log)
    _dress(axes)
    axes.set_xlabel(f"95th percentile of the {delay} (ms)", color=INK)
    axes.set_ylabel("throughput (Mbit/s)", color=INK)
    if not shown:
        axes.text(0.5, 0.5, "no valid run", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    elif show == "runs":
        handles = [_mark(style, label=style.name) for style, _, _ in shown]
        figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9, labelcolor=INK)
    else:
        _label(figure, axes, [(style, float(x.mean()), float(y.mean())) for style, x, y in shown])


def _points(scheme: SchemeAnalysis) -> tuple[Floats, Floats]:
    """Return the delays in ms and the throughputs in Mbit/s of the valid runs, each [n_runs]."""
    totals = [run.statistics.total for run in scheme.valid_runs if run.statistics]
    pairs = [(total.delay_p95_ms, total.throughput_mbps) for total in totals if total.delay_p95_ms is not None]
    columns = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _look(style: Style) -> dict[str, Any]:
    """Return the properties of a scheme's mark. The lines of markers without an area have the colour of the scheme."""
    is_filled = style.marker in Line2D.filled_markers
    return {
        "marker": style.marker,
        "markerfacecolor": style.color,
        "markeredgecolor": INK if is_filled else style.color,
        "markeredgewidth": 0.6 if is_filled else 1.6,
        "linestyle": "none",
    }


def _mark(style: Style, *, label: str) -> Line2D:
    return Line2D([], [], label=label, markersize=MARK_POINTS, **_look(style))


def _draw_scheme(axes: Axes, style: Style, delay_ms: Floats, rate_mbps: Floats, *, show: str, is_log: bool) -> None:
    if show == "runs":
        axes.plot(delay_ms, rate_mbps, markersize=MARK_POINTS - 1, clip_on=False, zorder=4, **_look(style))
        return
    if show == "both" and len(delay_ms) > 1:
        small = {**_look(style), "markeredgewidth": 0.5 if style.marker in Line2D.filled_markers else 1.0}
        axes.plot(delay_ms, rate_mbps, markersize=4, alpha=0.55, zorder=3, **small)
    if len(delay_ms) > 1:
        outline = _ellipse(delay_ms, rate_mbps, is_log=is_log)
        axes.fill(*outline, facecolor=style.color, alpha=0.18, lw=0, zorder=2)
        axes.plot(*outline, color=style.color, alpha=0.7, lw=0.9, zorder=2)
    axes.plot([delay_ms.mean()], [rate_mbps.mean()], markersize=MARK_POINTS, zorder=5, **_look(style))


def _ellipse(delay_ms: Floats, rate_mbps: Floats, *, is_log: bool) -> tuple[Floats, Floats]:
    """Return the outline of one standard deviation around the mean. Two runs give a line."""
    x = np.log(delay_ms) if is_log else delay_ms
    values, vectors = np.linalg.eigh(np.cov(x, rate_mbps))
    angles = np.linspace(0, 2 * np.pi, 73)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    offsets = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * circle)
    # The mark is at the arithmetic mean of the delay. On a logarithmic axis the ellipse is moved there.
    if is_log:
        return delay_ms.mean() * np.exp(offsets[0]), rate_mbps.mean() + offsets[1]
    return delay_ms.mean() + offsets[0], rate_mbps.mean() + offsets[1]


def _limit(axes: Axes, capacity: float | None, all_ms: Floats, rates_mbps: list[float], *, is_log: bool) -> None:
    """Set the limits of both axes. Throughput reaches at least the capacity, and delay decreases to the right."""
    top = max([*rates_mbps, capacity or 0.0]) * 1.05 or 1
    lowest = min(rates_mbps, default=0.0)
    # If throughputs are close to each other, the axis begins above 0, so that their marks do not overlap.
    axes.set_ylim(lowest - (top - lowest) * 0.35 if lowest > top * ZOOM_FROM_SHARE else 0, top)
    if capacity:
        axes.axhline(capacity, color=FAINT, lw=1.0, ls=(0, (1, 2)), zorder=1)
        axes.annotate(
            f"link capacity {capacity:.3g}",
            (0.005, capacity),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
            color=FAINT,
        )
    if not len(all_ms):
        return
    low, high = float(all_ms.min()), float(all_ms.max())
    if is_log:
        axes.set_xlim(high * 1.22, low / 1.22)
        axes.xaxis.set_major_locator(LogLocator(base=10, subs=_log_ticks(high / low), numticks=50))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        margin = max((high - low) * 0.15, abs(high) * 0.05, 0.5)
        axes.set_xlim(high + margin, low - margin)
    axes.text(0.995, 0.015, "better: up and right", transform=axes.transAxes, fontsize=8, color=FAINT, ha="right")


def _log_ticks(ratio: float) -> tuple[float, ...]:
    """Return the multiples of powers of ten that get a label. ratio: largest over smallest delay."""
    if ratio < 15:
        return (1, 1.5, 2, 3, 4, 5, 7)
    return (1, 2, 5) if ratio < 200 else (1,)


def _label(figure: Figure, axes: Axes, means: list[tuple[Style, float, float]]) -> None:
    """Write each name beside its mark, at the first place where it covers no mark and no other name."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    scale = figure.dpi / 72
    radius = (MARK_POINTS / 2 + 1) * scale
    at = [axes.transData.transform((x, y)) for _, x, y in means]
    taken = [Bbox.from_extents(x - radius, y - radius, x + radius, y + radius) for x, y in at]
    bounds = axes.get_window_extent()
    for style, x, y in sorted(means, key=lambda mean: -mean[2]):
        # The text is measured before it is drawn.
        look: dict[str, Any] = {"fontsize": LABEL_POINTS, "color": INK, "zorder": 6, "parse_math": False}
        text = axes.annotate(visible(style.name), (x, y), xytext=(0, 0), textcoords="offset points", **look)
        best: tuple[float, Bbox, Any] | None = None
        for place in _places():
            text.set(position=place[:2], ha=place[2], va=place[3])
            box = text.get_window_extent(renderer)
            covered = sum(_common(box, other) for other in taken)
            covered += box.width * box.height - _common(box, bounds)
            if best is None or covered < best[0]:
                best = (covered, box, place)
            if not covered:
                break
        if best:
            text.set(position=best[2][:2], ha=best[2][2], va=best[2][3])
            taken.append(best[1])


def _places() -> list[tuple[float, float, str, str]]:
    """Return the possible places of a label: its offset in points and its alignment. Preferred places come first."""
    near: list[tuple[float, float, str, str]] = []
    for gap in (8.0, 16.0, 26.0):
        near += [(gap, 0, "left", "center"), (-gap, 0, "right", "center"), (0, gap, "center", "bottom")]
        near += [(0, -gap, "center", "top"), (gap * 0.8, gap * 0.7, "left", "bottom")]
        near += [(gap * 0.8, -gap * 0.7, "left", "top"), (-gap * 0.8, gap * 0.7, "right", "bottom")]
        near += [(-gap * 0.8, -gap * 0.7, "right", "top")]
    return near


def _common(one: Bbox, other: Bbox) -> float:
    both = Bbox.intersection(one, other)
    return float(both.width * both.height) if both else 0.0


def run_figure(run: RunAnalysis, *, runtime_s: float | None = None) -> Figure:
    """Return the figure of a run over time, with the packets as an image.

    runtime_s: the time axis reaches at least this time.
    """
    figure = new_figure(9.0, 4.4, facecolor="none")
    draw_run(figure, run, runtime_s=runtime_s)
    return figure


def draw_run(figure: Figure | SubFigure, run: RunAnalysis, *, title: str = "", runtime_s: float | None = None) -> None:
    """Draw a run as in run_figure into an empty figure, or into an empty part of a figure."""
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.25, 1])
    series = run.series
    if series is None or not series.flows:
        for axes in (above, below):
            axes.set_axis_off()
        reason = textwrap.fill(run.reason, TITLE_CHARS) or "no packets"
        above.text(0.5, 0.5, reason, ha="center", va="center", color=FAINT)
        return
    start_s, width_s = series.start_s, series.bin_s
    top = 0.0
    if series.capacity_mbps is not None:
        above.fill_between(*_steps(start_s, series.capacity_mbps, width_s), color=CAPACITY, lw=0)
        top = float(np.nanmax(series.capacity_mbps))
    for number, its in enumerate(series.flows.values()):
        color = PALETTE[number % len(PALETTE)]
        # The value of a bin is drawn at the middle of the bin.
        above.plot(start_s + width_s / 2, its.ingress_mbps, color=color, lw=1.0, ls=(0, (3, 2)), alpha=0.75)
        above.plot(start_s + width_s / 2, its.throughput_mbps, color=color, lw=1.5, solid_joinstyle="round")
        below.plot(its.point_s, its.point_delay_ms, ".", ms=2.2, color=color, mew=0, alpha=0.6, rasterized=True)
        rates_mbps = np.concatenate([its.throughput_mbps, its.ingress_mbps])
        top = max([top, *rates_mbps[np.isfinite(rates_mbps)].tolist()])
    above.set_ylim(0, top * 1.12 or 1)
    above.set_ylabel("throughput\n(Mbit/s)", color=INK, fontsize=8)
    below.set_ylabel("one-way delay\n(ms)", color=INK, fontsize=8)
    below.set_xlabel("time (s)", color=INK, fontsize=8)
    delays = np.concatenate([its.point_delay_ms for its in series.flows.values()])
    if len(delays):
        below.set_ylim(min(0.0, float(delays.min())) * 1.05, float(delays.max()) * 1.06 or 1)
    for axes in (above, below):
        _dress(axes)
        axes.set_xlim(0, max(float(start_s[-1]) + width_s, runtime_s or 0))
    figure.align_ylabels([above, below])
    _run_legend(figure, run)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")


def _steps(start_s: Floats, values: Floats, width_s: float) -> tuple[Floats, Floats]:
    edges = np.append(start_s, start_s[-1] + width_s)
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def _run_legend(figure: Figure | SubFigure, run: RunAnalysis) -> None:
    handles: list[Any] = []
    statistics = run.statistics
    if statistics and statistics.capacity_mbps is not None:
        handles.append(Patch(color=CAPACITY, label=f"capacity, {statistics.capacity_mbps:.2f} Mbit/s"))
    for number, (flow, traffic) in enumerate(statistics.flows.items() if statistics else ()):
        name = f"flow {flow}" if flow else "all packets"
        delay = f", p95 {traffic.delay_p95_ms:.1f} ms" if traffic.delay_p95_ms is not None else ""
        text = f"{name}: {traffic.throughput_mbps:.2f} Mbit/s{delay}"
        handles.append(Line2D([], [], color=PALETTE[number % len(PALETTE)], lw=2, label=text))
    if run.series and any(np.isfinite(its.ingress_mbps).any() for its in run.series.flows.values()):
        handles.append(Line2D([], [], color=FAINT, lw=1.2, ls=(0, (3, 2)), label="ingress"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns_that_fit(handles, figure.bbox.width / figure.dpi),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
    )


def _dress(axes: Axes) -> None:
    dress(axes, ink=INK, grid=GRID, spine=FAINT, ticks=5)
    axes.set_facecolor("none")
