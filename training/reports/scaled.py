# SPDX-License-Identifier: MIT
"""What the levels are worth: the ensemble against one parameter set that keeps a distance from the target.

The best single set of a target is trained on all levels together: it meets the
target over all packets, and misses it on many levels. One that waits less meets it
on more of them, and pays with utilisation. Here its threshold T is scaled down step
by step, W and Delta stay, and each step is judged like the ensemble. The rival of
the ensemble is the scaled set that uses most of the link among those that meet the
target on at least as many levels: what an ensemble gains over its rival is what it
gains by telling levels apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from emulation.traces import Recording
from kmod.abi import ALGORITHMS
from kmod.ensemble import Ensemble
from training.build import single_sets
from training.errors import TrainingError
from training.judge import judge

__all__ = ["SCALES", "scaled"]

SCALES = (1.0, 0.975, 0.95, 0.925, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
THRESHOLD = "delay_threshold_us"


def with_scaled_single(ensemble: Ensemble, scale: float) -> Ensemble:
    """The ensemble with the thresholds of its single sets times `scale`, within the parameter's range.

    Raises:
        TrainingError: it has no single sets, or they have no threshold.
    """
    sets = single_sets(ensemble)
    if not sets or any(THRESHOLD not in values for values in sets):
        raise TrainingError(
            f"report: expected single sets with {THRESHOLD} in the provenance of {ensemble.digest}, got none; "
            "train it with this version"
        )
    least = next(spec.minimum for spec in ALGORITHMS[ensemble.cca].params if spec.name == THRESHOLD)
    entries = [
        {**entry, "values": {**values, THRESHOLD: max(round(values[THRESHOLD] * scale), least)}}
        for entry, values in zip(ensemble.provenance["single"], sets, strict=True)
    ]
    return replace(ensemble, provenance={**ensemble.provenance, "single": entries})


def scaled(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    scales: Sequence[float] = SCALES,
    threads: int | None = None,
    told: Callable[[float], None] = lambda _count: None,
) -> list[dict[str, Any]]:
    """A row for each target: the ensemble, every scaled set (`sets`), and the rival among them, or None.

    holds: the ensemble uses at least as much of the link as its rival. told: 1 for every scale that was judged.
    """
    judged = []
    for scale in scales:
        judged.append(judge(with_scaled_single(ensemble, scale), recordings, threads=threads))
        told(1.0)
    return [_row(judged, scales, target) for target in range(len(ensemble.classes))]


def _row(judged: Sequence[dict[str, Any]], scales: Sequence[float], target: int) -> dict[str, Any]:
    ensemble, met = judged[0]["targets"][target], judged[0]["levels_met"][target]
    sets = [
        {
            "scale": scale,
            "levels_met": figures["levels_met"][target]["single"],
            "utilization": figures["single"][target]["utilization"],
            "p95_queueing_delay_ms": figures["single"][target]["p95_queueing_delay_ms"],
        }
        for scale, figures in zip(scales, judged, strict=True)
    ]
    rivals = [one for one in sets if one["levels_met"] >= met["ensemble"]]
    rival = max(rivals, key=lambda one: one["utilization"], default=None)
    return {
        "target_ms": ensemble["target_ms"],
        "levels": met["levels"],
        "levels_met": met["ensemble"],
        "utilization": ensemble["utilization"],
        "p95_queueing_delay_ms": ensemble["p95_queueing_delay_ms"],
        "sets": sets,
        "rival": rival,
        "holds": rival is None or ensemble["utilization"] >= rival["utilization"],
    }
