# SPDX-License-Identifier: MIT
"""Draws a run over time. The panels are, from top to bottom:

    throughput        of each flow, in front of the link's capacity as a shaded area
    queueing delay    of the packet that left last, with the 95th percentile and the targets
    RTT, cwnd, pacing rate
    retransmissions   of each flow, in packets per second
    proxy's buffer    the data that the proxy holds; only of a scenario with one
    drops             of each element of the path; only if packets were dropped
    state             the mode of each flow, and its state in the ensemble at the end of each epoch; only if the runner
                      reports modes, which a real kernel does not

It draws the QoS of any runner whose series has the columns of emulation.run.qos.SERIES.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.figure import PALETTE, columns_that_fit, dress, new_figure
from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, Scenario
from kmod.abi import ALGORITHMS

Values = NDArray[np.float64]

FORMATS = (".png", ".svg", ".pdf")
# The names of an algorithm's modes, by the number that the engine reports.
# An R-TCP algorithm has the modes of its base algorithm.
WINDOW_MODES = ("slow start", "congestion avoidance", "recovery")
CONTROL_MODES = {
    "gr": ("slow start", "cruise", "drain"),
    "bbr": ("startup", "drain", "probe bandwidth", "probe RTT"),
    "bbr3": ("startup", "drain", "down", "cruise", "refill", "up", "probe RTT"),
}


def modes_of(cca: str) -> tuple[str, ...]:
    """Return the names of an algorithm's modes; none if it has no modes."""
    if cca in ALGORITHMS and ALGORITHMS[cca].mode == "window":
        return WINDOW_MODES
    return CONTROL_MODES.get(cca.rpartition("_")[2], ())


MODE_COLOURS = {
    "slow start": "#F2C94C",
    "startup": "#F2C94C",
    "cruise": "#A9D5B5",
    "congestion avoidance": "#A9CCE3",
    "drain": "#C9A7DE",
    "recovery": "#E6A1A1",
    "probe bandwidth": "#A9D5B5",
    "probe RTT": "#E6A1A1",
    "down": "#D8C7E8",
    "refill": "#A9CCE3",
    "up": "#F5D9A8",
}
DROP_COLOURS = ("#B03A2E", "#E59866", "#7D3C98", "#5D6D7E")
CAPACITY_COLOUR = "#DFE3E8"
INK = "#333A44"
FAINT = "#8A939E"
LINES = (("rtt_ms", "RTT", "ms"), ("cwnd_pkts", "cwnd", "packets"), ("pacing_mbps", "pacing rate", "Mbit/s"))
WIDTH_IN = 10.0
TITLE_CHARS = 105
RATE_BIN_S = 0.1
MOST_RATE_BINS = 300
RARE_PEAK = 2.5
MOST_STRIPS = 6
MOST_LEGEND_FLOWS = 6
STYLE: dict[str, Any] = {"lw": 1.3, "solid_joinstyle": "round"}


def save(figure: Figure, *, path: Path) -> None:
    """Write a picture. Raises EmulationError if the file cannot be written."""
    try:
        figure.savefig(path)
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror})") from error


def check_path(path: Path) -> None:
    """Check before a run that its picture can be written. Raises EmulationError if not."""
    if path.suffix.lower() not in FORMATS:
        raise EmulationError(f"{path}: expected a picture ending in {', '.join(FORMATS)}, got {path.suffix or 'none'}")
    if not path.absolute().parent.is_dir():
        raise EmulationError(f"{path}: expected a folder {path.parent} to write to, got none; make it first")


def draw_run(scenario: Scenario, qos: QoS, *, path: Path) -> None:
    """Draw a run whose QoS has a series into a .png, .svg or .pdf file.

    Raises EmulationError if it is another kind of file, the file cannot be written, or the run has no samples.
    """
    check_path(path)
    figure = make_figure(scenario, qos)
    save(figure, path=path)


