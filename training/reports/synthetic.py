# SPDX-License-Identifier: MIT
"""Compares an ensemble on synthetic traces with the same ensemble on the recordings that they imitate.

For each dataset a model is fitted to its recordings. The model makes four times as much of each link as was recorded,
so that most of the random error is that of the recordings. Flows run over both with the ensemble. Both leave out the
links that are too short to fit a model, and the row gives their number.

The criterion: on every dataset and target the two utilisations differ by at most 3 points, and the two 95th-percentile
delays by at most 15 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from emulation.traces import Recording
from emulation.traces.recording import is_numbered
from emulation.traces.synthetic import MIN_FIT_S, TraceModel, fit, make_recordings
from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.reports.robustness import Condition, robustness

__all__ = ["MOST_DELAY_SHARE", "MOST_POINTS", "synthetic"]

MOST_POINTS = 0.03
MOST_DELAY_SHARE = 0.15
PIECE_S = 21600.0
TIMES = 4.0


def synthetic(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    seed: int,
    threads: int | None = None,
    advance: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each dataset and target. advance: called with the dataset's name when its runs are complete.

    Raises:
        TrainingError: no recording is long enough to fit a model to.
    """
    datasets: defaultdict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        datasets[recording.dataset].append(recording)
    rows = []
    for name, every in sorted(datasets.items()):
        recorded = [r for r in every if is_numbered(r) or r.duration_s >= MIN_FIT_S]
        if not recorded:
            continue
        made = _make(fit(recorded), seed)
        both = [
            robustness(ensemble, traces, conditions=[Condition(what)], threads=threads)[0]["targets"]
            for what, traces in (("recorded", recorded), ("made", made))
        ]
        left_out = len(every) - len(recorded)
        rows += [{**_row(name, *pair), "links_left_out": left_out} for pair in zip(*both, strict=True)]
        advance(name)
    if not rows:
        raise TrainingError(f"report: expected a recording of at least {MIN_FIT_S} s, got none; give longer traces")
    return rows


def _make(model: TraceModel, seed: int) -> list[Recording]:
    """Make TIMES as much of each link as was recorded, in pieces of about PIECE_S."""
    made = []
    for i, link in enumerate(model.links):
        wanted_s = TIMES * link.recorded_s
        count = math.ceil(wanted_s / PIECE_S)
        made += make_recordings(model, duration_s=wanted_s / count, count=count, seed=seed + i, link=link.name)
    return made


def _row(dataset: str, recorded: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    points = made["utilization"] - recorded["utilization"]
    share = made["p95_queueing_delay_ms"] / max(recorded["p95_queueing_delay_ms"], 1e-9) - 1
    return {
        "dataset": dataset,
        "target_ms": recorded["target_ms"],
        "recorded": {key: recorded[key] for key in ("p95_queueing_delay_ms", "utilization")},
        "made": {key: made[key] for key in ("p95_queueing_delay_ms", "utilization")},
        "utilization_difference": round(points, 4),
        "delay_difference": round(share, 4),
        "holds": abs(points) <= MOST_POINTS and abs(share) <= MOST_DELAY_SHARE,
    }
