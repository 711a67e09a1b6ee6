# SPDX-License-Identifier: MIT
"""DDS against brute force: how much of the grid's throughput a search of 58 evaluations finds.

On levels spread over those that have enough epochs, and for every target: the
grid and DDS, with the study's own settings and `seeds` seeds, search the same half
of the level's epochs; then both are scored on the other half, which neither saw.
The halves are every other epoch in the order of recordings and time, so that they
are alike: what differs is then the searches' doing, not the hour's.

The line: DDS spends at most 58 evaluations, its worst seed reaches at least 98 % of
the grid's throughput on unseen epochs, and both meet the target there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.cases import Case
from training.errors import TrainingError
from training.evaluator import Evaluator, Request
from training.flows import EpochRunner, epoch_cases, objectives
from training.grid import GridSearch
from training.journal import Journal
from training.optimise import optimise
from training.plan import by_level, choose
from training.search import Found, Score
from training.settings import StudySettings, make_search
from training.space import Point
from training.states import StateEpoch

__all__ = ["GRID", "LEAST_SHARE", "MOST_EVALUATIONS", "SearchReport", "halves", "pick_levels"]

GRID = (12, 8, 12)
LEAST_SHARE = 0.98
MOST_EVALUATIONS = 58
LEAST_EPOCHS = 24


def halves(epochs: Sequence[StateEpoch]) -> tuple[list[StateEpoch], list[StateEpoch]]:
    """Every other epoch, in the order of datasets, recordings and time: those to search on, and those to judge on."""
    ordered = sorted(epochs, key=lambda e: (e.recording.dataset, e.recording.name, e.start_ms))
    return ordered[::2], ordered[1::2]


def pick_levels(epochs: Sequence[StateEpoch], count: int) -> list[int]:
    """`count` levels at equal distances among those with at least 24 epochs.

    Raises:
        TrainingError: fewer levels qualify.
    """
    enough = [level for level, its in sorted(by_level(epochs).items()) if len(its) >= LEAST_EPOCHS]
    if len(enough) < count:
        raise TrainingError(
            f"search report: expected {count} levels with at least {LEAST_EPOCHS} epochs, "
            f"got {len(enough)}; give longer traces or fewer --levels"
        )
    return [enough[(2 * i + 1) * len(enough) // (2 * count)] for i in range(count)]


@dataclass(frozen=True)
class SearchReport:
    """The comparison on one study; `most_epochs` of a level train, and as many judge."""

    study: StudySettings
    seeds: int
    most_epochs: int
    threads: int
    told: Callable[[float], None] = lambda _share: None

    def level(self, level: int, training: Sequence[StateEpoch], unseen: Sequence[StateEpoch]) -> list[dict[str, Any]]:
        """A row for each target of one level; `told` is given shares of the level's work."""
        runner = EpochRunner(self.study, threads=self.threads)
        asked = objectives(self.study, runner)
        cases = epoch_cases(self.study, choose(training, self.most_epochs))
        evaluator = Evaluator(runner, cases, rounds=self.study.rounds)
        points = len(self.study.classes) * (
            GRID[0] * GRID[1] * GRID[2] + self.seeds * make_search(self.study, state=0, delay_class=0).budget
        )

        def told(count: int) -> None:
            self.told(count / points)

        grids = [(GridSearch(self.study.space(c), counts=GRID), o) for c, o in enumerate(asked)]
        grid = optimise(evaluator, grids, batch=32, told=told)
        found: list[list[Found]] = [[] for _ in asked]
        for seed in range(self.seeds):
            searches = [
                (make_search(self.study, state=level, delay_class=c, seed=seed), o) for c, o in enumerate(asked)
            ]
            for c, best in enumerate(optimise(evaluator, searches, told=told)):
                found[c].append(best)
        judge = Evaluator(runner, epoch_cases(self.study, choose(unseen, self.most_epochs)), rounds=(1.0,))
        truth = objectives(self.study, runner, aim=False)
        return [
            self._row(level, c, self._scores(judge, truth[c], [grid[c].point, *(f.point for f in found[c])]))
            for c in range(len(asked))
        ]

    @staticmethod
    def _scores(judge: Evaluator[Case], objective: Any, points: Sequence[Point]) -> list[Score]:
        return judge.evaluate([Request(point, objective, lambda _bound: False) for point in points])

    def _row(self, level: int, delay_class: int, scores: Sequence[Score]) -> dict[str, Any]:
        grid, dds = scores[0], scores[1:]
        shares = [score.throughput_mbps / max(grid.throughput_mbps, 1e-9) for score in dds]
        evaluations = make_search(self.study, state=level, delay_class=delay_class).budget
        met = [score.feasible for score in dds]
        return {
            "level": level,
            "target_ms": self.study.classes[delay_class].queueing_delay_ms,
            "unseen_epochs": grid.epochs,
            "evaluations": evaluations,
            "grid_mbps": round(grid.throughput_mbps, 4),
            "grid_delay_ms": round(grid.delay_ms, 1),
            "grid_meets": grid.feasible,
            "worst_share": round(min(shares), 4),
            "mean_share": round(sum(shares) / len(shares), 4),
            "worst_delay_ms": round(max(score.delay_ms for score in dds), 1),
            "seeds_meeting": sum(met),
            "seeds": len(dds),
            "holds": bool(
                evaluations <= MOST_EVALUATIONS and min(shares) >= LEAST_SHARE and all(met) and grid.feasible
            ),
        }

    def run(self, epochs: Sequence[StateEpoch], *, levels: int, journal: Journal) -> list[dict[str, Any]]:
        """All rows; levels that the journal holds are not run again."""
        done = journal.parts()
        at = by_level(epochs)
        rows: list[dict[str, Any]] = []
        for level in pick_levels(epochs, levels):
            name = f"level-{level:02d}"
            if name in done:
                self.told(1.0)
            else:
                done[name] = self.level(level, *halves(at[level]))
                journal.put(name, done[name])
            rows += done[name]
        return rows
