# SPDX-License-Identifier: MIT
"""An ensemble's rows on unseen epochs of their own states, beside the defaults and the best single set.

Each parameter set runs throughout an epoch, as in training (flows.py), so that no flow has to follow the table: what
is judged is the learned row, apart from how well a flow finds it. Per state and class:

    delay      the class's percentile of the queueing delay, over the epochs' packets together
    goodput    delivered over capacity; `rival_share`: over what the goal's rival delivers
    less, more than another set's: the whole 95 % interval of the difference lies on that side (percentile bootstrap
               over epochs, Efron, Tibshirani 1993, chapter 13)

A state holds against another set where its delay is not higher and its goodput not less. A class may use what it is
asked for leaves. With a delay target its delay may be higher as long as the target is met, and its goodput less where
the other set misses the target. With a share of a rival's goodput its goodput may be less as long as it has that share
(or the interval reaches it), and its delay higher where the other set misses it. Rows that are `better`, of less delay
at no less goodput, are counted without any of that: by the intervals alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmod.ensemble import Ensemble
from training.build import single_sets
from training.cases import Case
from training.errors import TrainingError
from training.flows import EpochRunner, default_values, epoch_cases, objectives
from training.intervals import drawn_weights, interval_95
from training.objective import Objective, Pool, Tally
from training.plan import choose
from training.settings import StudySettings
from training.space import Point
from training.states import StateEpoch

__all__ = ["OTHERS", "compare", "judge_states", "states_of", "summary"]

Floats = NDArray[np.float64]
OTHERS = ("default", "single")


@dataclass(frozen=True, eq=False)
class _Runs:
    """One set on the epochs of a state: its goodput and the rival's in bytes, float [epochs]; delays [epochs, bins]."""

    goodput: Floats
    by_rival: Floats
    delays: Floats

    @staticmethod
    def of(tallies: Sequence[Tally], objective: Objective) -> _Runs:
        return _Runs(
            np.array([t.goodput_bytes for t in tallies], dtype=np.float64),
            np.array([t.rivals_bytes.get(objective.rival, 0) for t in tallies], dtype=np.float64),
            np.array([t.delays for t in tallies], dtype=np.float64),
        )

    def misses_its_share(self, weights: Floats, objective: Objective) -> bool:
        """Whether its goodput is below the required share of the rival's, with its whole interval."""
        _, high = interval_95(weights @ self.goodput / np.maximum(weights @ self.by_rival, 1.0))
        return high < objective.goodput_share

    def drawn_delays_ms(self, weights: Floats, objective: Objective) -> Floats:
        """The percentile of each draw; weights: how often each draw takes each epoch, float [draws, epochs]."""
        reached = np.cumsum(weights @ self.delays, axis=1)
        bins = (reached < objective.share * reached[:, -1:] - 1e-9).sum(axis=1)
        edges_ms: Floats = objective.edges_us / 1000
        found: Floats = edges_ms[np.minimum(bins, len(edges_ms) - 1)]
        return found


def states_of(epochs: Sequence[StateEpoch], *, least: int) -> dict[tuple[int, int], list[StateEpoch]]:
    """The states with at least so many epochs, by level and level of RTT."""
    found: dict[tuple[int, int], list[StateEpoch]] = {}
    for epoch in epochs:
        found.setdefault(epoch.state, []).append(epoch)
    return {state: its for state, its in sorted(found.items()) if len(its) >= least}


def judge_states(
    study: StudySettings,
    ensemble: Ensemble,
    states: dict[tuple[int, int], list[StateEpoch]],
    *,
    most_epochs: int,
    threads: int,
    told: Callable[[float], None] = lambda _states: None,
) -> list[dict[str, Any]]:
    """A row for each state and class, as JSON data.

    Raises:
        TrainingError: no state to judge, or an ensemble without its single sets.
    """
    singles = single_sets(ensemble)
    if singles is None:
        raise TrainingError("report: expected an ensemble with its best single sets, got one without; train it anew")
    if not states:
        raise TrainingError("report: expected a state with enough unseen epochs, got none; give more traces")
    runner = EpochRunner(study, threads=threads)
    rows = []
    for (level, rtt), its in states.items():
        cases = epoch_cases(study, choose(its, most_epochs))
        place = (level, rtt) if study.rtts is not None else (level,)
        for number, objective in enumerate(objectives(study, runner, aim=False)):
            sets = {"learned": ensemble.row(place, number), "default": default_values(ensemble.cca),
                    "single": singles[number]}  # fmt: skip
            points = {name: tuple(values[column] for column in study.names) for name, values in sets.items()}
            row = _row(runner, cases, objective, points)
            asked = study.classes[number]
            rows.append({
                "level": level, "rtt_ms": study.paths_ms[rtt], "class": number, "goal": asked.goal,
                "target_ms": asked.queueing_delay_ms, "goodput_share": asked.goodput_share,
                "rival": study.rival_of(asked), "epochs": len(cases), "values": sets["learned"], **row,
            })  # fmt: skip
        told(1.0)
    return rows


def _row(runner: EpochRunner, cases: Sequence[Case], objective: Objective, points: dict[str, Point]) -> dict[str, Any]:
    distinct = list(dict.fromkeys(points.values()))
    tallies = runner.run(cases, distinct)
    by_name = {name: [row[distinct.index(point)] for row in tallies] for name, point in points.items()}
    found: dict[str, Any] = {}
    for name, its in by_name.items():
        pool = Pool.of(its)
        score = objective.score(pool)
        found[name] = {
            "delay_ms": score.delay_ms,
            "utilization": score.utilization,
            "delivered_bytes": pool.delivered_bytes,
            "rival_share": score.rival_share,
            "meets": score.feasible,
        }
    against = {other: compare(by_name["learned"], by_name[other], objective) for other in OTHERS}
    return {**found, "against": against, "holds": all(one["holds"] for one in against.values())}


def compare(mine: Sequence[Tally], theirs: Sequence[Tally], objective: Objective) -> dict[str, Any]:
    """Differences of a set to another one on the same epochs, with their intervals; whether it holds."""
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
        "delay_ms": my_score.delay_ms - their_score.delay_ms,
        "delay_interval_ms": list(delay_ms),
        "goodput": float(my_runs.goodput.sum() / max(their_runs.goodput.sum(), 1.0)),
        "goodput_interval": list(goodput),
        "better": better,
        "holds": not slower and not less,
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each class: states, those whose ask is met by each set, those that hold and are better, by the set beside;
    mean delay and goodput.

    Means weigh every state the same.
    """
    found = []
    for number in sorted({row["class"] for row in rows}):
        its = [row for row in rows if row["class"] == number]
        found.append({
            "class": number, "states": len(its),
            **{key: its[0][key] for key in ("goal", "target_ms", "goodput_share", "rival")},
            **{f"mean_delay_ms_{name}": float(np.mean([row[name]["delay_ms"] for row in its]))
               for name in ("learned", *OTHERS)},
            **{f"mean_utilization_{name}": float(np.mean([row[name]["utilization"] for row in its]))
               for name in ("learned", *OTHERS)},
            **{f"met_by_{name}": sum(row[name]["meets"] for row in its) for name in ("learned", *OTHERS)},
            **{f"holds_against_{other}": sum(row["against"][other]["holds"] for row in its) for other in OTHERS},
            **{f"better_than_{other}": sum(row["against"][other]["better"] for row in its) for other in OTHERS},
        })  # fmt: skip
    return found
