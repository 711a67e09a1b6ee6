# SPDX-License-Identifier: MIT
"""Where a level misses its target: what the grid reaches when it may train on those very epochs.

For every level and target that the ensemble misses on the judged recordings, the
grid searches the epochs that belong to the level there, at the target itself. What
it finds is the bound of the algorithm with one parameter set a level: no search
and no amount of training data would do better. When the bound misses too, the
level cannot be met; when it does not, the difference is what was not learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from training.evaluator import Evaluator
from training.flows import EpochRunner, epoch_cases, objectives
from training.grid import GridSearch
from training.optimise import optimise
from training.plan import by_level, choose
from training.settings import StudySettings
from training.states import StateEpoch

__all__ = ["bounds", "missed"]


def missed(figures: dict[str, Any]) -> list[tuple[int, float]]:
    """(level, target in ms) of what the ensemble misses, from the figures of `judge`."""
    return [(row["level"], row["target_ms"]) for row in figures["levels"] if not row["ensemble"]["meets"]]


def bounds(
    study: StudySettings,
    figures: dict[str, Any],
    epochs: Sequence[StateEpoch],
    *,
    counts: Sequence[int],
    most_epochs: int,
    threads: int,
    told: Callable[[float], None] = lambda _count: None,
) -> list[dict[str, Any]]:
    """A row for each level and target missed; `epochs` are those of the judged recordings.

    told: given the number of rows that were just finished.
    """
    levels = by_level(epochs)
    runner = EpochRunner(study, threads=threads)
    asked = {
        float(study.classes[c].queueing_delay_ms): (study.space(c), objective)
        for c, objective in enumerate(objectives(study, runner, aim=False))
    }
    measured = {(row["level"], row["target_ms"]): row for row in figures["levels"]}
    rows = []
    for level in sorted({level for level, _ in missed(figures)}):
        targets = [target_ms for at, target_ms in missed(figures) if at == level]
        here = choose(levels.get(level, []), most_epochs)
        if here:
            evaluator = Evaluator(runner, epoch_cases(study, here), rounds=study.rounds)
            pairs = [(GridSearch(space, counts=counts), objective) for space, objective in (asked[t] for t in targets)]
            for target_ms, best in zip(targets, optimise(evaluator, pairs, batch=32), strict=True):
                ensemble = measured[level, target_ms]["ensemble"]
                rows.append(
                    {
                        "level": level,
                        "target_ms": target_ms,
                        "windows": measured[level, target_ms]["windows"],
                        "epochs": len(here),
                        "ensemble_delay_ms": round(ensemble["p95_queueing_delay_ms"], 1),
                        "ensemble_utilization": round(ensemble["utilization"], 4),
                        "bound_delay_ms": round(best.score.delay_ms, 1),
                        "bound_utilization": round(best.score.utilization, 4),
                        "bound_meets": best.score.feasible,
                    }
                )
        told(float(len(targets)))
    return rows
