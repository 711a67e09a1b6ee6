# SPDX-License-Identifier: MIT
"""An ensemble on made traces against the same on the recorded ones they were fitted on.

For each dataset a model is fitted on its recordings and makes about as much of the
link again; flows run over both with the ensemble. The line: on every dataset and
target the two utilisations differ by at most 3 points, and the two 95th-percentile
delays by at most 15 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from emulation.traces import Recording
from emulation.traces.synthetic import fit, make_recordings
from kmod.ensemble import Ensemble
from training.reports.robustness import Condition, robustness

__all__ = ["MOST_DELAY_SHARE", "MOST_POINTS", "synthetic"]

MOST_POINTS = 0.03
MOST_DELAY_SHARE = 0.15
PIECE_S = 600.0


def synthetic(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    seed: int,
    threads: int | None = None,
    told: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each dataset and target; `told` is given the dataset's name when it is done."""
    datasets: defaultdict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        datasets[recording.dataset].append(recording)
    rows = []
    for name, recorded in sorted(datasets.items()):
        count = max(math.ceil(sum(r.duration_s for r in recorded) / PIECE_S), 1)
        made = make_recordings(fit(recorded), duration_s=PIECE_S, count=count, seed=seed)
        both = [
            robustness(ensemble, traces, conditions=[Condition(what)], threads=threads)[0]["targets"]
            for what, traces in (("recorded", recorded), ("made", made))
        ]
        rows += [_row(name, real, imitated) for real, imitated in zip(*both, strict=True)]
        told(name)
    return rows


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
