# SPDX-License-Identifier: MIT
"""The statistics of runs as Pantheon computes them, and its statistics log.

    throughput   bytes that left, divided by the time from the first to the last departure
    ingress      bytes that entered, divided by the time from the first to the last arrival
    delay        95th percentile of the one-way delay of the packets that left; always the delay of one packet
    loss         1 - bytes that left / bytes that entered
    capacity     bytes of all delivery opportunities, divided by the time from the first to the last one
    total        the same statistics for all flows together

A rate over a time of 0 is stated as 0. Rates are in Mbit/s, 10^6 bits per second.
Source: tunnel_graph.py and plot.py of Pantheon.
For each statistic the module also computes mean, sample standard deviation, minimum and maximum over a scheme's runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from emulation.mahimahi.logs import Departures, Floats, FlowEvents, Ints, TunnelLog
from emulation.traces.files import read_file, write_file

PERCENTILE = 95
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
KEPT_LINES = ("Start at:", "End at:", "clock offset:")


@dataclass(frozen=True)
class Traffic:
    """Statistics of one flow or of all flows. delay_*: None if no packet left. loss: None if it is undefined."""

    throughput_mbps: float
    ingress_mbps: float
    delay_p95_ms: float | None
    delay_median_ms: float | None
    loss: float | None


@dataclass(frozen=True)
class RunStatistics:
    """Statistics of one direction of a run. duration_ms: from the first to the last departure. flows: by number."""

    capacity_mbps: float | None
    duration_ms: float
    total: Traffic
    flows: dict[int, Traffic]

    @property
    def utilization(self) -> float | None:
        """Throughput over capacity; None if the log states no capacity."""
        return self.total.throughput_mbps / self.capacity_mbps if self.capacity_mbps else None


@dataclass(frozen=True)
class Spread:
    """A statistic over n runs. sd: sample standard deviation, 0 for one run."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Summary:
    """Statistics over the valid runs of a scheme. A statistic is None if no run has it. flows: by number."""

    throughput_mbps: Spread | None
    delay_p95_ms: Spread | None
    delay_median_ms: Spread | None
    loss: Spread | None
    utilization: Spread | None = None
    capacity_mbps: Spread | None = None
    flows: dict[int, Summary] = field(default_factory=dict)


def run_statistics(log: TunnelLog) -> RunStatistics:
    """Compute the statistics of one direction of a run."""
    flows = {}
    for flow in log.flows:
        came, left = log.entered.flow == flow, log.left.flow == flow
        flows[flow] = _traffic(
            FlowEvents(log.entered.times_ms[came], log.entered.bytes[came], log.entered.flow[came]),
            Departures(log.left.times_ms[left], log.left.bytes[left], log.left.delay_ms[left], log.left.flow[left]),
            needs_departure=True,
        )
    return RunStatistics(
        capacity_mbps=_rate_mbps(log.capacity.times_ms, log.capacity.bytes) if len(log.capacity) else None,
        duration_ms=float(np.ptp(log.left.times_ms)) if len(log.left) else 0.0,
        total=_traffic(log.entered, log.left, needs_departure=False),
        flows=flows,
    )


def _traffic(entered: FlowEvents, left: Departures, *, needs_departure: bool) -> Traffic:
    """Compute the statistics of one flow, or of all flows.

    needs_departure: do not state the loss if no packet left. Pantheon does so for single flows, but not for the total.
    """
    entered_bytes = int(entered.bytes.sum())
    has_loss = entered_bytes > 0 and (len(left) > 0 or not needs_departure)
    return Traffic(
        throughput_mbps=_rate_mbps(left.times_ms, left.bytes),
        ingress_mbps=_rate_mbps(entered.times_ms, entered.bytes),
        delay_p95_ms=_percentile(left.delay_ms, PERCENTILE),
        delay_median_ms=_percentile(left.delay_ms, 50),
        loss=1 - int(left.bytes.sum()) / entered_bytes if has_loss else None,
    )


def _rate_mbps(times_ms: Floats, size_bytes: Ints) -> float:
    duration_ms = float(np.ptp(times_ms)) if len(times_ms) else 0.0
    return int(size_bytes.sum()) * 8 / (1000 * duration_ms) if duration_ms else 0.0


