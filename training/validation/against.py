# SPDX-License-Identifier: MIT
"""Compares an ensemble on real kernels with other schemes, by Pantheon's protocol, over pieces of recordings.

    pieces      of equal length, evenly spread over the recordings; each is the uplink of a test of Pantheon
    schemes     the ensemble's algorithm with each of its delay classes, and the schemes that were named
    throughput  bytes of IP that left the link, over the measured time of all pieces
    delay       95th percentile of the one-way delay of all packets, less the propagation delay
    within      share of the flows whose own 95th percentile is within the ensemble's target (recordings.py)

Pieces begin with the flow, so slow start counts. The table is of flows that are new, not of long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emulation.mahimahi.logs import log_path, read_log
from emulation.pantheon.data_folder import begin
from emulation.pantheon.links import TestLink
from emulation.pantheon.run_command import default_jobs, run_tests
from emulation.pantheon.runner import TestSettings
from emulation.pantheon.schemes import Scheme, read_schemes, schemes_of
from emulation.traces import Recording
from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.validation.recordings import WITHIN
from training.validation.recordings import Path as LinkPath

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERCENTILE = 95
# Two opportunities in every ms, 24 Mbit/s: ACKs wait for the next ms at most.
_DOWNLINK_MS = np.asarray([1, 1])


def _pieces(recordings: Sequence[Recording], count: int, length_s: int) -> list[tuple[str, np.ndarray]]:
    """Return (name, opportunities in ms) of `count` pieces, evenly spread over all recordings.

    Raises:
        TrainingError: the recordings have fewer pieces.
    """
    length_ms = length_s * 1000
    places = [(r, at) for r in recordings for at in range(0, r.trace.period_ms - length_ms + 1, length_ms)]
    if len(places) < count:
        raise TrainingError(f"--pieces: expected at most {len(places)}, which the recordings have, got {count}")
    found = []
    for number in range(count):
        recording, at_ms = places[(2 * number + 1) * len(places) // (2 * count)]
        piece = recording.trace.slice(at_ms, at_ms + length_ms)
        name = (
            f"{recording.name}-{at_ms // 1000}s".replace("/", "-").replace("[", "-").replace("]", "").replace(":", "-")
        )
        times = piece.opportunities_ms.astype(np.int64)
        found.append((name, times if times[-1] == length_ms else np.append(times, length_ms)))
    return found


def run_against(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    names: Sequence[str],
    *,
    path: LinkPath,
    pieces: int,
    piece_s: int,
    runs: int,
    folder: Path,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run all schemes over all pieces, and return a row for each scheme.

    folder: of the tests; runs that are done in it are kept. The propagation delay of `path` has to be even in ms.

    Raises:
        TrainingError: a run failed, or the recordings have too few pieces.
        EmulationError: the machine lacks something, or a scheme is unknown.
    """
    delay_ms = path.rtt_ms / 2
    if delay_ms != int(delay_ms) or delay_ms < 1:
        raise TrainingError(f"--rtt-ms: expected an even whole number of ms, got {path.rtt_ms:g}")
    targets = [f"{ensemble.cca}-{each.queueing_delay_us / 1000:g}ms" for each in ensemble.classes] or [ensemble.cca]
    schemes = tuple(schemes_of([*targets, *names], read_schemes()))
    targets_ms = {name: each.queueing_delay_us / 1000 for name, each in zip(targets, ensemble.classes, strict=False)}
    tests = []
    for name, times in _pieces(recordings, pieces, piece_s):
        link = TestLink(
            name=name,
            source="a piece of a recording",
            uplink=times,
            downlink=_DOWNLINK_MS,
            # As in the simulator, the link's packets are lost after its queue.
            prepend=f"mm-delay {int(delay_ms)}" + (f" mm-loss uplink {path.loss:.9f}" if path.loss else ""),
            extra=f"--uplink-queue=droptail --uplink-queue-args=packets={path.buffer_pkts}",
        )
        settings = TestSettings(
            schemes=schemes, link=link, runtime_s=piece_s, run_times=runs, ensembles={ensemble.cca: ensemble}
        )
        tests.append((settings, folder / name, begin(settings, folder / name, resume=True)))
    verdicts = run_tests(tests, jobs=default_jobs(), quiet=quiet)
    bad = next((row for row in verdicts if row["verdict"] != "ok"), None)
    if bad is not None:
        raise TrainingError(
            f"--against: expected all runs ok, got {bad['link']}, {bad['scheme']} run {bad['run']}: {bad['reason']}; "
            "run the same command again to repeat it"
        )
    folders = [its for _, its, _ in tests]
    return {
        "pieces": pieces,
        "piece_s": piece_s,
        "runs": runs,
        "folder": str(folder),
        "schemes": [
            _row(scheme, folders, runs=runs, piece_s=piece_s, delay_ms=delay_ms, target_ms=targets_ms.get(scheme.name))
            for scheme in schemes
        ],
    }


