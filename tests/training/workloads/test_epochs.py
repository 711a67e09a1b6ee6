# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools

import pytest
from links import constant, epochs_of_links, recording, study

from training.evaluation.runner import CaseRunner
from training.objectives import Pool
from training.workloads import Sample
from training.workloads.epochs import default_table
from training.workloads.levels import StateEpoch

POINT = (20_000, 2000, 30_000)
WORKLOAD = epochs_of_links(study(), [recording("a", seed=1), recording("b", seed=2)],
                           unseen=[recording("c", seed=3)])  # fmt: skip


def runner(threads: int = 1) -> CaseRunner:
    return CaseRunner("gr", study().names, [], threads=threads)


def test_an_epoch_is_measured_from_its_begin_and_runs_from_before() -> None:
    scenario = WORKLOAD.case(StateEpoch(recording(seconds=60), 20_000, 25_000, 3)).scenario
    assert (scenario.duration_s, scenario.warmup_s) == (8.0, 3.0)
    early = WORKLOAD.case(StateEpoch(recording(seconds=60), 1000, 6000, 3)).scenario
    assert (early.duration_s, early.warmup_s) == (6.0, 1.0)


def test_capacity_and_delivery_of_an_epoch_are_those_of_the_link() -> None:
    epoch = StateEpoch(constant(6.0, seconds=30), 10_000, 15_000, 5)
    [[tally]] = runner().run([WORKLOAD.case(epoch)], [POINT])
    assert tally.capacity_bytes == pytest.approx(epoch.capacity_bytes, abs=3000)
    assert tally.capacity_bytes == pytest.approx(6e6 / 8 * 5, rel=0.01)
    assert 0.9 * tally.capacity_bytes < tally.delivered_bytes <= tally.capacity_bytes
    assert tally.delays.sum() == tally.packets == tally.delivered_bytes // 1500


def test_runs_do_not_depend_on_threads_or_on_what_runs_beside_them() -> None:
    cases = [WORKLOAD.case(StateEpoch(recording(seconds=60), at, at + 5000, 3)) for at in (5000, 20_000, 40_000)]
    points = [POINT, (60_000, 10_000, 80_000)]
    together = runner(2).run(cases, points)
    for (i, case), (j, point) in itertools.product(enumerate(cases), enumerate(points)):
        [[alone]] = runner().run([case], [point])
        assert alone.delivered_bytes == together[i][j].delivered_bytes
        assert (alone.delays == together[i][j].delays).all()


def test_a_larger_threshold_waits_longer_and_carries_no_less() -> None:
    [objective, _] = study().objective.objectives("gr", "training")
    cases = [WORKLOAD.case(StateEpoch(recording(seconds=60), at, at + 5000, 3)) for at in (10_000, 30_000)]
    scores = [
        objective.score(Pool.of(tally for [tally] in runner().run(cases, [point])))
        for point in ((20_000, 2000, 10_000), (20_000, 2000, 100_000))
    ]
    assert scores[0].bounded < scores[1].bounded
    assert scores[0].cost > scores[1].cost


def test_training_requires_the_studys_share_of_the_target_and_judging_the_target() -> None:
    careful = study(objective={"kind": "delay", "margin_se": 1.5, "classes": [{"queueing_delay_ms": 50, "aim": 0.9}]})
    made = [careful.objective.objectives("gr", "training")[0],
            careful.objective.objectives("gr", "training", margin_se=0.5)[0],
            careful.objective.objectives("gr", "validation", margin_se=0.5)[0]]  # fmt: skip
    assert [(one.aim_us, one.margin_se) for one in made] == [(45_000, 1.5), (45_000, 0.5), (50_000, 0.0)]  # type: ignore[attr-defined]


def test_the_reference_table_holds_the_defaults_in_every_row() -> None:
    axis = study().levels["throughput"]
    text = default_table("gr", epoch_ms=5000, estimate_ms=250, axis=axis)
    rows = [line.split()[1:] for line in text.splitlines() if line[0].isdigit()]
    assert rows == [["100000", "10000", "50000"]] * 8


def test_states_with_too_few_epochs_take_the_row_of_another() -> None:
    for state in study().states:
        source = WORKLOAD.source(state)
        cases = WORKLOAD.cases([state], "training", Sample())
        assert (len(cases) >= 2) == (source == state)
        assert WORKLOAD.of_state(state)["copied_from"] == (None if source == state else list(source))


def test_epochs_that_confirm_or_judge_did_not_train() -> None:
    for state in study().states:
        training, confirming, judging = (
            WORKLOAD.cases([state], purpose, Sample()) for purpose in ("training", "confirming", "validation")
        )
        keys = [{case.key for case in its} for its in (training, confirming, judging)]
        assert not keys[0] & keys[1]
        assert not keys[2] & (keys[0] | keys[1])
        assert {case.state for case in confirming + judging} <= {state}


def test_a_larger_sample_takes_in_more_epochs_of_the_level() -> None:
    long = epochs_of_links(study(), [recording("a", seed=1, seconds=300)])
    trained = [state for state in study().states if long.source(state) == state]
    more = [len(long.cases([state], "training", Sample(maximum=40))) for state in trained]
    less = [len(long.cases([state], "training", Sample())) for state in trained]
    assert max(less) <= 6 < max(more)


def test_a_default_flow_measures_a_constant_link_at_its_goodput() -> None:
    # 1448 of the 1500 bytes of a packet are payload: 5 Mbit/s on the wire are 603,333 bytes/s.
    [turns] = WORKLOAD.turns([constant(5.0, seconds=30)])
    assert len(turns) >= 5
    assert 0 < turns[0].at_ms < 3000
    for turn, following in itertools.pairwise(turns[1:]):
        assert turn.measured_bytes_per_s == pytest.approx(603_333, rel=0.03)
        assert following.at_ms - turn.at_ms == pytest.approx(5000, abs=100)


def test_the_estimation_window_is_the_studys() -> None:
    link = recording(seconds=60, seed=4)
    short, long = (
        epochs_of_links(study(clock={"epoch_s": 5, "estimate_ms": ms})).turns([link])[0] for ms in (250, 5000)
    )
    assert [t.at_ms for t in short] == [t.at_ms for t in long]
    assert [t.measured_bytes_per_s for t in short[1:]] != [t.measured_bytes_per_s for t in long[1:]]