def _percentile(values: Floats, percentile: int) -> float | None:
    return float(np.percentile(values, percentile, method="nearest")) if len(values) else None


def summarise(runs: Sequence[RunStatistics]) -> Summary:
    """Compute the statistics over runs. Those of a flow are over the runs in which it has packets."""
    flows = sorted({flow for run in runs for flow in run.flows})
    return Summary(
        **_spreads([run.total for run in runs]),
        utilization=_spread([run.utilization for run in runs]),
        capacity_mbps=_spread([run.capacity_mbps for run in runs]),
        flows={flow: Summary(**_spreads([run.flows[flow] for run in runs if flow in run.flows])) for flow in flows},
    )


def _spreads(traffics: list[Traffic]) -> dict[str, Any]:
    """Return the spreads of the statistics that single flows have, too."""
    names = ("throughput_mbps", "delay_p95_ms", "delay_median_ms", "loss")
    return {name: _spread([getattr(traffic, name) for traffic in traffics]) for name in names}


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    squares = math.fsum((value - mean) ** 2 for value in known)
    sd = math.sqrt(squares / (len(known) - 1)) if len(known) > 1 else 0.0
    return Spread(mean, sd, min(known), max(known), len(known))


def statistics_text(statistics: RunStatistics) -> str:
    """Return the text that Pantheon appends to the statistics log. Its report reads its table from this text."""
    count = len(statistics.flows)
    lines = [f"-- Total of {count} {'flow' if count == 1 else 'flows'}:"]
    if statistics.capacity_mbps is not None:
        lines.append(f"Average capacity: {statistics.capacity_mbps:.2f} Mbit/s")
    used = statistics.utilization
    share = f" ({100 * used:.1f}% utilization)" if used is not None else ""
    lines += _traffic_lines(statistics.total, share)
    for flow, traffic in statistics.flows.items():
        lines += [f"-- Flow {flow}:", *_traffic_lines(traffic)]
    return "".join(f"{line}\n" for line in lines)


def _traffic_lines(traffic: Traffic, share: str = "") -> list[str]:
    lines = [f"Average throughput: {traffic.throughput_mbps:.2f} Mbit/s{share}"]
    if traffic.delay_p95_ms is not None:
        lines.append(f"95th percentile per-packet one-way delay: {traffic.delay_p95_ms:.3f} ms")
    if traffic.loss is not None:
        lines.append(f"Loss rate: {100 * traffic.loss:.2f}%")
    return lines


def write_stats_log(path: Path, *, start: datetime, end: datetime) -> None:
    """Write the statistics log of a run that has ended, with the run's start and end in UTC.

    Raises EmulationError if the file cannot be written.
    """
    write_file(path, f"Start at: {start.strftime(TIME_FORMAT)}\nEnd at: {end.strftime(TIME_FORMAT)}\n".encode())


def update_stats_log(path: Path, statistics: RunStatistics, *, now: datetime) -> None:
    """Write the statistics into the statistics log of a run, after the run's start and end. Replace earlier ones.

    now: the time in UTC that the log states. As in Pantheon, the log is not created if it does not exist.

    Raises EmulationError if the file cannot be read or written.
    """
    if not path.is_file():
        return
    kept = "".join(f"{line}\n" for line in _kept_lines(path))
    head = f"\n# Below is generated by ccatune at {now.strftime(TIME_FORMAT)}\n# Datalink statistics\n"
    write_file(path, (kept + head + statistics_text(statistics)).encode())


def read_stats_log(path: Path) -> dict[str, str]:
    """Return the first lines of a statistics log: "Start at", "End at" and, for remote runs, the clock offsets.

    The result is empty if the file does not exist.

    Raises EmulationError if the file cannot be read.
    """
    if not path.is_file():
        return {}
    lines = [line.partition(":") for line in _kept_lines(path)]
    return {name.strip(): value.strip() for name, _, value in lines}


def _kept_lines(path: Path) -> list[str]:
    lines = read_file(path).decode(errors="replace").splitlines()
    return [line for line in lines if any(word in line for word in KEPT_LINES)]
