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
    """First the share of flows that meet their target, of all targets; then a line for each target and scheme."""
    lines = []
    if figures["targets"][0]["flows"]:
        shares = {
            name: sum(row["flows_within"] for row in rows) / len(rows)
            for name, rows in ((name, _rows(figures, scheme)) for scheme, name in _NAMES.items())
        }
        lines = [
            f"flows that meet their target: {', '.join(f'{name} {share:.0%}' for name, share in shares.items())}",
            "",
        ]
    lines.append(
        f"{'target':>7}  {'parameters':<15} {'flows met':>9} {'of link':>8} "
        f"{'p95 delay':>11}  {'of link':>8} {'Mbit/s':>7}"
    )
    for i in range(len(figures["targets"])):
        for scheme, name in _NAMES.items():
            row = _rows(figures, scheme)[i]
            target = f"{row['target_ms']:.0f} ms" if scheme == "default" else ""
            met, used = ("-", "-") if not row["flows"] else (
                f"{row['flows_within']:.1%}", f"{100 * row['flows_utilization']:.2f} %")  # fmt: skip
            mark = " " if row["meets"] else "!"
            lines.append(
                f"{target:>7}  {name:<15} {met:>9} {used:>8} {row['p95_queueing_delay_ms']:>8.1f} ms{mark} "
                f"{100 * row['utilization']:>6.2f} % {row['throughput_mbps']:>7.2f}"
            )
    notes = [
        "(Flows of ten minutes, each with the percentile of its own queueing delay, which",
        "is without propagation. Behind it: flows over whole recordings; ! above target)",
    ]
    if not figures["targets"][0]["flows"]:
        notes.append("No recording lasts ten minutes, so there are no such flows.")
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

    The left panel has a point for the percentile of each flow of ten minutes over its target, and the share of flows
    that meet it. Where no recording lasts ten minutes, it has a point for the percentile of all packets. The right
    panel has the delay of each level over its target, if there is more than one level.
    """
    from emulation.figure import columns_that_fit, new_figure

    panels: list[tuple[Any, float, Any]] = [(_draw_flows, 7.5, "outside lower left")]
    if len({row["level"] for row in figures["levels"]}) > 1:
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


def _draw_flows(axes: Axes, figures: dict[str, Any]) -> None:
    """A row for each target and scheme. The marks of a row are at all heights within it, so that all can be seen."""
    from training.validation.recordings import WITHIN

    labels = []
    for i, target in enumerate(figures["targets"]):
        for j, (scheme, name) in enumerate(_NAMES.items()):
            row = _rows(figures, scheme)[i]
            height = i * (len(_NAMES) + 0.6) + j
            delays_ms = row["flows_p95_ms"] or [row["p95_queueing_delay_ms"]]
            ratios = [delay_ms / target["target_ms"] for delay_ms in delays_ms]
            heights = [height + 0.6 * ((n * 0.618) % 1 - 0.5) for n in range(len(ratios))]
            axes.plot(ratios, heights, linestyle="", marker="o", markersize=2.5, alpha=0.5, color=_COLOURS[scheme],
                      label=name if not i else "")  # fmt: skip
            shown = f"{target['target_ms']:g} ms"
            if row["flows"]:
                shown += f": {row['flows_within']:.0%} of flows,\n{row['flows_utilization']:.1%} of the link"
            labels.append((height, shown))
    axes.axvline(WITHIN, color=_TARGET, linestyle=":", linewidth=1, label="target met: left of this line")
    # A flow on a short buffer can lie far to the left; where is of no interest.
    axes.set(xscale="log", xlabel="95th percentile of a flow's queueing delay / target", xlim=(0.1, None))
    low, high = axes.get_xlim()
    ticks = [tick for tick in _RATIOS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([height for height, _ in labels], [text for _, text in labels], fontsize=8)
    axes.invert_yaxis()
    has_flows = figures["targets"][0]["flows"]
    title = "flows of ten minutes: how many meet their target" if has_flows else "recordings of less than ten minutes"
    axes.set_title(title, fontsize=10)


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
