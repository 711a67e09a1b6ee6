# SPDX-License-Identifier: MIT
"""Compares an ensemble's rows with the defaults and the best single set, on unseen cases of the rows' own states.

Each parameter set runs throughout a case, as in training, so that no flow has to follow the table. This validates the
learned row, independently of how well a flow finds its row. For delay classes:

    delay      the class's percentile of the queueing delay, over the packets of all cases together
    goodput    delivered bytes over capacity; `rival_share`: goodput over that of the goal's rival
    less, more than another set's: the whole 95 % interval of the difference lies on that side (percentile bootstrap
               over cases; Efron, Tibshirani 1993, chapter 13)

A state holds against another set if its delay is not higher and its goodput not less. A class may also use the room
that its requirement leaves:

    a delay target               the delay may be higher while the target is met. The goodput may be less where the
                                 other set misses the target
    a share of rival's goodput   the goodput may be less while it, or its interval, reaches that share. The delay may
                                 be higher where the other set misses the share

A row is `better` if it has less delay at no less goodput. This uses the intervals alone, without that room.

Rows of other objectives are compared by their costs, case by case (`compare_costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation.runner import CaseRunner
from training.intervals import drawn_percentiles, drawn_weights, interval_95, student_t95
from training.objectives import DelayObjective, DelaySettings, Objective, Pool, Tally
from training.searches import Point
from training.study.ensemble import require_singles
from training.study.settings import StudySettings
from training.workloads import Case, State
from training.workloads.axes import level_bounds
from training.workloads.epochs import default_values

Floats = NDArray[np.float64]
OTHERS = ("default", "single")


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of one parameter set on the epochs of a state.

    delays: packets by delay, float [epochs, bins]. goodput, by_rival: bytes of the set and of the rival, float
    [epochs].
    """

    goodput: Floats
    by_rival: Floats
    delays: Floats

    @staticmethod
    def of(tallies: Sequence[Tally], objective: DelayObjective) -> _Runs:
        return _Runs(
            np.array([t.goodput_bytes for t in tallies], dtype=np.float64),
            np.array(
                [t.references[objective.rival].goodput_bytes if objective.rival else 0 for t in tallies], np.float64
            ),
            np.array([t.delays for t in tallies], dtype=np.float64),
        )

    def misses_its_share(self, weights: Floats, objective: DelayObjective) -> bool:
        """Whether the whole interval of the goodput over the rival's is below the required share."""
        _, high = interval_95(weights @ self.goodput / np.maximum(weights @ self.by_rival, 1.0))
        return high < objective.goodput_share

    def drawn_delays_ms(self, weights: Floats, objective: DelayObjective) -> Floats:
        """The class's percentile of the delay in each draw; weights: of its epochs, float [draws, epochs]."""
        return drawn_percentiles(weights, self.delays, objective.edges_us / 1000, share=objective.share)


def validate_states(
    study: StudySettings,
    ensemble: Ensemble,
    states: Mapping[State, Sequence[Case]],
    *,
    threads: int,
    progress: Callable[[float], None] = lambda _states: None,
) -> list[dict[str, Any]]:
    """A row for each state and class, as JSON data.

    states: the validation cases of each state. progress: called with 1 after each state.

    Raises:
        TrainingError: there is no state to validate, or the ensemble has no single sets.
    """
    if not states:
        raise TrainingError("report: expected a state with enough unseen epochs, got none; give more traces")
    objectives = study.objective.objectives(study.cca, "validation")
    runner = CaseRunner(study.cca, study.names, objectives, threads=threads)
    rows = []
    for state, cases in states.items():
        for number, objective in enumerate(objectives):
            points = points_of(study, ensemble, state, number)
            rows.append({
                "state": list(state), **places_of(study, state), "class": number, **_class_of(study, number),
                "cases": len(cases), "values": ensemble.row(state, number), **_row(runner, cases, objective, points),
            })  # fmt: skip
        progress(1.0)
    return rows


def points_of(study: StudySettings, ensemble: Ensemble, state: State, number: int) -> dict[str, Point]:
    """The sets that are compared in a state and class: its learned row, the defaults, and the best single set."""
    sets = {"learned": ensemble.row(state, number), "default": default_values(ensemble.cca),
            "single": require_singles(ensemble)[number]}  # fmt: skip
    return {name: tuple(values[column] for column in study.names) for name, values in sets.items()}


def places_of(study: StudySettings, state: State) -> dict[str, Any]:
    """The bounds of a state's levels, in ms and Mbit/s."""
    found: dict[str, Any] = {}
    for (name, axis), level in zip(study.levels.items(), state, strict=True):
        unit, scale = ("rtt_ms", 1e-3) if name == "min_rtt" else (f"{name}_mbps", 8e-6)
        found[unit] = [end * scale for end in level_bounds(axis, level)]
    return found


