# SPDX-License-Identifier: MIT
"""`ccatune report bound`: the bound of learning: the best rows that the study's own search
finds on the validation cases themselves.

In each state the search chooses a row on the cases that validate the ensemble, at the requirement without a margin. The
bound is the best of this row, the ensemble's row and the best single set. Up to the quality of the search, no single
parameter set can do better in that state. The table compares the ensemble's rows and the best single set with the
bound, on the same cases:

- If the bound misses a requirement, no learning can meet it in that state.
- If the bound meets it, the difference from the ensemble is what was not learned.
- If the single set has less cost than the bound, it violates the requirement in some states. No rows can then both meet
  the requirement and cost as little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.runner import CaseRunner
from training.reports.arguments import (
    ReportArguments,
    finish,
    least_option,
    most_option,
    of_ensemble,
    requirement_lines,
    validation_cases,
)  # fmt: skip
from training.searches import Score
from training.study import StudySettings
from training.validation.states import points_of
from training.workloads import Case, State

SCHEMES = ("bound", "ensemble", "single")


def bounds(
    study: StudySettings,
    ensemble: Ensemble,
    states: Mapping[State, Sequence[Case]],
    *,
    threads: int,
    progress: Callable[[float], None] = lambda _count: None,
) -> list[dict[str, Any]]:
    """A row for each class. It holds if the ensemble meets the requirement in as many states as the bound.

    states: the validation cases of each state. progress: called with 1 after each state.

    Raises:
        TrainingError: the ensemble has no single sets, or no state has cases.
    """
    if not states:
        raise TrainingError("report: expected a state with enough unseen cases, got none; give longer traces")
    objectives = study.objective.objectives(study.cca, "validation")
    runner = CaseRunner(study.cca, study.names, objectives, threads=threads)
    scores: list[list[tuple[int, dict[str, Score]]]] = [[] for _ in objectives]
    for state, cases in states.items():
        evaluator = Evaluator(runner, cases, rounds=study.rounds)
        searches = [(study.search.make(study.space(c), [], samples=(study.seed, *state, 0),
                                       steps=(study.seed, *state, c + 1)), one)
                    for c, one in enumerate(objectives)]  # fmt: skip
        best = optimise(evaluator, searches)
        for c, objective in enumerate(objectives):
            points = points_of(study, ensemble, state, c)
            row, single = evaluator.evaluate([Request(points[name], objective) for name in ("learned", "single")])
            bound = min(best[c].score, row, single, key=lambda score: score.rank)
            capacity = sum(case.capacity_bytes for case in cases)
            scores[c].append((capacity, {"bound": bound, "ensemble": row, "single": single}))
        progress(1.0)
    rows = []
    for c, its in enumerate(scores):
        sums = {scheme: _summed(its, scheme) for scheme in SCHEMES}
        holds = sums["ensemble"]["met"] >= sums["bound"]["met"]
        rows.append({"class": c, "states": len(its), **sums, "holds": holds})
    return rows


def _summed(states: Sequence[tuple[int, dict[str, Score]]], scheme: str) -> dict[str, Any]:
    """The number of states that meet the requirement, and the mean cost.

    The mean weights each state by the capacity of its cases.
    """
    whole = sum(capacity for capacity, _ in states)
    cost = sum(capacity * scores[scheme].cost for capacity, scores in states) / whole
    return {"met": sum(scores[scheme].feasible for _, scores in states), "cost": round(cost, 4)}


@click.command()
@of_ensemble
@least_option
@most_option
def bound(*, given: ReportArguments, least: int, most: int) -> None:
    """Compare an ensemble's rows with the best ones that a search finds on the validation cases themselves.

    A class falls short if the ensemble meets its requirement in fewer states than the bound. That difference was not
    learned. Where the bound misses the requirement, too, the algorithm cannot meet it.

    \b
    Example:
      ccatune report bound gr.json
    """
    with given.read(with_targets=False) as (ensemble, study, recordings, terminal):
        here = validation_cases(study, recordings, terminal, least=least, most=most)
        terminal.phase("searching", total=len(here))
        rows = bounds(study, ensemble, here, threads=given.threads, progress=terminal.advance)
    lines = requirement_lines(rows, SCHEMES)
    finish(rows, lines, line="the rows meet their requirement in as many states as the bound", as_json=given.as_json)
