# SPDX-License-Identifier: MIT
"""The bound of learning: what the study's own search finds on the very cases that judge.

In each state the study's search chooses a row on the cases that judge, at the requirement itself. The result, or the
better of the two sets below, is the best that one parameter set a state can do, up to the search. Beside it stand the
ensemble's rows and the best single set on the same cases. Where the bound misses a requirement, no learning can meet it
there. Where it does not, the difference is what was not learned. Where the single set has less cost than the bound, it
violates the requirement in some states, and no rows can both meet it and cost as little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.runner import CaseRunner
from training.searches import Score
from training.study import StudySettings, single_sets
from training.workloads import Case, State

__all__ = ["SCHEMES", "bounds"]

SCHEMES = ("bound", "ensemble", "single")


def bounds(
    study: StudySettings,
    ensemble: Ensemble,
    states: Mapping[State, Sequence[Case]],
    *,
    threads: int,
    judged: Callable[[float], None] = lambda _count: None,
) -> list[dict[str, Any]]:
    """A row for each class. states: the cases that judge each. judged: called with 1 after each state.

    A row holds if the ensemble meets the requirement in as many states as the bound.

    Raises:
        TrainingError: the ensemble has no single sets, or no state has cases.
    """
    singles = single_sets(ensemble)
    if singles is None or not states:
        raise TrainingError(f"report: expected single sets in the provenance of {ensemble.digest} and a state with "
                            "enough unseen cases; train it with this version, or give longer traces")  # fmt: skip
    objectives = study.objective.objectives(study.cca, "judging")
    runner = CaseRunner(study.cca, study.names, objectives, threads=threads)
    scores: list[list[tuple[int, dict[str, Score]]]] = [[] for _ in objectives]
    for state, cases in states.items():
        evaluator = Evaluator(runner, cases, rounds=study.rounds)
        searches = [(study.search.make(study.space(c), [], samples=(study.seed, *state, 0),
                                       steps=(study.seed, *state, c + 1)), one)
                    for c, one in enumerate(objectives)]  # fmt: skip
        best = optimise(evaluator, searches)
        for c, objective in enumerate(objectives):
            sets = (ensemble.row(state, c), singles[c])
            points = [tuple(values[name] for name in study.names) for values in sets]
            row, single = evaluator.evaluate([Request(point, objective) for point in points])
            bound = min(best[c].score, row, single, key=lambda score: score.rank)
            capacity = sum(case.capacity_bytes for case in cases)
            scores[c].append((capacity, {"bound": bound, "ensemble": row, "single": single}))
        judged(1.0)
    rows = []
    for c, its in enumerate(scores):
        sums = {scheme: _summed(its, scheme) for scheme in SCHEMES}
        holds = sums["ensemble"]["met"] >= sums["bound"]["met"]
        rows.append({"class": c, "states": len(its), **sums, "holds": holds})
    return rows


def _summed(states: Sequence[tuple[int, dict[str, Score]]], scheme: str) -> dict[str, Any]:
    """The states that meet the requirement, and the mean cost, in which a state weighs as much as its cases carry."""
    whole = sum(capacity for capacity, _ in states)
    cost = sum(capacity * scores[scheme].cost for capacity, scores in states) / whole
    return {"met": sum(scores[scheme].feasible for _, scores in states), "cost": round(cost, 4)}
