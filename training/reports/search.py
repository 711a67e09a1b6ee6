# SPDX-License-Identifier: MIT
"""`ccatune report search`: the share of a grid search's objective that a study's search reaches.

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

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from emulation.run.simulator import default_threads
from kmod.tables import Column, table_lines
from training.commands import recordings_of
from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.runner import CaseRunner
from training.objectives import Objective
from training.options import as_json_option, threads_option, traces_option
from training.progress import Terminal
from training.reports.arguments import finish
from training.searches import Score, Search, SearchSettings
from training.searches.points import PointsSearch, grid_points
from training.study import Journal, StageSettings, StudySettings, load_study, require_recordings, setting_of, study_key
from training.workloads import Case, Epochs, Sample, State, Workload
from training.workloads.epochs import default_values
from training.workloads.levels import StateEpoch, choose, in_time

STUDIES = Path(__file__).resolve().parents[2] / "configs" / "studies"

GRIDS = {2: 14, 3: 10, 4: 6}  # values of each parameter, by the number of parameters
LEAST_SHARE = 0.98
LEAST_EPOCHS = 24


def halves(epochs: Sequence[StateEpoch]) -> tuple[list[StateEpoch], list[StateEpoch]]:
    """Every other epoch, in the order of datasets, recordings and time.

    The first half is for the searches, and the second one is unseen.
    """
    ordered = in_time(epochs)
    return ordered[::2], ordered[1::2]


def state_cases(
    study: StudySettings, workload: Workload, *, count: int, most_cases: int
) -> dict[State, tuple[list[Case], list[Case]]]:
    """Choose `count` states, or all if there are fewer, at equal distances.

    Each has the cases for the searches and the unseen ones.

    Raises:
        TrainingError: no state has enough cases.
    """
    states: list[State]
    by_state: dict[State, list[StateEpoch]] = {}
    if isinstance(workload, Epochs):
        for epoch in workload.epochs:
            by_state.setdefault(workload.state_of(epoch), []).append(epoch)
        states = sorted(state for state, its in by_state.items() if len(its) >= LEAST_EPOCHS)
    else:
        states = study.states
    if not states:
        raise TrainingError(f"search report: expected a state with at least {LEAST_EPOCHS} epochs; give longer traces")
    count = min(count, len(states))
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


def compared_stage(study: StudySettings) -> StageSettings:
    """The stage that searches for each state; or the first one, for the single set, where it only refines that set."""
    whole = [stage for stage in study.all_stages if study.search_of(stage).kind != "local"]
    return next((stage for stage in whole if stage.group_by == tuple(study.levels)), whole[0])


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
        stage = compared_stage(s)
        held = {name: value for name, value in default_values(s.cca).items() if name in stage.held_from}
        objectives = s.objective.objectives(s.cca, "training")
        spaces = [s.space(c).holding(held) for c in range(s.n_classes)]
        runner = CaseRunner(s.cca, s.names, objectives, threads=self.threads)
        grids: list[Search] = [PointsSearch(grid_points(space, count=GRIDS[len(space.names)])) for space in spaces]

        def searches(settings: SearchSettings, seed: int) -> list[tuple[Search, Objective]]:
            return [(settings.make(space, [], samples=(seed, *state, 0), steps=(seed, *state, c + 1)), objectives[c])
                    for c, space in enumerate(spaces)]  # fmt: skip

        by_name = {"": s.search_of(stage), **self.others}
        budgets = {name: sum(one.budget for one, _ in searches(its, 0)) for name, its in by_name.items()}
        points = sum(one.budget for one in grids) + self.seeds * sum(budgets.values())

        def scored(count: int) -> None:
            self.advance(count / points)

        grid = optimise(Evaluator(runner, training, rounds=s.rounds), list(zip(grids, objectives, strict=True)),
                        batch=32, scored=scored)  # fmt: skip
        validation = Evaluator(runner, unseen, rounds=(1.0,))
        rows = []
        for name, settings in by_name.items():
            evaluator = Evaluator(runner, training, rounds=s.rounds)  # its own: no search is faster by another's runs
            began = time.monotonic()
            found = [optimise(evaluator, searches(settings, seed), scored=scored) for seed in range(self.seeds)]
            seconds = (time.monotonic() - began) / (self.seeds * len(spaces))
            for c, objective in enumerate(s.objective.objectives(s.cca, "validation")):
                requests = [Request(each[c].point, objective) for each in [grid, *found]]
                row = self._row(state, c, objective, validation.evaluate(requests), budgets[name] // len(spaces))
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


@click.command()
@click.option("--study", "study_paths", type=click.Path(path_type=Path), multiple=True,
              default=[STUDIES / f"{name}.yaml" for name in ("gr", "roccet", "rtcp")],
              help="May be given several times  [those of gr, roccet and rtcp in configs/studies]")  # fmt: skip
@click.option("--search", "search_paths", type=click.Path(path_type=Path), multiple=True,
              help="Compare the search of this study, too; may be given several times")  # fmt: skip
@traces_option
@click.option(
    "--states", "count", type=click.IntRange(1), default=5, show_default=True, help="At most so many, spread over all"
)
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True)
@click.option("--cases", type=click.IntRange(1), default=20, show_default=True, help="Epochs of each half at most")
@click.option("--work", type=click.Path(path_type=Path), default=Path("report-search.parts"), show_default=True,
              help="Finished states are kept here, and not run again")  # fmt: skip
@threads_option
@as_json_option
def search(
    *,
    study_paths: tuple[Path, ...],
    search_paths: tuple[Path, ...],
    paths: tuple[Path, ...],
    count: int,
    seeds: int,
    cases: int,
    work: Path,
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare the search of a study, and others, with a grid search, on states spread over those of the study.

    The column "s" is the mean time of one search in seconds, its evaluations included.

    \b
    Example:
      ccatune report search --seeds 10
      ccatune report search --study configs/studies/gr-demo.yaml --search configs/studies/gr-optuna.yaml
    """
    rows: list[dict[str, Any]] = []
    others = {other.stem: load_study(other).search for other in search_paths}
    with Terminal(quiet=as_json) as terminal:
        for study, name in [(load_study(path), path.stem) for path in study_paths]:
            terminal.phase(f"{study.cca}: reading traces", total=1)
            recordings = require_recordings(recordings_of(paths, part="train"), study)
            given = [study_key(study, recordings), count, seeds, cases, others]
            journal = Journal(work, key=hashlib.sha256(" ".join(map(str, given)).encode()).hexdigest())
            comparison = SearchReport(study, seeds, threads or default_threads(), others, terminal.advance)
            setting = setting_of(study, recordings=recordings, threads=comparison.threads, progress=terminal)
            by_state = state_cases(study, study.workload.open(setting), count=count, most_cases=cases)
            terminal.phase(f"{study.cca}: searching", total=len(by_state))
            found = comparison.run(by_state, journal=journal)
            rows += [{**row, "search": row["search"] or name} for row in found]
    line = "worst seed at least 98 % of the grid's objective on unseen cases, at no worse a violation"
    finish(rows, _table(rows), line=line, as_json=as_json)


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    headings = ("state", "class", "trials", "s", "worst\nseed", "mean", "target\nmet")
    return table_lines(
        [
            Column("search", least=8),
            *(Column(heading, "right") for heading in headings),
            Column("", least=6, cut="end"),
        ],
        [
            (
                row["search"],
                "/".join(map(str, row["state"])),
                str(row["class"]),
                str(row["evaluations"]),
                f"{row['seconds']:.2f}",
                f"{100 * row['worst_share']:.2f} %",
                f"{100 * row['mean_share']:.2f} %",
                f"{row['seeds_meeting']} of {row['seeds']}",
                f"{'short ' * (not row['holds'])}{'(not by the grid)' * (row['grid']['violation'] > 0)}".strip(),
            )
            for row in rows
        ],
    )  # fmt: skip
