# SPDX-License-Identifier: MIT
"""DDS as section IV of the PQSA paper prints it beside the default search, and the cost of an ACK (section V.D).

Both searches evaluate the same number of points on the same epochs, and are compared on epochs that neither has seen.
The printed DDS anneals once in the box around its best sample, and no step is moved to the target's boundary.

The cost is that of the core alone, as in `ccatune bench --only core`. The rounds alternate between the algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from emulation import _engine
from emulation.run.simulator import default_threads
from experiments.campaign import Values
from experiments.figures import Figure, Statement, quotients, within
from experiments.pqsa.statements import PqsaResults
from training.evaluation.evaluator import Evaluator, Request, optimise
from training.evaluation.runner import CaseRunner
from training.reports.search import state_cases
from training.searches import SearchSettings
from training.searches.dds import DdsChoice
from training.study import load_study, require_recordings, setting_of

ACKS = 500_000
# Orca, the cheapest of the paper's learned algorithms, takes 3.37 % of a core. At 48 Mbit/s, the rate of the paper's
# fastest flow, a second has 4,000 packets. This is the time for each of them.
MOST_NS = 0.0337e9 / 4000
Columns = Mapping[str, Values]


def searched(results: PqsaResults) -> dict[str, Columns]:
    """For each target and each state and seed: merit and violation of both searches on unseen epochs."""
    dds, threads = results.settings.dds, default_threads()
    study = load_study(dds.study)
    recordings = require_recordings(results.links.training, study)
    workload = study.workload.open(setting_of(study, recordings=recordings, threads=threads))
    runner = CaseRunner(study.cca, study.names, study.objective.objectives(study.cca, "training"), threads=threads)
    default = study.search_of(next(stage for stage in study.all_stages if stage.group_by))
    printed = DdsChoice.model_validate(default.model_dump(include={"kind", "intervals", "steps"}))
    by_name: dict[str, SearchSettings] = {"default": default, "printed": printed}
    found: dict[str, dict[str, list[float]]] = {}
    for state, (training, unseen) in state_cases(study, workload, count=dds.states, most_cases=dds.cases).items():
        for name, search in by_name.items():
            for seed in range(dds.seeds):
                searches = [
                    (search.make(study.space(c), [], samples=(seed, *state, 0), steps=(seed, *state, c + 1)), objective)
                    for c, objective in enumerate(runner.objectives)
                ]
                best = optimise(Evaluator(runner, training, rounds=study.rounds), searches)
                objectives = study.objective.objectives(study.cca, "validation")
                requests = [Request(one.point, objective) for one, objective in zip(best, objectives, strict=True)]
                scores = Evaluator(runner, unseen, rounds=(1.0,)).evaluate(requests)
                for target, objective, score in zip(study.delay_classes, objectives, scores, strict=True):
                    its = found.setdefault(f"{target.queueing_delay_us / 1000:g} ms", {})
                    its.setdefault(name, []).append(objective.merit(score))
                    its.setdefault(f"{name} violation", []).append(max(score.violation, 0.0))
    return {at: {name: np.array(values) for name, values in its.items()} for at, its in found.items()}


def printed_is_close(found: Columns) -> list[Figure]:
    """Check the printed search's use of the link, and how much more it misses the target than the default search."""
    missed = found["printed violation"] - found["default violation"]
    return [within("use of the link", quotients(found["printed"], found["default"]), least=0.98),
            within("delay missed by more", missed, most=0.02)]  # fmt: skip


DDS: tuple[Statement[Columns], ...] = (
    Statement("IV-3", "DDS as printed finds sets nearly as good as those of the default search, at as many points",
              ">= 98 %, <= 2 % of the target", printed_is_close),
)  # fmt: skip


def costs(results: PqsaResults) -> dict[str, Columns]:
    """The ns for each ACK in the core of each algorithm, one value for each round."""
    rounds = [_engine.core_ns_per_ack(ACKS) for _ in range(results.settings.cost_rounds)]
    return {"core": {name: np.array([one[name] for one in rounds]) for name in ("gr", "cubic", "bbr")}}


def little_cost(ns: Columns) -> list[Figure]:
    return [within(name, its, most=MOST_NS if name == "gr" else math.inf, unit="ns") for name, its in ns.items()]


COST: tuple[Statement[Columns], ...] = (
    Statement("V.D-5", "GR costs little processor time, as other TCP algorithms", f"<= {MOST_NS:.0f} ns for each ACK",
              little_cost),
)  # fmt: skip
