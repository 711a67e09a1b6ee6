# SPDX-License-Identifier: MIT
"""`ccatune report axes`: what axes of GR's network states are worth, most of which the core does not measure.

A flow with GR's defaults runs over an epoch of a recorded link, and measures there:

    throughput     rate of the last 250 ms
    min_rtt        least RTT
    variability    mean difference of successive rates over 100 ms, over the mean rate
    lateness       95th percentile of the RTT above the least one, over the flow's T
    ack_gap        sum g^2 / sum g over the gaps g between ACKs, each at most 100 ms: the gap that a random instant of
                   the epoch falls into, so that the ACKs within a bunch do not matter

The next epoch runs with each of a list of parameter sets. An axis divides the epochs into LEVELS equal groups by its
value in the epoch before, and a pair of axes by both values. Each group takes the set

    argmax  sum over its training epochs [delivered - l (late - 5 % of delivered)]

with one price l for all groups, which thus share one budget of late packets. Over all prices the sets give a line of
utilization and late share on the validation epochs. The figure of a division is the utilization on this line at a late
share of 5 %, so that all divisions are compared at the same 95th percentile of the delay. It is 0 where all points of
the line are later.

    one set        no division
    path           by the true path
    best           each validation epoch takes the best set for itself: the bound of all divisions

The interval of a gain is a percentile bootstrap over the epochs, training and validation (training/intervals.py).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from emulation.run.measures import Trial, measure
from emulation.run.qos import QoS
from emulation.run.simulator import compact_edges_us, default_threads, simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath, Clock, Jitter
from emulation.traces import Part, Recording
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text
from kmod.tables import Column, table_lines
from kmod.terminal import echo
from training.commands import recordings_of
from training.errors import TrainingError
from training.intervals import drawn_weights, interval_95
from training.objectives.tally import WIRE_PACKET_BYTES
from training.options import as_json_option, threads_option, traces_option
from training.progress import Terminal
from training.searches import Dimension, Space
from training.searches.points import sobol_points
from training.workloads.epochs import default_values

Floats = NDArray[np.float64]
Division = tuple[NDArray[np.int64], NDArray[np.int64]]  # the groups of training epochs and of validation epochs

AXES = ("throughput", "min_rtt", "variability", "lateness", "ack_gap")
PARTS: tuple[Part, ...] = ("train", "validation")
TARGETS_MS = (50, 100, 200)
SHARE_LATE = 0.05
LEVELS = 4
EPOCH_MS, WARMUP_MS = 30_000, 3_000
LEAST_BYTES = 75_000  # of an epoch; a link with less is in an outage (20 kbit/s)
MOST_GAP_MS = 100.0
PRICES = np.logspace(-3, 2, 41)
UNDISTURBED = 3
PATHS: tuple[Mapping[str, Any], ...] = (
    *({"rtt_ms": rtt_ms} for rtt_ms in (*[100.0] * UNDISTURBED, 20.0, 250.0)),
    *({"rtt_ms": 100.0, "acks": AckPath(interval_ms=ms)} for ms in (5.0, 20.0, 40.0)),
    {"rtt_ms": 100.0, "behind": (Clock(least_ms=10, most_ms=40),)},
    {"rtt_ms": 100.0, "behind": (Jitter(max_ms=30),)},
)


@dataclass(frozen=True)
class PathEpoch:
    """An epoch of a recorded link, from start_ms on, over one of PATHS."""

    recording: Recording
    start_ms: int
    path: int

    def scenario(self, start_ms: int) -> Scenario:
        """An epoch from start_ms on, with its warm-up."""
        begin_ms, end_ms = start_ms - WARMUP_MS, start_ms + EPOCH_MS
        link = LinkSpec(trace=self.recording.cut(begin_ms, end_ms).trace, **PATHS[self.path])
        return Scenario(link=link, flows=(FlowSpec(cca="gr"),), duration_s=(end_ms - begin_ms) / 1000,
                        warmup_s=WARMUP_MS / 1000, seed=start_ms)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Runs:
    """Epochs with their values on AXES in the epoch before, and what each set carried in them.

    capacity: bytes, float [epochs]. delivered, and late, that is, later than the target: bytes, float [epochs, targets,
    sets].
    """

    values: Floats
    paths: NDArray[np.int64]
    capacity: Floats
    delivered: Floats
    late: Floats


def draw_epochs(recordings: Sequence[Recording], count: int, *, paths: int, seed: int) -> list[PathEpoch]:
    """About `count` epochs, as many of each dataset as it has, at equal distances; each on one of the first paths."""
    found: dict[str, list[tuple[Recording, int]]] = {}
    for recording in recordings:
        for start_ms in range(EPOCH_MS + WARMUP_MS, recording.trace.period_ms - EPOCH_MS + 1, EPOCH_MS):
            pair = (start_ms - EPOCH_MS, start_ms)
            if min(recording.trace.capacity_bytes(at, at + EPOCH_MS) for at in pair) >= LEAST_BYTES:
                found.setdefault(recording.dataset, []).append((recording, start_ms))
    most = -(-count // max(len(found), 1))
    chosen = [its[(2 * i + 1) * len(its) // (2 * n)] for its in found.values() for n in (min(most, len(its)),)
              for i in range(n)]  # fmt: skip
    if len(chosen) < 2 * LEVELS:
        raise TrainingError(f"report: expected at least {2 * LEVELS} pairs of epochs, got {len(chosen)}; "
                            "give longer traces")  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(chosen)) % paths
    return [PathEpoch(recording, start_ms, int(p)) for (recording, start_ms), p in zip(chosen, order, strict=True)]


def axis_values(qos: QoS) -> list[float]:
    """The values on AXES of a run with a point for each ms."""
    series, skipped = qos.series, WARMUP_MS
    rate, rtt_ms = series["rate_mbps"][skipped:], series["rtt_ms"]
    # The smoothed RTT changes with each ACK that has a sample.
    came = np.flatnonzero(np.diff(series["smoothed_rtt_ms"])) + 1
    came = came[came >= skipped]
    gaps_ms = np.minimum(np.diff(series["time_s"][came]) * 1000, MOST_GAP_MS)
    least_ms = rtt_ms[rtt_ms > 0].min(initial=1e6)
    means = rate[: len(rate) // 100 * 100].reshape(-1, 100).mean(axis=1)
    late_ms = np.percentile(rtt_ms[came] - least_ms, 95) if len(came) else 0.0
    return [
        float(rate[-250:].mean()),
        float(least_ms),
        float(np.abs(np.diff(means)).mean() / max(rate.mean(), 1e-9)),
        float(late_ms * 1000 / default_values("gr")["delay_threshold_us"]),
        float((gaps_ms**2).sum() / gaps_ms.sum()) if len(gaps_ms) else MOST_GAP_MS,
    ]


def trials_of(sets: int, *, gain_permille: int) -> list[Trial]:
    """The sets of each target, in ranges that hold the best ones of all paths. The second half tracks the target."""
    names = (*default_values("gr"), "tracking_gain_permille")
    axis = Axis("throughput_bytes_per_s", "linear", 125_000, 1)
    trials = []
    for target_ms in TARGETS_MS:
        ranges = ((2000, 100_000), (500, 10_000), (300 * target_ms, 1300 * target_ms))
        space = Space(tuple(Dimension(name, *ends) for name, ends in zip(names, ranges, strict=False)))
        for i, point in enumerate(sobol_points(space, count=sets, seed=(1,))):
            table = Ensemble("gr", EPOCH_MS, 250, 25, (DelayClass(95, target_ms * 1000),), (axis,), names,
                             ((*point, gain_permille * (2 * i >= sets)),))  # fmt: skip
            trials.append(Trial("gr", ensemble_text=table_text(table, Deployment("report", "axes", 1))))
    return trials


def run_epochs(epochs: Sequence[PathEpoch], trials: Sequence[Trial], *, threads: int,
               advance: Callable[[float], None] = lambda _count: None) -> Runs:  # fmt: skip
    """Measure the axes in the epochs before, and run each set. advance: called with 1 for each epoch."""
    edges_us, counts = compact_edges_us(), list[tuple[float, NDArray[np.uint64], Floats]]()
    values = [axis_values(simulate(e.scenario(e.start_ms - EPOCH_MS), series_every_s=1e-3)) for e in epochs]
    within = np.searchsorted(edges_us, np.array(TARGETS_MS) * 1000, side="right")
    for epoch in epochs:
        m = measure([epoch.scenario(epoch.start_ms)], trials, threads=threads)
        delays = m.delay_counts[0].reshape(len(TARGETS_MS), -1, len(edges_us))
        late = [its[:, first:].sum(axis=1) for its, first in zip(delays, within, strict=True)]
        counts.append((float(m.capacity_bytes[0, 0]), m.delivered_bytes[0].reshape(len(TARGETS_MS), -1),
                       np.stack(late, dtype=np.float64) * WIRE_PACKET_BYTES))  # fmt: skip
        advance(1.0)
    columns = [np.array(column, dtype=np.float64) for column in zip(*counts, strict=True)]
    return Runs(np.array(values), np.array([e.path for e in epochs]), *columns)


def divisions(train: Runs, unseen: Runs) -> dict[str, Division]:
    """Every division by its name: one set, each axis and pair, the path."""

    def levels(axis: int) -> Division:
        bounds = np.quantile(train.values[:, axis], np.arange(1, LEVELS) / LEVELS)
        first, second = (np.searchsorted(bounds, runs.values[:, axis]).astype(np.int64) for runs in (train, unseen))
        return first, second

    singles = {name: levels(axis) for axis, name in enumerate(AXES)}
    pairs = {f"{a}, {b}": (LEVELS * singles[a][0] + singles[b][0], LEVELS * singles[a][1] + singles[b][1])
             for a, b in itertools.combinations(AXES, 2)}  # fmt: skip
    one = (np.zeros(len(train.paths), np.int64), np.zeros(len(unseen.paths), np.int64))
    return {"one set": one, **singles, **pairs, "path": (train.paths, unseen.paths)}


def choices(runs: Runs, target: int, groups: NDArray[np.int64], count: int, weights: Floats) -> NDArray[np.int64]:
    """The set of each group at each price, int [prices, groups]. A group without epochs takes that of all epochs."""
    members = np.zeros((count, len(groups)))
    members[groups, np.arange(len(groups))] = weights
    members[members.sum(axis=1) == 0] = weights
    delivered, late = members @ runs.delivered[:, target], members @ runs.late[:, target]
    excess = late - SHARE_LATE * delivered
    return np.stack([np.argmax(delivered - price * excess, axis=1) for price in PRICES])


def utilization(runs: Runs, target: int, chosen: NDArray[np.int64], groups: NDArray[np.int64],
                weights: Floats) -> float:  # fmt: skip
    """Utilization at a late share of SHARE_LATE, on the line of all prices."""
    places, sets = np.arange(len(groups)), chosen[:, groups]
    delivered, late = (((column[:, target][places, sets]) * weights).sum(axis=1)
                       for column in (runs.delivered, runs.late))  # fmt: skip
    shares = late / np.maximum(delivered, 1)
    order = np.argsort(shares)
    used = delivered[order] / (runs.capacity * weights).sum()
    return float(np.interp(SHARE_LATE, shares[order], used, left=0.0))


def price(train: Runs, unseen: Runs, *, draws: int, advance: Callable[[float], None] = lambda _count: None
          ) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each division: utilization and gain over one set, for each target.

    advance: called with 1 for each draw.
    """
    names = divisions(train, unseen)
    everyone = np.arange(len(unseen.paths))
    bests = [choices(unseen, t, everyone, len(everyone), np.ones(len(everyone))) for t in range(len(TARGETS_MS))]
    drawn = [np.vstack([np.ones(len(runs.paths)), drawn_weights(len(runs.paths), seed=s)[:draws]])
             for s, runs in enumerate((train, unseen))]  # fmt: skip
    found: dict[str, list[list[float]]] = {name: [] for name in (*names, "best")}
    for of_train, of_unseen in zip(*drawn, strict=True):
        for name, (first, second) in names.items():
            count = int(max(first.max(), second.max())) + 1
            found[name].append([
                utilization(unseen, t, choices(train, t, first, count, of_train), second, of_unseen)
                for t in range(len(TARGETS_MS))
            ])  # fmt: skip
        found["best"].append([utilization(unseen, t, best, everyone, of_unseen) for t, best in enumerate(bests)])
        advance(1.0)
    return [_row(name, np.array(its), np.subtract(its, found["one set"])) for name, its in found.items()]


