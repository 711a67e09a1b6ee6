# SPDX-License-Identifier: MIT
"""Shows the gain of learning as a table and as a picture, from the figures of `judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw_gain", "gain_lines", "level_lines"]

_NAMES = {"default": "default", "single": "best single set", "ensemble": "ensemble"}
_COLOURS = {"default": "#8a8f98", "single": "#d98c21", "ensemble": "#1f6fb4"}
_MARKS = {"default": "s", "single": "D", "ensemble": "o"}


def _rows(figures: dict[str, Any], scheme: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = figures["targets" if scheme == "ensemble" else scheme]
    return rows


def gain_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each target and scheme.

    It has throughput, utilisation, delay, and the number of levels that meet the target.
    """
    lines = [
        f"{'target':>8}  {'parameters':<16} {'Mbit/s':>7} {'of link':>8} {'p95 delay':>10} "
        f" {'levels within target':>20}"
    ]
    for i, met in enumerate(figures["levels_met"]):
        for scheme, name in _NAMES.items():
            row = _rows(figures, scheme)[i]
            target = f"{row['target_ms']:.0f} ms" if scheme == "default" else ""
            levels = f"{met[scheme]} of {met['levels']}"
            mark = " " if row["meets"] else "!"
            lines.append(
                f"{target:>8}  {name:<16} {row['throughput_mbps']:>7.2f} {100 * row['utilization']:>6.2f} % "
                f"{row['p95_queueing_delay_ms']:>7.1f} ms{mark} {levels:>20}"
            )
    return [*lines, "(! above the target; queueing delay of packets, without propagation)"]


def level_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each target and level, with the 95 % interval of the ensemble's delay.

    A second table separates the levels where the single set meets its target from those where it misses it.
    """
    lines = ["p95 delay in ms, its 95 % interval, and the used share of the link"]
    lines += [f"{'target':>8} {'level':>5} {'windows':>7} {'ensemble':<26}{'single':<16}default"]
    for row in figures["levels"]:
        low, high = row["ensemble"]["p95_queueing_delay_ms_interval"]
        cells = [_cell(row[scheme]) for scheme in ("ensemble", "single", "default")]
        lines.append(
            f"{row['target_ms']:>5.0f} ms {row['level']:>5} {row['windows']:>7} "
            f"{cells[0]} [{low:.0f}, {high:.0f}]".ljust(49)
            + f"{cells[1]:<16}{cells[2]}"
        )
    lines += ["", f"{'target':>8}  {'levels':<26} {'of bytes':>8}  {'ensemble':<17}single"]
    for row in figures["by_single"]:
        where = f"{row['levels']} where single {'meets' if row['single_meets'] else 'misses'} it"
        cells = [
            f"{row[s]['p95_queueing_delay_ms']:>6.1f} {100 * row[s]['utilization']:>6.2f} %"
            for s in ("ensemble", "single")
        ]
        share = f"{100 * row['share_of_capacity']:.1f} %"
        lines.append(f"{row['target_ms']:>5.0f} ms  {where:<26} {share:>8}  {cells[0]:<17}{cells[1]}")
    return [*lines, ""]


def _cell(row: dict[str, Any]) -> str:
    mark = " " if row["meets"] else "!"
    return f"{row['p95_queueing_delay_ms']:>5.0f}{mark} {100 * row['utilization']:>5.1f} %"


def draw_gain(figures: dict[str, Any], path: Path) -> None:
    """Draw the gain into a PNG, SVG or PDF file, by the extension of its name.

    The left panel shows pooled figures, the right one the delay of each level over its target.

    Raises:
        EmulationError: the file cannot be written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from emulation._plot import save

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), dpi=130, width_ratios=(1, 1.5), layout="constrained")
    _draw_pooled(left, figures)
    _draw_levels(right, figures)
    figure.suptitle(f"{figures['cca'].upper()} over {figures['hours']:.1f} h of links that nobody trained on")
    save(figure, path=path)
    plt.close(figure)


def _draw_pooled(axes: Any, figures: dict[str, Any]) -> None:
    for scheme, name in _NAMES.items():
        rows = _rows(figures, scheme)[:1] if scheme == "default" else _rows(figures, scheme)
        axes.plot(
            [row["p95_queueing_delay_ms"] for row in rows],
            [100 * row["utilization"] for row in rows],
            marker=_MARKS[scheme], color=_COLOURS[scheme], label=name, linewidth=1, markersize=8, alpha=0.9,
        )  # fmt: skip
    for row in figures["targets"]:
        axes.axvline(row["target_ms"], color="#b03030", linestyle=":", linewidth=1)
        axes.text(row["target_ms"] * 0.98, 0.02, f"{row['target_ms']:.0f} ms", ha="right", color="#b03030", fontsize=8,
                  transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set(xscale="log", xlabel="95th-percentile queueing delay (ms)", ylabel="share of the link used (%)")
    axes.set_title("all packets together; dotted: the targets", fontsize=10)
    ticks = sorted({10.0, 20.0, *(row["target_ms"] for row in figures["targets"])})
    axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left", fontsize=9)


def _draw_levels(axes: Any, figures: dict[str, Any]) -> None:
    targets = [row["target_ms"] for row in figures["targets"]]
    for scheme in ("single", "ensemble"):
        for i, target in enumerate(targets):
            rows = [row for row in figures["levels"] if row["target_ms"] == target]
            shift = (i - 1) * 0.22 + (0.08 if scheme == "ensemble" else -0.08)
            ratio = [row[scheme]["p95_queueing_delay_ms"] / target for row in rows]
            ends = [row[scheme]["p95_queueing_delay_ms_interval"] for row in rows]
            spread = [[abs(e[side] / target - r) for e, r in zip(ends, ratio, strict=True)] for side in (0, 1)]
            axes.errorbar(
                [row["level"] + 0.5 + shift for row in rows],
                ratio,
                yerr=spread,
                fmt=_MARKS[scheme],
                markersize=4,
                color=_COLOURS[scheme],
                alpha=0.45 + 0.25 * i,
                linewidth=0.8,
                label=f"{_NAMES[scheme]}, {target:.0f} ms",
            )
    axes.axhline(1.0, color="#b03030", linestyle=":", linewidth=1)
    axes.set(xlabel="throughput level (Mbit/s)", ylabel="95th percentile / target", yscale="log")
    axes.set_yticks([0.5, 0.7, 1.0, 1.5, 2.0, 4.0], ["0.5", "0.7", "1", "1.5", "2", "4"])
    axes.minorticks_off()
    axes.set_title("level by level, with 95 % intervals; on or below the line: target met", fontsize=10)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, ncols=2)
