# SPDX-License-Identifier: MIT
"""Verifies states of a finished search: their best points run on a kernel, on cases of the state.

The finalists of a state and class are the row that the search found, and the best others, by the simulator's score on
the cases of the last stage, of: the state's points in all stages, the single set, and the rows of both neighbours on
the first axis.

Where the objective compares with other algorithms, the single set is a finalist, and those algorithms run beside the
finalists.

Each finalist runs on the same cases (cases.py), so that differences are of pairs. The simulator runs them, too.

Each finished run is a part of the study's journal. Runs on a real kernel are not deterministic: an ensemble with such
runs has another digest each time, which its provenance says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from emulation.run.measures import Trial
from emulation.run.simulator import compact_edges_us
from kmod.ensemble import canonical_json
from training.evaluation.evaluator import Evaluator, Request
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import Part
from training.objectives import Objective, Pool, Tally, percentile_us
from training.searches import Found, Point
from training.verification.cases import as_simulated, kernel_cases
from training.verification.choice import Choice, choose, quantile_of, ratio_95
from training.verification.runs import VerifyTask, made_with, on_kernel, tally_of
from training.verification.settings import VerifySettings
from training.workloads import Case, State

if TYPE_CHECKING:
    from training.study.journal import Journal
    from training.study.study import Study

PREFIX = "verify-"
DIGITS = 6
# Smaller figures count as this in a ratio. Mahimahi counts delays in whole ms.
LEAST = {"throughput_mbps": 0.01, "delay_ms": 1.0, "retransmitted_pkts": 10.0}
Parts = dict[str, Part]


@dataclass(frozen=True)
class Finalist:
    """A point with its score by the simulator on the last stage's cases. origins: the stages and states it is from."""

    found: Found
    origins: tuple[str, ...]


@dataclass(frozen=True)
class Contest:
    """The finalists of a state and class, the simulator's choice first."""

    state: State
    delay_class: int
    finalists: tuple[Finalist, ...]


