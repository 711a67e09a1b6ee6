# SPDX-License-Identifier: MIT
"""Runs a stage as one search over all its states, which learns a model of their runs (searches/contextual.py).

    1  On each case of each state `points` points of a Sobol sequence run.
    2  `probes` times: the model is fitted, and in each state and class the best point by one of its members runs on
       `probe_cases` cases. Each time it is another member's, so that states try what the data leave open
       (Thompson 1933).
    3  Finalists run on all cases of their state: the candidates, unless `confirm` runs them on others, and the best
       point by the mean of the members. The model is fitted again, and a further finalist runs where the improvement
       over the best so far, in the mean of the members, is at least `least_gain`; at most `finalists` of them, and
       none once `budget` is spent. Where most is expected comes first.

A state keeps the best point by real runs on all its cases. Predictions choose points and never score a row.

Of a point the objective scores the predicted tallies of the state's cases. Points are compared by

    J = cost + u (1 [requirement missed] / 2 + 5 min(violation, 1))

with u the standard deviation of the cost over the space.

The model also predicts states without runs (`Contextual.first_row`), from the features of their cases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from training.evaluation.evaluator import Evaluator, Request
from training.evaluation.predicted import outputs_of, pool_of
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import ClassTask, Part, SearchTask, confirmed
from training.objectives import Tally
from training.searches import Dimension, Evaluation, Found, Point, Score, Space, SurrogateChoice
from training.searches.contextual import Model, Outputs, fit
from training.searches.models import require_extra
from training.searches.points import sobol_points
from training.study.journal import Journal
from training.study.runs import Runs
from training.workloads import Case

SCREENED = 64
NEAR = ((0.15, 48), (0.05, 48))  # standard deviations in positions, and points, of the steps around the best ones
KEPT = 6
MISSED, WEIGHT = 0.5, 5.0


@dataclass(frozen=True)
class Proposed:
    """A point for a state and class, and how much it is expected to gain over the best so far."""

    point: Point
    gain: float


@dataclass
class _Group:
    """A state's task while the stage runs. found: the points that ran on all cases, by class. seed: from its name."""

    task: SearchTask
    runs: int = 0

    def __post_init__(self) -> None:
        self.found: list[list[Found]] = [[] for _ in self.task.classes]

    @property
    def seed(self) -> int:
        return int(hashlib.sha256(self.task.name.encode()).hexdigest()[:8], 16)

    def best(self, delay_class: int) -> Found | None:
        return min(self.found[delay_class], key=lambda each: each.score.rank, default=None)