def _class_of(study: StudySettings, number: int) -> dict[str, Any]:
    if not isinstance(study.objective, DelaySettings):
        return {"goal": study.objective.kind}
    one = study.objective.classes[number]
    return {"goal": one.goal, "target_ms": one.queueing_delay_ms, "goodput_share": one.goodput_share,
            "rival": one.rival if one.goal == "delay" else None}  # fmt: skip


def _row(
    runner: CaseRunner, cases: Sequence[Case], objective: Objective, points: Mapping[str, Point]
) -> dict[str, Any]:
    distinct = list(dict.fromkeys(points.values()))
    tallies = runner.run(cases, distinct)
    by_name = {name: [row[distinct.index(point)] for row in tallies] for name, point in points.items()}
    found: dict[str, Any] = {}
    for name, its in by_name.items():
        score = objective.score(Pool.of(its))
        found[name] = {"meets": score.feasible, "cost": score.cost, **score.metrics}
    against = {}
    for other in OTHERS:
        if isinstance(objective, DelayObjective):
            against[other] = compare(by_name["learned"], by_name[other], objective)
        else:
            against[other] = compare_costs(by_name["learned"], by_name[other], objective)
    return {**found, "against": against, "holds": all(one["holds"] for one in against.values())}


def compare_costs(mine: Sequence[Tally], others: Sequence[Tally], objective: Objective) -> dict[str, Any]:
    """The mean difference of the costs, case by case, with its interval (Student's t), and whether `mine` holds.

    It holds if `mine` meets the requirement and its costs are not higher beyond the interval. It also holds if the
    other set misses the requirement.
    """
    apart = objective.case_costs(mine) - objective.case_costs(others)
    interval = student_t95(len(apart)) * float(apart.std(ddof=1)) / math.sqrt(len(apart))
    mean = float(apart.mean())
    meets, other_meets = (objective.score(Pool.of(its)).feasible for its in (mine, others))
    return {
        "cost": mean,
        "cost_interval": interval,
        "better": mean < -interval and (meets or not other_meets),
        "holds": not other_meets or (meets and mean <= interval),
    }


def compare(mine: Sequence[Tally], theirs: Sequence[Tally], objective: DelayObjective) -> dict[str, Any]:
    """The differences of two sets on the same epochs, with their intervals, and whether `mine` holds."""
    my_runs, their_runs = _Runs.of(mine, objective), _Runs.of(theirs, objective)
    my_score, their_score = objective.score(Pool.of(mine)), objective.score(Pool.of(theirs))
    weights = drawn_weights(len(mine), seed=1)
    delay_ms = interval_95(my_runs.drawn_delays_ms(weights, objective) - their_runs.drawn_delays_ms(weights, objective))
    goodput = interval_95(weights @ my_runs.goodput / np.maximum(weights @ their_runs.goodput, 1.0))
    slower, less = delay_ms[0] > 0, goodput[1] < 1
    better = delay_ms[1] < 0 and not less
    if objective.goal == "throughput":
        slower = slower and not my_score.feasible
        less = less and their_score.feasible
    else:
        slower = slower and not their_runs.misses_its_share(weights, objective)
        less = less and my_runs.misses_its_share(weights, objective)
    return {
        "delay_ms": my_score.bounded - their_score.bounded,
        "delay_interval_ms": list(delay_ms),
        "goodput": float(my_runs.goodput.sum() / max(their_runs.goodput.sum(), 1.0)),
        "goodput_interval": list(goodput),
        "better": better,
        "holds": not slower and not less,
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each class the number of states, and in how many of them a set meets the requirement or the row holds.

    It also has the mean of each set's metrics, in which every state has the same weight.
    """
    found = []
    for number in sorted({row["class"] for row in rows}):
        its = [row for row in rows if row["class"] == number]
        metrics = sorted(set(its[0]["learned"]) - {"meets"})
        found.append({
            "class": number, "states": len(its),
            **{key: its[0].get(key) for key in ("goal", "target_ms", "goodput_share", "rival")},
            **{f"mean_{metric}_{name}": float(np.mean([row[name][metric] for row in its]))
               for name in ("learned", *OTHERS) for metric in metrics},
            **{f"met_by_{name}": sum(row[name]["meets"] for row in its) for name in ("learned", *OTHERS)},
            **{f"holds_against_{other}": sum(row["against"][other]["holds"] for row in its) for other in OTHERS},
            **{f"better_than_{other}": sum(row["against"][other]["better"] for row in its) for other in OTHERS},
        })  # fmt: skip
    return found
