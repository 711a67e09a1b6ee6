# SPDX-License-Identifier: MIT
"""Shows the gain of learning as a table and as a picture, from the figures of `validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kmod.tables import Column, table_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL_HEADINGS = (
    "target", "level", "windows", "ensemble\np95", "interval", "used", "single\np95", "used", "default\np95", "used",
)  # fmt: skip
_NAMES = {"default": "default", "single": "best single set", "ensemble": "ensemble"}
_COLOURS = {"default": "#8a8f98", "single": "#d98c21", "ensemble": "#1f6fb4"}
_MARKS = {"default": "s", "single": "D", "ensemble": "o"}
_TARGET = "#b03030"
_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)


def _rows(figures: dict[str, Any], scheme: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = figures["targets" if scheme == "ensemble" else scheme]
    return rows


def gain_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each target and scheme.

    It has throughput, utilisation, delay, the number of levels that meet the target, and the share of flows that do.
    """
    lines = [
        f"{'target':>8}  {'parameters':<16} {'Mbit/s':>7} {'of link':>8} {'p95 delay':>10} "
        f" {'levels met':>10} {'flows met':>9}"
    ]
    for i, met in enumerate(figures["levels_met"]):
        for scheme, name in _NAMES.items():
            row = _rows(figures, scheme)[i]
            target = f"{row['target_ms']:.0f} ms" if scheme == "default" else ""
            levels = f"{met[scheme]} of {met['levels']}"
            share = row["flows_within"]
            flows = "-" if share is None else f"{share:.1%}"
            mark = " " if row["meets"] else "!"
            lines.append(
                f"{target:>8}  {name:<16} {row['throughput_mbps']:>7.2f} {100 * row['utilization']:>6.2f} % "
                f"{row['p95_queueing_delay_ms']:>7.1f} ms{mark} {levels:>10} {flows:>9}"
            )
    notes = [
        "(! above the target. Queueing delay of packets, without propagation. met: within",
        "the target, of the levels of throughput, and of flows of ten minutes)",
    ]
    return [*lines, *notes]


