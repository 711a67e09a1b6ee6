# SPDX-License-Identifier: MIT
"""Compares a study's search with a grid search, by the share of the grid's objective that it reaches.

The search is that of the study's stage for each state, DDS in most studies. Others can be compared with it. Each runs
with `seeds` seeds. The states are spread over those that have enough cases. For every class, the grid and the searches
use the same cases. Their results are then scored on unseen cases:

    recorded epochs   every other epoch, ordered by recording and time, is unseen. Both halves are therefore alike, and
                      a difference is due to the searches
    policed cases     are newly drawn

Parameters that a study's stage holds have their defaults.

The criterion: the worst seed reaches at least 98 % of the grid's objective on unseen cases, and its violation of the
requirement is at most 0.02 above that of the grid's result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.runner import CaseRunner
from training.objectives import Objective
from training.searches import Score, Search, SearchSettings
from training.searches.points import PointsSearch, grid_points
from training.study import Journal, StudySettings
from training.workloads import Case, Epochs, Sample, State, Workload
from training.workloads.epochs import default_values
from training.workloads.plan import choose
from training.workloads.states import StateEpoch

__all__ = ["GRIDS", "LEAST_SHARE", "SearchReport", "halves", "state_cases"]

GRIDS = {2: 14, 3: 10, 4: 6}  # values of each parameter, by the number of parameters
LEAST_SHARE = 0.98
LEAST_EPOCHS = 24


def halves(epochs: Sequence[StateEpoch]) -> tuple[list[StateEpoch], list[StateEpoch]]:
    """Every other epoch, in the order of datasets, recordings and time.

    The first half is for the searches, and the second one is unseen.
    """
    ordered = sorted(epochs, key=lambda e: (e.recording.dataset, e.recording.name, e.start_ms))
    return ordered[::2], ordered[1::2]


def state_cases(
    study: StudySettings, workload: Workload, *, count: int, most_cases: int
) -> dict[State, tuple[list[Case], list[Case]]]:
    """Choose `count` states at equal distances, each with the cases for the searches and the unseen ones.

    Raises:
        TrainingError: fewer states have enough cases.
    """
    states: list[State]
    by_state: dict[State, list[StateEpoch]] = {}
    if isinstance(workload, Epochs):
        for epoch in workload.epochs:
            by_state.setdefault(workload.state_of(epoch), []).append(epoch)
        states = sorted(state for state, its in by_state.items() if len(its) >= LEAST_EPOCHS)
    else:
        states = study.states
    if len(states) < count:
        raise TrainingError(f"search report: expected {count} states with at least {LEAST_EPOCHS} epochs, "
                            f"got {len(states)}; give longer traces or fewer --states")  # fmt: skip
    found = {}
    for state in [states[(2 * i + 1) * len(states) // (2 * count)] for i in range(count)]:
        if isinstance(workload, Epochs):
            training, unseen = halves(by_state[state])
            found[state] = ([workload.case(e) for e in choose(training, most_cases)],
                            [workload.case(e) for e in choose(unseen, most_cases)])  # fmt: skip
        else:
            sample = Sample(unlimited_share=0)
            found[state] = (workload.cases([state], "training", sample), workload.cases([state], "validation", sample))
    return found


@dataclass(frozen=True)
class SearchReport:
    """Compares the searches on one study.

    others: further searches, by name. advance: called with the share of a state's work that was done since the previous
    call.
    """

    study: StudySettings
    seeds: int
    threads: int
    others: Mapping[str, SearchSettings] = field(default_factory=dict)
    advance: Callable[[float], None] = lambda _share: None

    def state(self, state: State, training: Sequence[Case], unseen: Sequence[Case]) -> list[dict[str, Any]]:
        """A row for each class of one state and each search."""
        s = self.study
        stage = next(one for one in s.all_stages if one.group_by == tuple(s.levels))
        held = {name: value for name, value in default_values(s.cca).items() if name in stage.held_from}
        objectives = s.objective.objectives(s.cca, "training")
        spaces = [s.space(c).holding(held) for c in range(s.n_classes)]
        runner = CaseRunner(s.cca, s.names, objectives, threads=self.threads)
        grids: list[Search] = [PointsSearch(grid_points(space, count=GRIDS[len(space.names)])) for space in spaces]

        def searches(settings: SearchSettings, seed: int) -> list[tuple[Search, Objective]]:
            return [(settings.make(space, [], samples=(seed, *state, 0), steps=(seed, *state, c + 1)), objectives[c])
                    for c, space in enumerate(spaces)]  # fmt: skip

        by_name = {"": stage.search or s.search, **self.others}
        budgets = {name: sum(one.budget for one, _ in searches(its, 0)) for name, its in by_name.items()}
        points = sum(one.budget for one in grids) + self.seeds * sum(budgets.values())

        def scored(count: int) -> None:
            self.advance(count / points)

        grid = optimise(Evaluator(runner, training, rounds=s.rounds), list(zip(grids, objectives, strict=True)),
                        batch=32, scored=scored)  # fmt: skip
        judge = Evaluator(runner, unseen, rounds=(1.0,))
        judging = s.objective.objectives(s.cca, "validation")
        rows = []
        for name, settings in by_name.items():
            evaluator = Evaluator(runner, training, rounds=s.rounds)  # its own: no search is faster by another's runs
            began = time.monotonic()
            found = [optimise(evaluator, searches(settings, seed), scored=scored) for seed in range(self.seeds)]
            seconds = (time.monotonic() - began) / (self.seeds * len(spaces))
            for c, objective in enumerate(judging):
                requests = [Request(each[c].point, objective) for each in [grid, *found]]
                row = self._row(state, c, objective, judge.evaluate(requests), budgets[name] // len(spaces))
                rows.append({"search": name, **row, "seconds": round(seconds, 3)})
        return rows

    def _row(
        self, state: State, number: int, objective: Objective, scores: Sequence[Score], evaluations: int
    ) -> dict[str, Any]:
        grid, searched = scores[0], scores[1:]
        shares = [objective.merit(score) / objective.merit(grid) for score in searched]
        worst = max(score.violation for score in searched)
        return {
            "cca": self.study.cca,
            "state": list(state),
            "class": number,
            "cases": grid.cases,
            "evaluations": evaluations,
            "grid": {"violation": round(grid.violation, 4), **{k: round(v, 4) for k, v in grid.metrics.items()}},
            "worst_share": round(min(shares), 4),
            "mean_share": round(sum(shares) / len(shares), 4),
            "worst_violation": round(worst, 4),
            "seeds_meeting": sum(score.feasible for score in searched),
            "seeds": len(searched),
            "holds": bool(min(shares) >= LEAST_SHARE and worst <= grid.violation + 1 - LEAST_SHARE),
        }

    def run(self, cases: dict[State, tuple[list[Case], list[Case]]], *, journal: Journal) -> list[dict[str, Any]]:
        """All rows. A state that the journal has is not run again."""
        done = journal.parts()
        rows: list[dict[str, Any]] = []
        for state, (training, unseen) in cases.items():
            name = "-".join(["state", *(f"{level:02d}" for level in state)])
            if name in done:
                self.advance(1.0)
            else:
                done[name] = self.state(state, training, unseen)
                journal.put(name, done[name])
            rows += done[name]
        return rows