def make_figure(scenario: Scenario, qos: QoS) -> Figure:
    """Return the picture with the panels of the module's docstring. Raises EmulationError if there are no samples."""
    if not len(qos.series.get("time_s", ())):
        raise EmulationError(f"{scenario.name}: expected a run with samples over time, got none; simulate for longer")
    flows = [_FlowSeries(number, spec, qos) for number, spec in enumerate(scenario.flows)]
    strips = flows[:MOST_STRIPS] if "mode" in qos.series else []
    drops = _drops_of(qos)
    is_split = qos.buffered_bytes is not None
    more = [1.4] * (bool(drops) + is_split)
    heights = [2.6, 2.0, 1.4, 1.4, 1.4, 1.2, *more, *([0.2 + 0.26 * len(strips)] if strips else [])]
    figure = new_figure(WIDTH_IN, sum(heights) + 1.5)
    panels: Sequence[Axes] = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _throughput(panels[0], flows, qos)
    targets_ms = _delay(panels[1], scenario, qos, flows[0])
    for axes, (key, what, unit) in zip(panels[2:5], LINES, strict=True):
        _lines(axes, flows, key, what, unit)
    bottom, top = panels[2].get_ylim()
    panels[2].set_ylim(max(bottom, scenario.link.rtt_ms - (top - scenario.link.rtt_ms) * 0.08), top)
    _retransmissions(panels[5], flows)
    if is_split:
        _buffer(panels[6], flows[0], qos)
    if drops:
        _drops(panels[6 + is_split], drops)
    if strips:
        _states(panels[-1], strips, qos, scenario.duration_s)
    for axes in panels:
        _dress(axes, scenario)
    panels[-1].set_xlabel("time (s)", color=INK)
    figure.align_ylabels(list(panels))
    _head(figure, scenario, qos, _handles(flows, strips, targets_ms, list(drops), qos))
    return figure


class _FlowSeries:
    """The samples of one flow. `shown` returns nan where the flow was not running or the value is 0."""

    def __init__(self, number: int, spec: FlowSpec, qos: QoS) -> None:
        own = qos.series["flow"] == number
        self.number = number
        self.spec = spec
        self.colour = PALETTE[number % len(PALETTE)]
        self.columns: dict[str, Values] = {key: values[own] for key, values in qos.series.items()}
        time_s = self.columns["time_s"]
        self.stop_s = np.inf if spec.stop_s is None else spec.stop_s
        self.runs = (time_s > spec.start_s) & (time_s <= self.stop_s)

    @property
    def label(self) -> str:
        return f"flow {self.number + 1}: {self.spec.cca}{', ensemble' if self.spec.ensemble_text else ''}"

    def shown(self, key: str) -> Values:
        values = self.columns[key]
        return np.where(self.runs & (values > 0), values, np.nan)

    def binned(self, key: str) -> tuple[Values, Values]:
        """Return the end times of bins of at least RATE_BIN_S, and the mean of a column in each bin."""
        return _binned(self.columns["time_s"], self.columns[key])


def _binned(time_s: Values, values: Values) -> tuple[Values, Values]:
    every = min(max(round(max(RATE_BIN_S, time_s[-1] / MOST_RATE_BINS) / time_s[0]), 1), len(values))
    n_bins = len(values) // every
    return time_s[every - 1 :: every][:n_bins], values[: n_bins * every].reshape(n_bins, every).mean(axis=1)


def _throughput(axes: Axes, flows: list[_FlowSeries], qos: QoS) -> None:
    time_s, capacity = flows[0].binned("capacity_mbps")
    axes.fill_between([0, *time_s], [capacity[0], *capacity], step="pre", color=CAPACITY_COLOUR, lw=0)
    for flow in flows:
        time_s, rate = flow.binned("rate_mbps")
        running = (time_s > flow.spec.start_s) & ((rate > 0) | (time_s <= flow.stop_s))
        axes.plot(time_s, np.where(running, rate, np.nan), color=flow.colour, **STYLE)
    axes.set_ylabel("throughput\n(Mbit/s)", color=INK)
    axes.set_ylim(0, max(float(capacity.max()), qos.capacity_mbps) * 1.12 or 1)


def _delay(axes: Axes, scenario: Scenario, qos: QoS, flow: _FlowSeries) -> list[float]:
    """Draw the queueing delay and the targets of the flows' ensembles. Return these targets in ms."""
    values = flow.columns["queueing_delay_ms"]
    axes.plot(flow.columns["time_s"], values, color=INK, lw=1.1)
    axes.fill_between(flow.columns["time_s"], values, color=INK, alpha=0.10, lw=0)
    p95 = qos.queueing_delay.percentile_ms(95)
    axes.axhline(p95, color=FAINT, lw=1.1, ls=(0, (1, 1.5)))
    targets_ms = sorted({_target_ms(spec) for spec in scenario.flows if spec.ensemble_text is not None})
    for target in targets_ms:
        axes.axhline(target, color="#C0392B", lw=1.2, ls=(0, (5, 2)))
    axes.set_ylabel("queueing delay\n(ms)", color=INK)
    _limit(axes, values, unit="ms", least=max([p95, *targets_ms]) * 1.15)
    return targets_ms