def level_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each target and level, with the 95 % interval of the ensemble's delay.

    A second table separates the levels where the single set meets its target from those where it misses it.
    """
    rows = []
    for row in figures["levels"]:
        interval = "-".join(f"{end:.0f}" for end in row["ensemble"]["p95_queueing_delay_ms_interval"])
        (delay, used), *others = (_cells(row[scheme]) for scheme in ("ensemble", "single", "default"))
        place = (f"{row['target_ms']:.0f}", str(row["level"]), str(row["windows"]))
        rows.append((*place, delay, interval, used, *others[0], *others[1]))
    lines = ["p95 of the queueing delay in ms (95 % interval), and used share of the link, %"]
    lines += table_lines([Column(heading, "right") for heading in _LEVEL_HEADINGS], rows)
    by_single = []
    for row in figures["by_single"]:
        where = f"{row['levels']} where single {'meets' if row['single_meets'] else 'misses'} it"
        cells = (text for scheme in ("ensemble", "single") for text in _cells(row[scheme]))
        by_single.append((f"{row['target_ms']:.0f}", where, f"{100 * row['share_of_capacity']:.1f}", *cells))
    headings = ("share of\nbytes, %", "ensemble\np95", "used", "single\np95", "used")
    columns = [Column("target", "right"), Column("levels"), *(Column(heading, "right") for heading in headings)]
    return [*lines, "", *table_lines(columns, by_single), ""]


def _cells(row: dict[str, Any]) -> tuple[str, str]:
    mark = " " if row.get("meets", True) else "!"
    return f"{row['p95_queueing_delay_ms']:.1f}{mark}", f"{100 * row['utilization']:.1f}"


def gain_figure(figures: dict[str, Any]) -> Figure:
    """Return the picture of the gain.

    The left panel shows pooled figures, the right one the delay of each level over its target. The right one is left
    out if no level has enough windows.
    """
    from emulation.figure import columns_that_fit, new_figure

    panels: list[tuple[Any, float, Any]] = [(_draw_pooled, 5.5, "outside lower left")]
    if figures["levels"]:
        panels.append((_draw_levels, 7.5, "outside lower right"))
    widths_in = [width_in for _, width_in, _ in panels]
    figure = new_figure(sum(widths_in), 5.6)
    grid = figure.subplots(1, len(panels), width_ratios=widths_in, squeeze=False)[0]
    for axes, (panel, width_in, place) in zip(grid, panels, strict=True):
        panel(axes, figures)
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        # Below the panels a legend covers no mark.
        handles, labels = axes.get_legend_handles_labels()
        columns = columns_that_fit(handles, width_in)
        figure.legend(handles, labels, loc=place, ncols=columns, frameon=False, fontsize=8)
    hours = figures["hours"]
    length = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
    figure.suptitle(f"{figures['cca'].upper()} over {length} of recordings", fontsize=11)
    return figure


def _draw_pooled(axes: Axes, figures: dict[str, Any]) -> None:
    targets_ms = [row["target_ms"] for row in figures["targets"]]
    for scheme, name in _NAMES.items():
        rows = _rows(figures, scheme)[:1] if scheme == "default" else _rows(figures, scheme)
        axes.plot(
            [row["p95_queueing_delay_ms"] for row in rows],
            [100 * row["utilization"] for row in rows],
            marker=_MARKS[scheme], color=_COLOURS[scheme], label=name, linewidth=1, markersize=8, alpha=0.9,
        )  # fmt: skip
    for at, target_ms in enumerate(targets_ms):
        axes.axvline(target_ms, color=_TARGET, linestyle=":", linewidth=1, label="" if at else "target")
    axes.set(xscale="log", xlabel="95th percentile of the queueing delay (ms)", ylabel="share of the link used (%)")
    axes.set_title("all packets together", fontsize=10)
    low, high = axes.get_xlim()
    decades = (digit * 10**power for power in range(-1, 5) for digit in (1, 2, 5))
    others = [tick for tick in decades if low <= tick <= high and all(abs(tick / t - 1) > 0.2 for t in targets_ms)]
    ticks = sorted({*others, *targets_ms})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def _draw_levels(axes: Axes, figures: dict[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    targets_ms = [row["target_ms"] for row in figures["targets"]]
    for scheme in ("single", "ensemble"):
        for i, target_ms in enumerate(targets_ms):
            rows = [row for row in figures["levels"] if row["target_ms"] == target_ms]
            # The marks of a level stand side by side within it.
            shift = (i + (0.68 if scheme == "ensemble" else 0.32) - len(targets_ms) / 2) * 0.7 / len(targets_ms)
            ratio = [row[scheme]["p95_queueing_delay_ms"] / target_ms for row in rows]
            ends = [row[scheme]["p95_queueing_delay_ms_interval"] for row in rows]
            spread = [[abs(e[side] / target_ms - r) for e, r in zip(ends, ratio, strict=True)] for side in (0, 1)]
            axes.errorbar(
                [row["level"] + 0.5 + shift for row in rows],
                ratio,
                yerr=spread,
                fmt=_MARKS[scheme],
                markersize=4,
                color=_COLOURS[scheme],
                alpha=0.4 + 0.6 * (i + 1) / len(targets_ms),
                linewidth=0.8,
                label=f"{_NAMES[scheme]}, {target_ms:g} ms" if rows else "",
            )
    axes.axhline(1.0, color=_TARGET, linestyle=":", linewidth=1)
    axes.set(xlabel="throughput level (Mbit/s)", ylabel="95th percentile / target", yscale="log")
    low, high = axes.get_ylim()
    ticks = [tick for tick in _RATIOS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    levels = [row["level"] for row in figures["levels"]]
    axes.set_xlim(min(levels), max(levels) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("each level, with 95 % intervals; on or below the line: target met", fontsize=10)