class Contextual:
    """The model of a study, whose runs all its stages share.

    space: of all classes together, nothing held; positions in it are the model's inputs. advance: is called with what
    the cases of finished runs carry, in bytes.
    """

    def __init__(self, runner: CaseRunner, space: Space, *, seed: int, journal: Journal | None = None,
                 advance: Callable[[float], None] = lambda _bytes: None) -> None:  # fmt: skip
        require_extra("torch")
        self.runs = Runs(runner, journal)
        self._space = space
        self._seed = seed
        self._advance = advance
        self._model: Model | None = None
        self._needs_delays = any(one.needs_delays for one in runner.objectives)

    @staticmethod
    def amount(search: SurrogateChoice, tasks: Sequence[SearchTask]) -> float:
        """What the cases of a stage's runs carry at most, in bytes."""
        return float(sum(
            (search.points + len(task.classes) * (search.finalists + min(search.probes * search.probe_cases
                                                                         / len(task.cases), search.probes)))
            * sum(case.capacity_bytes for case in task.cases)
            for task in tasks
        ))  # fmt: skip

    def recall(self, stage: str, tasks: Sequence[SearchTask]) -> None:
        """Know the runs of a stage that was finished before."""
        self.runs.add_cases(case for task in tasks for case in task.cases)
        self.runs.begin(stage, is_finished=True)

    def stage(self, stage: str, search: SurrogateChoice, tasks: Sequence[SearchTask],
              keep: Callable[[str, Part], None]) -> None:  # fmt: skip
        """Search all tasks together; keep: called with the part of each at the end."""
        groups = self.learn(stage, search, tasks)
        self._run_finalists(search, groups)
        for group in groups:
            keep(group.task.name, self._part(group))

    def learn(self, stage: str, search: SurrogateChoice, tasks: Sequence[SearchTask], *,
              others: Iterable[Case] = ()) -> list[_Group]:  # fmt: skip
        """Steps 1 and 2, and a last fit. others: cases without runs, whose points are predicted later."""
        groups = [_Group(task) for task in tasks]
        self._model = None
        self.runs.add_cases(case for task in tasks for case in task.cases)
        self.runs.begin(stage, is_finished=False)
        self._sample(search, groups)
        self.runs.add_cases(others)
        for probe in range(search.probes):
            self._fit(search)
            one = slice(probe % search.model.members, probe % search.model.members + 1)
            for group in groups:
                for c in range(len(group.task.classes)):
                    proposed = self._propose(group, c, members=one)
                    self._run(group, [(case, proposed.point) for case in self._some(group, search.probe_cases, probe)])
        self._fit(search)
        return groups

    def first_row(self, task: SearchTask, delay_class: int) -> Point:
        """The best point of a state by the mean of the members; the state needs no runs."""
        return self._propose(_Group(task), delay_class).point

    def _sample(self, search: SurrogateChoice, groups: Sequence[_Group]) -> None:
        """A case that several states have gets its points once. Cases on which nothing has an effect get none."""
        done: set[str] = set()
        wanted: list[tuple[_Group, list[tuple[Case, Point]]]] = []
        for group in groups:
            cases = [case for case in group.task.cases if case.key not in done and not self.runs.scales[case.key].fixed]
            done |= {case.key for case in cases}
            if cases:
                space = union([one.space for one in group.task.classes])
                points = sobol_points(space, count=search.points * len(cases), seed=(self._seed, group.seed))
                wanted.append((group, [(cases[i % len(cases)], point) for i, point in enumerate(points)]))
        for group, its in wanted:
            self._run(group, its)

    def _run(self, group: _Group, wanted: Sequence[tuple[Case, Point]]) -> None:
        group.runs += self.runs.run(wanted)
        self._advance(float(sum(case.capacity_bytes for case, _ in wanted)))

    @staticmethod
    def _some(group: _Group, count: int, probe: int) -> list[Case]:
        """So many cases of a state, spread over it; other ones for each probe."""
        cases = sorted(group.task.cases, key=lambda case: case.key)
        return [cases[(probe + i * len(cases) // count) % len(cases)] for i in range(min(count, len(cases)))]

    def _fit(self, search: SurrogateChoice) -> None:
        runs = self.runs
        rows = {key: i for i, key in enumerate(runs.cases)}
        learnt = [(key, point) for key, point in runs.requested if not runs.scales[key].fixed]
        tallies = [runs.tally(runs.cases[key], point) for key, point in learnt]
        self._model = fit(
            search.model,
            features=np.array(list(runs.features.values())),
            cases=np.array([rows[key] for key, _ in learnt]),
            positions=np.array([self._space.positions(point) for _, point in learnt]),
            outputs=outputs_of(tallies, [runs.scales[key] for key, _ in learnt], with_delays=self._needs_delays),
            seed=self._seed,
            earlier=self._model,
        )
        self._rows = rows

    def _run_finalists(self, search: SurrogateChoice, groups: Sequence[_Group]) -> None:
        if not all(group.task.fresh for group in groups):
            for group in groups:
                for c, one in enumerate(group.task.classes):
                    for point in one.candidates:
                        self._finalist(group, c, point)
        for turn in range(search.finalists):
            if turn:
                self._fit(search)
            proposed = [(group, c, self._propose(group, c)) for group in groups for c in range(len(group.found))]
            for group, c, new in sorted(proposed, key=lambda each: -each[2].gain):
                spent = sum(each.runs for each in groups)
                is_needed = not group.found[c]
                if is_needed or (new.gain >= search.least_gain and spent < (search.budget or spent + 1)):
                    self._finalist(group, c, new.point)

    def _finalist(self, group: _Group, c: int, point: Point) -> None:
        if all(each.point != point for each in group.found[c]):
            self._run(group, [(case, point) for case in group.task.cases])
            group.found[c].append(Found(point, self._score(group.task, c, point)))

    def _score(self, task: SearchTask, c: int, point: Point) -> Score:
        """The objective on real runs, by the evaluator that every search uses; none of them runs again."""
        evaluator = Evaluator(_Known(self.runs), task.cases, rounds=(1.0,))
        return evaluator.evaluate([Request(point, task.classes[c].objective)])[0]

    def _part(self, group: _Group) -> Part:
        task, best = group.task, [group.best(c) for c in range(len(group.found))]
        found = [each for each in best if each is not None]
        evaluations = tuple(Evaluation(c, each.point, each.score) for c, its in enumerate(group.found) for each in its)
        if not task.fresh:
            return Part(tuple(found), group.runs, evaluations)
        again = Evaluator(self.runs.runner, task.fresh, rounds=(1.0,))
        found = [confirmed(again, [*one.candidates, each.point], one.confirming, least_se=task.lenience_se)
                 for one, each in zip(task.classes, found, strict=True)]  # fmt: skip
        return Part(tuple(found), group.runs + again.runs, evaluations)

    def _propose(self, group: _Group, c: int, *, members: slice = slice(None)) -> Proposed:
        """The best point by the mean of the members, among a sequence, known points, and steps around the best."""
        one, rng = group.task.classes[c], np.random.default_rng((self._seed, group.seed, c))
        space = one.space
        points = [*one.candidates, *(each.point for each in group.found[c])]
        points += sobol_points(space, count=SCREENED, seed=(self._seed, group.seed, c))
        scores = self._mean_scores(group.task, one, points, members)
        unit = max(float(np.std([score.cost for score in scores.values()])), 1e-9)
        for step, count in NEAR:
            best = sorted(scores, key=lambda point: energy(scores[point], unit))[:KEPT]
            near = [space.point(rng.normal(space.positions(best[i % len(best)]), step).tolist()) for i in range(count)]
            scores |= self._mean_scores(group.task, one, [point for point in near if point not in scores], members)
        best = sorted(scores, key=lambda point: energy(scores[point], unit))[: 2 * KEPT]
        by_member = self._member_scores(group.task, one, best, members)
        energies = np.array([[energy(score, unit) for score in its] for its in by_member])  # [points, members]
        at = int(energies.mean(axis=1).argmin())
        known = group.best(c)
        gains = np.maximum(energy(known.score, unit) - energies[at], 0).mean() / unit if known else np.inf
        return Proposed(best[at], float(gains))

    def _mean_scores(self, task: SearchTask, one: ClassTask, points: Sequence[Point],
                     members: slice) -> dict[Point, Score]:  # fmt: skip
        distinct = list(dict.fromkeys(points))
        mean = self._predict(task.cases, distinct, members, mean=True)
        return {p: self._scored(task.cases, one, mean, 0, i) for i, p in enumerate(distinct)}

    def _member_scores(self, task: SearchTask, one: ClassTask, points: Sequence[Point],
                       members: slice) -> list[list[Score]]:  # fmt: skip
        outputs = self._predict(task.cases, points, members)
        return [[self._scored(task.cases, one, outputs, m, i) for m in range(len(outputs.flags))]
                for i in range(len(points))]  # fmt: skip

    def _predict(self, cases: Sequence[Case], points: Sequence[Point], members: slice, *,
                 mean: bool = False) -> Outputs:  # fmt: skip
        """ratios [members, points * cases, 3], and so on; of a point all cases follow each other."""
        if self._model is None or not points:
            raise AssertionError("a prediction needs a fitted model and points")
        rows = np.array([self._rows[case.key] for case in cases])
        positions = np.array([self._space.positions(point) for point in points])
        return self._model.predict(np.tile(rows, len(points)), np.repeat(positions, len(cases), axis=0),
                                   members=members, mean=mean)  # fmt: skip

    def _scored(self, cases: Sequence[Case], one: ClassTask, outputs: Outputs, member: int, point: int) -> Score:
        its = slice(point * len(cases), (point + 1) * len(cases))
        scales = [self.runs.scales[case.key] for case in cases]
        pool = pool_of(scales, outputs.ratios[member, its], outputs.flags[member, its], outputs.delays[member, its])
        return one.objective.score(pool)


@dataclass(frozen=True)
class _Known:
    """A `Runner` that returns runs which were requested before."""

    runs: Runs

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        return [[self.runs.tally(case, point) for point in points] for case in cases]


def energy(score: Score, unit: float) -> float:
    """J."""
    return score.cost + unit * (MISSED * (not score.feasible) + WEIGHT * min(max(score.violation, 0.0), 1.0))


def union(spaces: Sequence[Space]) -> Space:
    """The smallest box around boxes of the same dimensions; held values are the first one's."""
    columns = zip(*(space.dimensions for space in spaces), strict=True)
    dimensions = [Dimension(its[0].name, min(d.low for d in its), max(d.high for d in its)) for its in columns]
    return Space(tuple(dimensions), spaces[0].held)