def _row(
    scheme: Scheme, folders: Sequence[Path], *, runs: int, piece_s: int, delay_ms: float, target_ms: float | None
) -> dict[str, Any]:
    logs = [
        read_log(log_path(folder, scheme=scheme.name, run=run, kind="datalink"))
        for folder in folders
        for run in range(1, runs + 1)
    ]
    left_bytes = sum(int(log.left.bytes.sum()) for log in logs)
    offered_bytes = sum(int(log.capacity.bytes.sum()) for log in logs)
    entered_bytes = sum(int(log.entered.bytes.sum()) for log in logs)
    seconds = piece_s * len(logs)
    delays_ms = np.concatenate([log.left.delay_ms for log in logs]) - delay_ms
    flows_ms = np.array([np.percentile(log.left.delay_ms, PERCENTILE) for log in logs]) - delay_ms
    return {
        "scheme": scheme.name,
        "label": scheme.label,
        "throughput_mbps": left_bytes * 8e-6 / seconds,
        "utilization": left_bytes / offered_bytes,
        "p95_queueing_delay_ms": float(np.percentile(delays_ms, PERCENTILE)),
        "median_queueing_delay_ms": float(np.median(delays_ms)),
        "loss": 1 - left_bytes / entered_bytes,
        "flows_p95_ms": [round(float(one), 1) for one in np.sort(flows_ms)],
        "flows_within": None if target_ms is None else float((flows_ms <= WITHIN * target_ms).mean()),
    }


def against_lines(figures: dict[str, Any]) -> list[str]:
    """Return the table as lines of text."""
    head = f"{'scheme':<22} {'Mbit/s':>7} {'used':>7} {'queue p95':>10} {'median':>9} {'loss':>7} within"
    rows = [
        f"{row['scheme']:<22} {row['throughput_mbps']:>7.2f} {row['utilization']:>7.1%} "
        f"{row['p95_queueing_delay_ms']:>7.0f} ms {row['median_queueing_delay_ms']:>6.0f} ms {row['loss']:>7.2%} "
        + ("" if row["flows_within"] is None else f"{row['flows_within']:>6.0%}")
        for row in figures["schemes"]
    ]
    return [_set_up(figures), head, *rows]


def _set_up(figures: dict[str, Any]) -> str:
    runs = f"{figures['runs']} run{'' if figures['runs'] == 1 else 's'} each"
    return f"on real kernels, {figures['pieces']} pieces of {figures['piece_s']} s, {runs}"


def against_figure(figures: dict[str, Any]) -> Figure:
    """Return the picture of throughput against delay. As in Pantheon's, the best place is at the top right."""
    from emulation.figure import new_figure
    from emulation.pantheon.plots import draw_points, styles_of
    from emulation.pantheon.report_command import styles_for

    rows = figures["schemes"]
    names = [row["scheme"] for row in rows]
    styles = styles_of(names, styles_for(names))
    points = [
        (styles[row["scheme"]], np.array([row["p95_queueing_delay_ms"]]), np.array([row["throughput_mbps"]]))
        for row in rows
    ]
    figure = new_figure(9, 5.2)
    axes = figure.subplots()
    axes.set_title(_set_up(figures), fontsize=11, loc="left")
    capacity_mbps = rows[0]["throughput_mbps"] / rows[0]["utilization"]
    draw_points(figure, axes, points, capacity_mbps=capacity_mbps, delay="queueing delay")
    return figure
