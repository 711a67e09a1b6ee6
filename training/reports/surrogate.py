# SPDX-License-Identifier: MIT
"""`ccatune report surrogate`: what the rows lose that a model gives to states without runs.

The model of a study with `kind: surrogate` learns from the states that are kept, and none of the cases of the others.
It gives each of the others a first row, from the features of the state's training cases alone. On the validation cases
of the state that row is compared with

    learned      the ensemble's row, for which the state trained
    neighbour    the ensemble's row of the nearest state that was kept
    single       the best single set
    default      the algorithm's defaults

The algorithms that an objective compares with run on all cases; they are not parameter sets of the space. With
`held_from` the held values are those of the ensemble's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from kmod.ensemble import Ensemble
from training.commands import recordings_of
from training.errors import TrainingError
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import ClassTask, SearchTask
from training.intervals import LEAST_SEEDS, interval_of
from training.objectives import Pool
from training.reports.arguments import ReportArguments, finish, of_ensemble, requirement_lines
from training.searches import Point, SurrogateChoice
from training.study import Study, require_recordings
from training.validation.states import points_of
from training.workloads import Case, State

SCHEMES = ("first", "learned", "neighbour", "single", "default")


def left_out_of(study: Study, *, axis: str | None, levels: Sequence[int]) -> list[State]:
    """The trained states to leave out. levels: of the axis (none: the first one); empty: each third one.

    Raises:
        TrainingError: no such axis, or no state is left out or kept.
    """
    names = list(study.settings.levels)
    if axis is not None and axis not in names:
        raise TrainingError(f"report: expected an axis among {', '.join(names)}, got {axis}")
    at = names.index(axis) if axis else 0
    if len(study.trained) < 2:
        raise TrainingError("report: expected an ensemble of a study with several states, got one with "
                            f"{len(study.trained)}")  # fmt: skip
    found = [state for state in study.trained if (state[at] in levels if levels else state[at] % 3 == 1)]
    if not 0 < len(found) < len(study.trained):
        raise TrainingError(f"report: expected some of {len(study.trained)} trained states to leave out, "
                            f"got {len(found)}; name other --level")  # fmt: skip
    return found


def first_rows(study: Study, ensemble: Ensemble, left_out: Sequence[State]) -> dict[tuple[State, int], Point]:
    """The row of each state that is left out, and class, by a model of the others.

    Raises:
        TrainingError: the last stage of the study is no surrogate's, or PyTorch is not installed.
    """
    s = study.settings
    stage = s.all_stages[-1]
    search = s.search_of(stage)
    if not isinstance(search, SurrogateChoice):
        raise TrainingError(f"report: expected an ensemble of a study with `kind: surrogate`, got {search.kind}")

    def task(state: State, cases: Sequence[Case]) -> SearchTask:
        classes = []
        for c, objective in enumerate(s.objective.objectives(s.cca, "training", margin_se=stage.margin_se)):
            held = {name: ensemble.row(state, c)[name] for name in stage.held_from}
            classes.append(ClassTask(s.space(c).holding(held), objective, objective, (), ((), ())))
        name = "-".join([stage.name, *map(str, state)])
        return SearchTask(name, s.cca, s.names, search, tuple(classes), tuple(cases), s.rounds)

    away = set(left_out)
    by_state = {state: study.workload.cases([state], "training", stage.sample) for state in study.trained}
    # A state's cases may be its neighbours', too.
    kept = {state: [case for case in its if case.state not in away]
            for state, its in by_state.items() if state not in away}  # fmt: skip
    model = study.contextual()
    others = [case for state in left_out for case in by_state[state]]
    model.learn(stage.name, search, [task(state, its) for state, its in kept.items() if its], others=others)
    return {
        (state, c): model.first_row(task(state, by_state[state]), c) for state in left_out for c in range(s.n_classes)
    }


def validated(study: Study, ensemble: Ensemble, rows: Mapping[tuple[State, int], Point], *,
              least: int, most: int) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each state with at least `least` validation cases, and class. most: such cases of a state."""
    s = study.settings
    objectives = s.objective.objectives(s.cca, "validation")
    runner = CaseRunner(s.cca, s.names, objectives, threads=study.threads)
    sample = s.all_stages[-1].sample.model_copy(update={"maximum": most, "minimum": 1})
    away = {state for state, _ in rows}
    kept = [state for state in study.trained if state not in away]
    found = []
    for (state, c), first in rows.items():
        cases = study.workload.cases([state], "validation", sample)
        if len(cases) < least:
            continue
        nearest = min(kept, key=lambda one: (sum(abs(a - b) for a, b in zip(one, state, strict=True)), one))
        points = {"first": first, "neighbour": points_of(s, ensemble, nearest, c)["learned"],
                  **points_of(s, ensemble, state, c)}  # fmt: skip
        tallies = runner.run(cases, list(points.values()))
        row: dict[str, Any] = {"state": list(state), "class": c, "cases": len(cases), "nearest": list(nearest)}
        for i, name in enumerate(points):
            score = objectives[c].score(Pool.of(line[i] for line in tallies))
            row[name] = {"meets": score.feasible, "violation": score.violation, "cost": score.cost, **score.metrics}
        found.append(row)
    return found


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each class the states in which each set meets the requirement, its mean cost, and what the first row loses.

    loses: the mean cost of first rows over that of another set, with its 95 % interval over at least five
    states.
    """
    found = []
    for number in sorted({row["class"] for row in rows}):
        its = [row for row in rows if row["class"] == number]
        one: dict[str, Any] = {"class": number, "states": len(its)}
        for name in SCHEMES:
            one[name] = {"met": sum(row[name]["meets"] for row in its),
                         "cost": float(np.mean([row[name]["cost"] for row in its])),
                         "violation": float(np.mean([row[name]["violation"] for row in its]))}  # fmt: skip
        for name in SCHEMES[1:3]:
            apart = np.array([row["first"]["cost"] - row[name]["cost"] for row in its])
            interval = interval_of(apart) if len(apart) >= LEAST_SEEDS else None
            one[f"loses_to_{name}"] = {"cost": float(apart.mean()), "interval": interval}
        one["holds"] = one["first"]["met"] >= one["neighbour"]["met"]
        found.append(one)
    return found


@click.command()
@of_ensemble
@click.option("--axis", help="The axis whose levels are left out  [the first one]")
@click.option("--level", "levels", multiple=True, type=click.IntRange(0), help="Leave it out  [each third level]")
@click.option("--least", type=click.IntRange(2), default=5, show_default=True, help="Cases of a state that counts")
@click.option("--most", type=click.IntRange(2), default=30, show_default=True, help="Cases of a state at most")
def surrogate(*, given: ReportArguments, axis: str | None, levels: tuple[int, ...], least: int, most: int) -> None:
    """Leave levels out of the model of a study with `kind: surrogate`, and judge the rows that it gives them.

    \b
    Example:
      ccatune report surrogate gr-surrogate.json
      ccatune report surrogate roccet-surrogate.json --axis min_rtt --level 1
    """
    with given.read(with_targets=False) as (ensemble, settings, recordings, terminal):
        training = recordings
        if settings.workload.needs_recordings:
            training = require_recordings(recordings_of(given.paths, part="train"), settings)
        study = Study(settings, training, unseen=recordings, threads=given.threads,
                      progress=terminal)  # fmt: skip
        left_out = left_out_of(study, axis=axis, levels=levels)
        terminal.phase("learning", total=1)
        rows = first_rows(study, ensemble, left_out)
        terminal.phase("validating", total=1)
        found = summary(validated(study, ensemble, rows, least=least, most=most))
    lines = requirement_lines(found, SCHEMES)
    for one in found:
        for name in SCHEMES[1:3]:
            loss = one[f"loses_to_{name}"]
            interval = "" if loss["interval"] is None else f" ± {loss['interval']:.4f}"
            lines.append(f"class {one['class']}: first rows cost {loss['cost']:+.4f}{interval} beside the {name} ones")
    finish(found, lines, line="first rows meet their requirement in as many states as the nearest trained state's rows",
           as_json=given.as_json)  # fmt: skip
