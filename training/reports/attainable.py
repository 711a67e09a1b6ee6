# SPDX-License-Identifier: MIT
"""Whether rows that meet their targets can use as much of the link as a single set that does not.

The best single set meets a target over all packets together and overdraws it on many
levels, and what it uses there counts. So rows that meet the target on each level may
use less however well they were chosen. Here the study's own search chooses a row for
every level on the very epochs that judge, at the target itself: the best that one set
a level can do, up to the search (or the set of the two below that does better there).
Beside it the ensemble's rows and the single set on the same epochs, each run by
itself. The levels are summed by their capacity.

What is attainable falls short where the single set uses more: then no learning can
both meet the targets and use as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kmod.ensemble import Ensemble
from training.build import single_sets
from training.errors import TrainingError
from training.evaluator import Evaluator, Request
from training.flows import EpochRunner, epoch_cases, objectives
from training.optimise import optimise
from training.plan import by_level, choose
from training.search import Score
from training.settings import StudySettings, make_search
from training.states import StateEpoch

__all__ = ["attainable"]


def attainable(
    study: StudySettings,
    ensemble: Ensemble,
    epochs: Sequence[StateEpoch],
    *,
    least_epochs: int,
    most_epochs: int,
    threads: int,
    told: Callable[[float], None] = lambda _count: None,
) -> list[dict[str, Any]]:
    """A row for each target; `epochs` are those that judge.

    least_epochs: of a level that counts. most_epochs: of a level that run. told: given 1 for each level.

    Raises:
        TrainingError: the ensemble says nothing of its single sets, or no level has enough epochs.
    """
    singles = single_sets(ensemble)
    if singles is None:
        raise TrainingError(
            f"report: expected single sets in the provenance of {ensemble.digest}, got none; train it with this version"
        )
    levels = {level: its for level, its in sorted(by_level(epochs).items()) if len(its) >= least_epochs}
    if not levels:
        raise TrainingError(f"report: expected a level with {least_epochs} epochs, got none; give longer traces")
    runner = EpochRunner(study, threads=threads)
    asked = objectives(study, runner, aim=False)
    scores: list[list[tuple[int, dict[str, Score]]]] = [[] for _ in asked]
    for level, its in levels.items():
        evaluator = Evaluator(runner, epoch_cases(study, choose(its, most_epochs)), rounds=study.rounds)
        searches = [(make_search(study, state=level, delay_class=c), objective) for c, objective in enumerate(asked)]
        best = optimise(evaluator, searches)
        capacity = sum(epoch.capacity_bytes for epoch in its)
        for c, objective in enumerate(asked):
            sets = (ensemble.row(level, c), singles[c])
            points = [tuple(values[name] for name in study.names) for values in sets]
            row, single = evaluator.evaluate([Request(point, objective, lambda _bound: False) for point in points])
            bound = min(best[c].score, row, single, key=lambda score: score.rank)
            scores[c].append((capacity, {"bound": bound, "ensemble": row, "single": single}))
        told(1.0)
    return [
        {
            "target_ms": study.classes[c].queueing_delay_ms,
            "levels": len(its),
            **{scheme: _summed(its, scheme) for scheme in ("bound", "ensemble", "single")},
        }
        for c, its in enumerate(scores)
    ]


def _summed(levels: Sequence[tuple[int, dict[str, Score]]], scheme: str) -> dict[str, Any]:
    """Levels met, and the share of all their capacity that is used."""
    whole = sum(capacity for capacity, _ in levels)
    used = sum(capacity * scores[scheme].utilization for capacity, scores in levels)
    return {"levels_met": sum(scores[scheme].feasible for _, scores in levels), "utilization": round(used / whole, 4)}