def _target_ms(spec: FlowSpec) -> float:
    """Return the target of the queueing delay of the flow's class in its table, in ms."""
    line = next(line for line in (spec.ensemble_text or "").splitlines() if line.startswith("classes "))
    return int(line.split()[1 + spec.delay_class].split(":")[1]) / 1000


def _lines(axes: Axes, flows: list[_FlowSeries], key: str, what: str, unit: str) -> None:
    shown = [flow.shown(key) for flow in flows]
    for flow, values in zip(flows, shown, strict=True):
        axes.plot(flow.columns["time_s"], values, color=flow.colour, **STYLE)
    axes.set_ylabel(f"{what}\n({unit})", color=INK)
    values = np.concatenate(shown)
    values = values[np.isfinite(values)]
    if not len(values):
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=FAINT)
        axes.set_yticks([])
        return
    _limit(axes, values, unit=unit)


def _retransmissions(axes: Axes, flows: list[_FlowSeries]) -> None:
    for flow in flows:
        time_s, pkts = flow.binned("retransmitted_pkts")
        pkts_per_s = pkts / flow.columns["time_s"][0]
        axes.fill_between(time_s, pkts_per_s, step="pre", color=flow.colour, alpha=0.35, lw=0)
        axes.plot(time_s, pkts_per_s, color=flow.colour, drawstyle="steps-pre", lw=1.0)
    axes.set_ylabel("retransmitted\n(packets/s)", color=INK)
    axes.set_ylim(bottom=0, top=None if any(flow.columns["retransmitted_pkts"].any() for flow in flows) else 1)


def _buffer(axes: Axes, flow: _FlowSeries, qos: QoS) -> None:
    assert qos.buffered_bytes is not None  # noqa: S101 (the caller draws it only then)
    axes.plot(flow.columns["time_s"], qos.buffered_bytes / 1000, color=INK, **STYLE)
    axes.set_ylabel("proxy's buffer\n(kB)", color=INK)
    axes.set_ylim(bottom=0)


def _limit(axes: Axes, values: Values, *, unit: str, least: float = 0.0) -> None:
    """Set the axis from 0 to the peak, at least to `least`.

    If the peak is rare and far above the 98th percentile, the axis is shorter and a text states the peak.
    """
    most, usual = float(values.max()), float(np.percentile(values, 98))
    top = max(most * 1.08 if most < RARE_PEAK * usual else usual * 1.3, least, 1e-3)
    axes.set_ylim(0, top)
    if most > top:
        text = f"peak {most:.{0 if most >= 10 else 1}f} {unit}"
        axes.text(0.995, 0.95, text, transform=axes.transAxes, ha="right", va="top", fontsize=8, color=FAINT)


def _drops_of(qos: QoS) -> dict[str, tuple[Values, Values]]:
    """Return (times, drops in packets per second) of each element that dropped packets, by its name."""
    if qos.element_series is None:
        return {}
    time_s = qos.element_series.time_s
    # The series has the drops since the previous sample.
    pkts_per_s = qos.element_series.dropped / time_s[0]
    return {
        element.name: _binned(time_s, pkts_per_s[:, number])
        for number, element in enumerate(qos.elements)
        if pkts_per_s[:, number].any()
    }


def _drops(axes: Axes, drops: dict[str, tuple[Values, Values]]) -> None:
    """Draw the drops of the elements as stacked bars."""
    below: Values | None = None
    for number, (time_s, rates) in enumerate(drops.values()):
        below = np.zeros_like(rates) if below is None else below
        width = time_s[0]
        colour = DROP_COLOURS[number % len(DROP_COLOURS)]
        axes.bar(time_s, rates, -width, bottom=below, align="edge", color=colour, lw=0)
        below = below + rates
    axes.set_ylim(0, (float(np.max(below)) if below is not None else 0.0) * 1.08 or 1)
    axes.set_ylabel("drops\n(packets/s)", color=INK)


def _states(axes: Axes, flows: list[_FlowSeries], qos: QoS, duration_s: float) -> None:
    for row, flow in enumerate(flows):
        _strip(axes, flow, row)
        last_s = -np.inf
        for end in qos.flows[flow.number].epoch_ends:
            at_s = end.at_ms / 1000
            axes.plot([at_s, at_s], [row - 0.4, row + 0.4], color=INK, lw=0.9)
            if end.state is not None and at_s - last_s > duration_s / 40:
                axes.text(at_s, row, f" {end.state}", fontsize=7.5, va="center", color=INK, clip_on=True)
                last_s = at_s
    axes.set_yticks(range(len(flows)), [f"{flow.number + 1}" for flow in flows])
    axes.set_ylim(len(flows) - 0.4, -0.6)
    axes.set_ylabel("state\n(flow)", color=INK)


