# SPDX-License-Identifier: MIT
"""The search for the worst paths of an ensemble."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from links import recording, study

from emulation.run.qos import Delays
from emulation.run.simulator import simulate
from emulation.scenario.files import load_scenario
from kmod.ensemble import DelayClass
from training.progress import Progress
from training.reports.robustness import Pooled
from training.reports.worst import Judge, draw_worst, regret, row_of, search_from, write_worst
from training.study import Study
from training.workloads.paths import read_paths

TARGET = DelayClass(95, 50_000)


def run(delay_ms: float, used: float) -> Pooled:
    return Pooled(Delays(np.array([1000 * delay_ms]), np.array([100])), used)


@pytest.mark.parametrize(
    ("own", "perfect", "expected"),
    [
        ((50, 0.7), (50, 0.9), 0.2),
        ((50, 0.9), (50, 0.7), 0.0),
        ((93.75, 0.7), (51, 0.9), 0.2 + 0.5),
        ((93.75, 0.7), (52, 0.9), 0.2),
        ((500, 0.7), None, 0.3 + 1.0),
    ],
)
def test_regret_is_unused_link_and_delay_where_perfect_knowledge_keeps_the_target(
    own: tuple[float, float], perfect: tuple[float, float] | None, expected: float
) -> None:
    assert regret(run(*own), run(*perfect) if perfect else None, TARGET) == pytest.approx(expected, abs=0.02)


def test_the_worst_paths_are_those_of_all_drawn_and_are_written_as_they_ran(tmp_path: Path) -> None:
    ensemble = Study(study(), [recording(seed=1, seconds=120)], threads=2).run()
    judge = Judge(ensemble, read_paths("cellular"), [recording("c", seed=3, seconds=150)], threads=2)
    drawn, mean = draw_worst(judge, draws=6, seed=1, progress=Progress())
    every = np.random.default_rng([1, 0]).random((6, 10)).tolist()
    regrets = [judge.judge(at, c, judge.owns([at], c)[0]).regret for at in every for c in range(2)]
    assert drawn[0].regret == mean == max(regrets) > 0
    found = search_from(judge, drawn[0], steps=12, seed=(1, 1), progress=Progress())
    assert found.regret > drawn[0].regret
    write_worst(judge, [found, *drawn], tmp_path, share=1)
    for number, one in enumerate([found, *drawn], 1):
        row, qos = row_of(judge, one), simulate(load_scenario(tmp_path / f"worst-{number}.yaml"))
        assert qos.utilization == pytest.approx(row["ensemble"]["utilization"], abs=1e-4)
    paths = read_paths(tmp_path / "paths.yaml")
    links = [paths.draw(str(n), seed=1, duration_s=60) for n in range(100)]
    assert {link["rtt_ms"] for link in links} == {judge.place(one.at)[0].rtt_ms[0] for one in [found, *drawn]}
    assert judge.paths.draw("x", seed=1, duration_s=60) == paths.model_copy(update={"cases": None}).draw(
        "x", seed=1, duration_s=60
    )