def _row(name: str, used: Floats, gains: Floats) -> dict[str, Any]:
    targets = [
        {
            "target_ms": target_ms,
            "utilization": round(float(used[0, t]), 4),
            "gain": round(float(gains[0, t]), 4),
            "gain_interval": [round(end, 4) for end in interval_95(gains[1:, t])],
        }
        for t, target_ms in enumerate(TARGETS_MS)
    ]
    return {"axes": name, "targets": targets}


def _cells(row: dict[str, Any]) -> list[str]:
    cells = [row["axes"]]
    for target in row["targets"]:
        used, gain, low, high = (100 * x for x in (target["utilization"], target["gain"], *target["gain_interval"]))
        cells += [f"{used:.1f}", f"{gain:+.1f} [{low:+.1f}, {high:+.1f}]"]
    return cells


@click.command()
@as_json_option
@threads_option
@traces_option
@click.option("--epochs", "count", type=click.IntRange(20), default=330, show_default=True, help="Epochs of each part")
@click.option("--sets", type=click.IntRange(2), default=48, show_default=True, help="Parameter sets of each target")
@click.option("--tracking", type=click.IntRange(0, 10_000), default=1000, show_default=True, help="Of half the sets")
@click.option("--draws", type=click.IntRange(10, 400), default=60, show_default=True, help="Draws of the bootstrap")
@click.option("--undisturbed", is_flag=True, help="Only paths without bunches of ACKs, jitter or another RTT")
def axes(*, as_json: bool, threads: int | None, paths: tuple[Path, ...], count: int, sets: int, tracking: int,
         draws: int, undisturbed: bool) -> None:  # fmt: skip
    """Price axes of GR's network states: the utilization that parameter sets by their levels gain over one set.

    All figures are at the target's 95th percentile of the queueing delay, over all epochs together.

    \b
    Example:
      ccatune report axes
      ccatune report axes --tracking 0 --undisturbed
    """
    kinds = UNDISTURBED if undisturbed else len(PATHS)
    with Terminal(quiet=as_json) as terminal:
        terminal.phase("reading traces", total=1)
        parts = [draw_epochs(recordings_of(paths, part=part), count, paths=kinds, seed=s)
                 for s, part in enumerate(PARTS, 1)]  # fmt: skip
        terminal.phase("running epochs", total=sum(map(len, parts)))
        trials = trials_of(sets, gain_permille=tracking)
        train, unseen = (run_epochs(part, trials, threads=threads or default_threads(), advance=terminal.advance)
                         for part in parts)  # fmt: skip
        terminal.phase("drawing epochs", total=draws + 1)
        rows = price(train, unseen, draws=draws, advance=terminal.advance)
    heads = [Column(text, "right") for ms in TARGETS_MS for text in (f"{ms} ms\nused %", "\ngain")]
    lines = table_lines([Column("levels of"), *heads], [_cells(row) for row in rows])
    lines.append(f"{len(train.paths)} training and {len(unseen.paths)} validation epochs")
    echo(json.dumps({"rows": rows}, indent=1) if as_json else "\n".join(lines))