class Verification:
    """The verification of a study with `verify` in its settings, all of whose searches are done."""

    def __init__(self, study: Study, parts: Parts, settings: VerifySettings) -> None:
        self._study = study
        self._parts = parts
        self._settings = settings
        s = study.settings
        self._last = s.all_stages[-1]
        self._training = s.objective.objectives(s.cca, "training", margin_se=self._last.margin_se)
        self._single = next(stage.name for stage in s.all_stages if not stage.group_by)
        self._plain = on_kernel(settings.runner, s.objective.objectives(s.cca, "confirming", margin_se=0.0))
        self._validation = on_kernel(settings.runner, s.objective.objectives(s.cca, "validation"))
        margin = -quantile_of(settings.confidence, settings.runs)
        self._lenient = on_kernel(settings.runner, s.objective.objectives(s.cca, "confirming", margin_se=margin))
        self._runner = CaseRunner(s.cca, s.names, self._training, threads=study.threads)
        self._beside = CaseRunner(s.cca, s.names, self._plain, threads=study.threads)

    def run(self, journal: Journal | None) -> tuple[Parts, dict[str, Any]]:
        """Make the runs that the journal does not hold; the parts with the chosen rows, and the provenance."""
        contests = [contest for state in self.states() for contest in self._contests(state)]
        n_runs, duration_s = self._settings.runs, self._settings.duration_s
        cases = {state: kernel_cases(self._study.workload, state, runs=n_runs, duration_s=duration_s)
                 for state in self.states()}  # fmt: skip
        runs = self._run(contests, cases, journal)
        parts, rows = dict(self._parts), []
        for contest in contests:
            its = cases[contest.state]
            points = [each.found.point for each in contest.finalists]
            real = [self._tallies(contest, p, its, runs) for p in points]
            choice = choose(real, objective=self._plain[contest.delay_class],
                            lenient=self._lenient[contest.delay_class],
                            confidence=self._settings.confidence)  # fmt: skip
            name = self._study.name_of(self._last, contest.state)
            found = list(parts[name].found)
            if choice.number:
                found[contest.delay_class] = contest.finalists[choice.number].found
            parts[name] = replace(parts[name], found=tuple(found))
            kept = [[runs[self._run_name(contest.state, self._trial(p), n)] for n in range(len(its))] for p in points]
            sides = {"simulator": self._simulated(its, points), "kernel": real}
            rows.append(self._row(contest, choice, sides, kept))
        s = self._study.settings
        return parts, {
            **made_with(self._settings.runner, s.cca),
            "deterministic": self._settings.runner == "simulator",
            "rows": rows,
        }

    @property
    def least_s(self) -> float:
        """The time of all runs if those of a point execute side by side and none is kept; 0 without a kernel."""
        s = self._settings
        classes = self._study.settings.n_classes if s.classes is None else len(s.classes)
        return 0.0 if s.runner == "simulator" else len(self.states()) * classes * s.finalists * s.duration_s

    def states(self) -> list[State]:
        """The states that are verified: of those that train, in order."""
        trained, wanted = self._study.trained, self._settings.states
        if wanted is None:
            return list(trained)
        if isinstance(wanted, int):
            count = min(wanted, len(trained))
            return [trained[(2 * i + 1) * len(trained) // (2 * count)] for i in range(count)]
        sources = {self._study.workload.source(state) for state in wanted}
        return [state for state in trained if state in sources]

    def _contests(self, state: State) -> Iterator[Contest]:
        s = self._study.settings
        cases = self._study.workload.cases([state], "training", self._last.sample)
        for delay_class in range(s.n_classes) if self._settings.classes is None else self._settings.classes:
            row = self._study.part_of(self._parts, self._last, state).found[delay_class]
            origins = self._origins(state, delay_class)
            others = [point for point in origins if point != row.point]
            requests = [Request(point, self._training[delay_class]) for point in others]
            scores = Evaluator(self._runner, cases, rounds=(1.0,)).evaluate(requests) if others else []
            ranked = sorted(map(Found, others, scores), key=lambda found: found.score.rank)
            if self._plain[delay_class].references:
                # The references run anyway: the table, the single set and they are compared on the kernel.
                ranked.sort(key=lambda found: self._single not in origins[found.point])
            found = [row, *ranked][: self._settings.finalists]
            yield Contest(state, delay_class, tuple(Finalist(f, tuple(origins[f.point])) for f in found))

    def _origins(self, state: State, delay_class: int) -> dict[Point, list[str]]:
        """The points that may be finalists, and where each is from; the row first."""
        near = [(state[0] + step, *state[1:]) for step in (-1, 1)]
        places = [(stage, state) for stage in reversed(self._study.settings.all_stages)]
        places += [(self._last, one) for one in near if one in self._study.trained]
        origins: dict[Point, list[str]] = {}
        for stage, one in places:
            point = self._study.part_of(self._parts, stage, one).found[delay_class].point
            of = "" if one == state else f" of state {'/'.join(map(str, one))}"
            origins.setdefault(point, []).append(f"{stage.name}{of}")
        return origins

    def _trial(self, point: Point) -> Trial:
        s = self._study.settings
        return Trial(s.cca, dict(zip(s.names, point, strict=True)))

    def _task_name(self, state: State, trial: Trial) -> str:
        text = canonical_json([trial.cca, dict(trial.params)])
        return PREFIX + "-".join([*(f"{level:02d}" for level in state), hashlib.sha256(text).hexdigest()[:12]])

    def _run_name(self, state: State, trial: Trial, number: int) -> str:
        return f"{self._task_name(state, trial)}-{number}"

    def _run(
        self, contests: Sequence[Contest], cases: Mapping[State, list[Case]], journal: Journal | None
    ) -> dict[str, Any]:
        """The data of all runs by name, made or kept."""
        versions = made_with(self._settings.runner, self._study.settings.cca)
        kept = journal.parts() if journal else {}
        runs = {name: part for name, part in kept.items()
                if name.startswith(PREFIX) and part["made_with"] == versions}  # fmt: skip
        tasks: dict[str, VerifyTask] = {}
        for contest in contests:
            finalists = [self._trial(each.found.point) for each in contest.finalists]
            for trial in [*finalists, *self._rivals(contest).values()]:
                name = self._task_name(contest.state, trial)
                scenarios = tuple(case.scenario for case in cases[contest.state])
                missing = tuple(n for n in range(len(scenarios)) if f"{name}-{n}" not in runs)
                if missing:
                    tasks[name] = VerifyTask(
                        name, self._settings.runner, trial, scenarios, missing, self._settings.most_late
                    )
        if tasks:
            count = sum(len(task.numbers) for task in tasks.values())
            self._study.progress.phase(f"verifying: {self._settings.runner}", total=count)

        def keep(name: str, found: dict[str, Any]) -> None:
            runs[name] = {**found, "made_with": versions}
            if journal:
                journal.put(name, runs[name])
            self._study.progress.advance(1)

        run_in_turn(list(tasks.values()), keep)
        return runs

    def _rivals(self, contest: Contest) -> Mapping[str, Trial]:
        """What the objective of a class compares with, by name."""
        return self._plain[contest.delay_class].references

    def _tallies(self, contest: Contest, point: Point, cases: Sequence[Case], runs: Mapping[str, Any]) -> list[Tally]:
        """The runs of a point, with those of the algorithms that it is compared with, in the order of the cases."""

        def tally(trial: Trial, case: Case, number: int, references: Mapping[str, Tally]) -> Tally:
            found = runs[self._run_name(contest.state, trial, number)]
            return tally_of(found, group=case.group, references=references)

        rivals = self._rivals(contest)
        return [
            tally(self._trial(point), case, n, {name: tally(one, case, n, {}) for name, one in rivals.items()})
            for n, case in enumerate(cases)
        ]

    def _simulated(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        """The simulator's tallies of the same runs: [point][case]."""
        found = self._beside.run([as_simulated(case) for case in cases], points)
        return [[row[at] for row in found] for at in range(len(points))]

    def _row(
        self,
        contest: Contest,
        choice: Choice,
        sides: Mapping[str, Sequence[Sequence[Tally]]],
        runs: Sequence[Sequence[Mapping[str, Any]]],
    ) -> dict[str, Any]:
        """sides: the tallies of each side, [point][case]. runs: the kept data of the same runs."""
        s = self._study.settings
        objective = self._validation[contest.delay_class]
        percentile = s.delay_classes[contest.delay_class].percentile if s.delay_classes else 95
        finalists = []
        for at, finalist in enumerate(contest.finalists):
            finalists.append({
                "values": dict(zip(s.names, finalist.found.point, strict=True)),
                "from": list(finalist.origins),
                "meets": choice.meets[at],
                **{side: _scored(objective, tallies[at]) for side, tallies in sides.items()},
                "runs": [
                    {
                        **{side: case_figures(each[at][n], percentile=percentile) for side, each in sides.items()},
                        "late_share": run["late_share"],
                        "tries": run["tries"],
                    }
                    for n, run in enumerate(runs[at])
                ],
            })  # fmt: skip
        return {
            "state": list(contest.state),
            "class": contest.delay_class,
            "outcome": choice.outcome,
            "chosen": choice.number,
            "finalists": finalists,
            "kernel_over_simulator": ratios_of(finalists),
        }


def run_in_turn(tasks: Sequence[VerifyTask], keep: Any) -> None:
    """Run the tasks one after the other.

    At first all runs of a task are made at the same time, as far as the processors go (emulation/mahimahi/runner.py).
    After a task with late runs there is one fewer at a time, and after three tasks without late runs one more.
    """
    most = max((len(task.scenarios) for task in tasks), default=1)
    width, in_time = most, 0
    for task in tasks:
        in_time = in_time + 1 if task.run(keep, width=width) else 0
        if not in_time:
            width = max(width - 1, 1)
        elif in_time % 3 == 0:
            width = min(width + 1, most)


def case_figures(tally: Tally, *, percentile: int) -> dict[str, Any]:
    """The figures of a run: throughput of the link, goodput, the percentile of the queueing delay, retransmissions.

    references: these figures of the algorithms that it is compared with, on the same case.
    """
    delay_us = percentile_us(tally.delays, compact_edges_us(), share=percentile / 100)
    return {
        "throughput_mbps": round(tally.delivered_bytes * 8e-6 / tally.duration_s, DIGITS),
        "goodput_mbps": round(tally.goodput_bytes * 8e-6 / tally.duration_s, DIGITS),
        "delay_ms": round(delay_us / 1000, DIGITS),
        "retransmitted_pkts": tally.retransmitted_pkts,
        "references": {name: case_figures(its, percentile=percentile) for name, its in tally.references.items()},
    }


def _scored(objective: Objective, tallies: Sequence[Tally]) -> dict[str, Any]:
    score = objective.score(Pool.of(tallies))
    return {"meets": score.feasible, **{name: round(value, DIGITS) for name, value in score.metrics.items()}}


def ratios_of(finalists: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Kernel over simulator, by figure: the ratio and the ends of its interval over the cases.

    Finalists on one case are no independent runs, so their figures are added first.
    """
    found = {}
    for name, least in LEAST.items():
        kernel, simulator = (
            [sum(each["runs"][n][side][name] for each in finalists) for n in range(len(finalists[0]["runs"]))]
            for side in ("kernel", "simulator")
        )
        ratio = ratio_95(kernel, simulator, least=least * len(finalists))
        found[name] = [round(value, DIGITS) for value in ratio]
    return found