def _strip(axes: Axes, flow: _FlowSeries, row: int) -> None:
    """Draw the modes of a flow as bars; a plain bar for algorithms without modes."""
    time_s, modes = flow.columns["time_s"], flow.columns["mode"]
    step_s = time_s[0]
    changes = np.flatnonzero(np.diff(modes) != 0) + 1
    changes = np.union1d(changes, np.flatnonzero(np.diff(flow.runs.astype(int)) != 0) + 1)
    edges = [0, *changes.tolist(), len(time_s)]
    for first, end in pairwise(edges):
        if not flow.runs[first]:
            continue
        names = modes_of(flow.spec.cca)
        colour = MODE_COLOURS[names[int(modes[first])]] if names else CAPACITY_COLOUR
        axes.barh(row, time_s[end - 1] - time_s[first] + step_s, left=time_s[first] - step_s, height=0.8, color=colour)


def _dress(axes: Axes, scenario: Scenario) -> None:
    axes.set_xlim(0, scenario.duration_s)
    dress(axes, ink=INK, grid="#ECEFF2", spine="#B8C0CA", ticks=4)
    axes.yaxis.label.set_fontsize(9.5)
    if scenario.warmup_s > 0:
        axes.axvspan(0, scenario.warmup_s, facecolor="none", edgecolor="#C9CFD6", hatch="///", lw=0)


def _modes_seen(strips: list[_FlowSeries]) -> set[str]:
    """Return the names of all modes that the panel of states shows."""
    return {
        modes_of(flow.spec.cca)[int(mode)]
        for flow in strips
        if modes_of(flow.spec.cca)
        for mode in np.unique(flow.columns["mode"][flow.runs])
    }


def _handles(
    flows: list[_FlowSeries], strips: list[_FlowSeries], targets_ms: list[float], drops: list[str], qos: QoS
) -> list[Artist]:
    """Return the entries of the legend. strips: the flows in the panel of states, if there is one."""
    handles: list[Artist] = [Patch(color=CAPACITY_COLOUR, label="link capacity")]
    handles += [Line2D([], [], color=flow.colour, lw=2, label=flow.label) for flow in flows[:MOST_LEGEND_FLOWS]]
    if len(flows) > MOST_LEGEND_FLOWS:
        handles.append(Line2D([], [], lw=0, label=f"and {len(flows) - MOST_LEGEND_FLOWS} more"))
    handles.append(Line2D([], [], color=FAINT, lw=1.4, ls=(0, (1, 1.5)), label="95th percentile"))
    if targets_ms:
        handles.append(Line2D([], [], color="#C0392B", lw=1.4, ls=(0, (5, 2)), label="target delay"))
    handles += [
        Patch(color=DROP_COLOURS[number % len(DROP_COLOURS)], label=f"dropped: {name}")
        for number, name in enumerate(drops)
    ]
    handles += [Patch(color=MODE_COLOURS[name], label=name) for name in MODE_COLOURS if name in _modes_seen(strips)]
    if any(end.state is not None for flow in strips for end in qos.flows[flow.number].epoch_ends):
        handles.append(Line2D([], [], color=INK, lw=0, marker="$12$", ms=9, label="state of the epoch"))
    return handles


def _head(figure: Figure, scenario: Scenario, qos: QoS, handles: list[Artist]) -> None:
    link = scenario.link
    rtt = f"{link.rtt_ms:g}" if link.delays is None else f"{link.rtt_ms:g} to {link.delays.most_rtt_ms:g}"
    buffer = f"{link.buffer_pkts} packets" if link.buffer_pkts is not None else "no bound"
    if link.buffer_bytes is not None:
        buffer = f"{link.buffer_bytes / 1000:g} kB"
    loss = f", loss {link.loss:.2%}" if link.loss else ""
    figure.suptitle(
        f"{textwrap.fill(f'{scenario.name}, RTT {rtt} ms, buffer {buffer}{loss}', TITLE_CHARS)}\n"
        f"{qos.throughput_mbps:.2f} of {qos.capacity_mbps:.2f} Mbit/s ({qos.utilization:.1%}), "
        f"queueing delay p50 {qos.queueing_delay.percentile_ms(50):.1f}, "
        f"p95 {qos.queueing_delay.percentile_ms(95):.1f} ms, retransmitted {qos.retransmission_rate:.2%}",
        fontsize=11.5,
        color=INK,
    )
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns_that_fit(handles, WIDTH_IN),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=1.6,
        columnspacing=1.6,
    )
