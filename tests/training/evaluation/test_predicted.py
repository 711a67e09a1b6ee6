# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from small import SMALL, policed

from training.evaluation.predicted import outputs_of, pool_of, scale_of
from training.evaluation.runner import CaseRunner
from training.objectives import DelayObjective, LeastRetransmissions, Pool
from training.objectives.tally import Objective
from training.workloads import Sample


def test_runs_that_a_model_predicts_exactly_have_the_score_of_the_runs() -> None:
    cases = policed().cases([(0, 1)], "training", Sample())
    names = ("reduction_permille", "probe_every_rounds", "probe_gain_permille")
    objectives: list[Objective] = [
        LeastRetransmissions("bbr", "rtcp_bbr", 0.95, 0.005),
        DelayObjective(95, 50_000, goal="delay", goodput_share=0.95, rival="bbr"),
        DelayObjective(95, 50_000, margin_se=1.0),
    ]
    runner = CaseRunner(str(SMALL["cca"]), names, objectives, threads=2)
    tallies = [row[0] for row in runner.run(cases, [(700, 20, 100)])]
    scales = [scale_of(case, references) for case, references in zip(cases, runner.references(cases), strict=True)]
    known = outputs_of(tallies, scales)
    for objective in objectives:
        truth = objective.score(Pool.of(tallies))
        found = objective.score(pool_of(scales, known.ratios, known.flags, known.delays))
        assert found.cost == pytest.approx(truth.cost, rel=0.01, abs=1e-3)
        assert found.violation == pytest.approx(truth.violation, rel=0.02, abs=0.02)
