# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from links import constant, recording, study

from emulation.source_tokens import engine_sources, engine_sources_digest
from training.flows import EpochRunner, core_version, epoch_cases, epoch_scenario, objectives, reference_text
from training.objective import Pool
from training.states import StateEpoch

ROOT = Path(__file__).resolve().parents[2]
POINT = (20_000, 2000, 30_000)


def test_the_core_version_is_that_of_the_sources_here() -> None:
    assert core_version() == engine_sources_digest(ROOT), "the engine is older than its sources; run make build"


def test_the_core_version_is_of_core_and_simulator() -> None:
    assert {"gr.h", "params.def", "sender.hpp", "link.hpp", "gr_algorithm.hpp", "simulation.cpp"} <= {
        path.name for path in engine_sources(ROOT)
    }


def test_an_epoch_is_measured_from_its_begin_and_runs_from_before() -> None:
    scenario = epoch_scenario(study(), StateEpoch(recording(seconds=60), 20_000, 25_000, 3))
    assert (scenario.duration_s, scenario.warmup_s) == (8.0, 3.0)
    early = epoch_scenario(study(), StateEpoch(recording(seconds=60), 1000, 6000, 3))
    assert (early.duration_s, early.warmup_s) == (6.0, 1.0)


def test_capacity_and_delivery_of_an_epoch_are_those_of_the_link() -> None:
    epoch = StateEpoch(constant(6.0, seconds=30), 10_000, 15_000, 5)
    [[tally]] = EpochRunner(study(), threads=1).run(epoch_cases(study(), [epoch]), [POINT])
    assert tally.capacity_bytes == pytest.approx(epoch.capacity_bytes, abs=3000)
    assert tally.capacity_bytes == pytest.approx(6e6 / 8 * 5, rel=0.01)
    assert 0.9 * tally.capacity_bytes < tally.delivered_bytes <= tally.capacity_bytes
    assert tally.delays.sum() == tally.packets == tally.delivered_bytes // 1500


def test_runs_do_not_depend_on_threads_or_on_what_runs_beside_them() -> None:
    link = recording(seconds=60)
    epochs = [StateEpoch(link, at_ms, at_ms + 5000, 3) for at_ms in (5000, 20_000, 40_000)]
    points = [POINT, (60_000, 10_000, 80_000)]
    together = EpochRunner(study(), threads=2).run(epoch_cases(study(), epochs), points)
    for i, epoch in enumerate(epochs):
        for j, point in enumerate(points):
            [[alone]] = EpochRunner(study(), threads=1).run(epoch_cases(study(), [epoch]), [point])
            assert alone.delivered_bytes == together[i][j].delivered_bytes
            assert (alone.delays == together[i][j].delays).all()


def test_a_larger_threshold_waits_longer_and_carries_no_less() -> None:
    runner = EpochRunner(study(), threads=1)
    [asked, _] = objectives(study(), runner)
    epochs = [StateEpoch(recording(seconds=60), at_ms, at_ms + 5000, 3) for at_ms in (10_000, 30_000)]
    scores = [
        asked.score(Pool.of(tally for [tally] in runner.run(epoch_cases(study(), epochs), [point])))
        for point in ((20_000, 2000, 10_000), (20_000, 2000, 100_000))
    ]
    assert scores[0].delay_ms < scores[1].delay_ms
    assert scores[0].utilization < scores[1].utilization


def test_training_aims_at_the_studys_share_of_the_target() -> None:
    careful = study(classes=[{"queueing_delay_ms": 50, "aim": 0.9}])
    runner = EpochRunner(careful, threads=1)
    assert objectives(careful, runner)[0].aim_us == 45_000
    assert objectives(careful, runner, aim=False)[0].aim_us == 50_000


def test_finals_may_have_a_margin_of_their_own() -> None:
    careful = study(objective={"margin_se": 1.5})
    runner = EpochRunner(careful, threads=1)
    assert objectives(careful, runner)[0].margin_se == 1.5
    assert objectives(careful, runner, margin_se=0.5)[0].margin_se == 0.5
    assert objectives(careful, runner, aim=False, margin_se=0.5)[0].margin_se == 0.0


def test_the_reference_table_holds_the_defaults_in_every_row() -> None:
    rows = [line.split()[2:] for line in reference_text(study()).splitlines() if line[0].isdigit()]
    assert rows == [["100000", "10000", "50000"]] * 8
