# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from links import recording, study

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.journal import Journal
from training.judge import judge
from training.reports import search as search_report
from training.reports.attainable import attainable
from training.reports.bound import bounds, missed
from training.reports.robustness import CONDITIONS, Condition, robustness
from training.reports.scaled import scaled
from training.reports.search import SearchReport, halves, pick_levels
from training.reports.synthetic import synthetic
from training.states import StateEpoch
from training.study import Study, epochs_for

TRAINING = [recording("a", seed=1, seconds=120), recording("b", seed=2, seconds=120)]
UNSEEN = [recording("c", seed=3, seconds=120), recording("d", seed=4, seconds=120)]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(study(), TRAINING, threads=2).run()


def epochs(*levels: int) -> list[StateEpoch]:
    return [StateEpoch(TRAINING[0], i * 10, i * 10 + 5000, level) for i, level in enumerate(levels)]


def test_levels_are_picked_at_equal_distances_among_those_with_enough_epochs() -> None:
    many = epochs(*[level for level in (1, 2, 4, 5, 6, 7) for _ in range(24)], *[3] * 23)
    assert pick_levels(many, 3) == [2, 5, 7]
    assert pick_levels(many, 6) == [1, 2, 4, 5, 6, 7]


def test_too_few_levels_with_enough_epochs_are_refused() -> None:
    many = epochs(*[1] * 24)
    with pytest.raises(TrainingError, match=r"expected 2 levels .* got 1"):
        pick_levels(many, 2)


def test_the_halves_are_every_other_epoch_in_time() -> None:
    searched, judged = halves(epochs(*[1] * 7)[::-1])
    assert [e.start_ms for e in searched] == [0, 20, 40, 60]
    assert [e.start_ms for e in judged] == [10, 30, 50]


def test_the_search_report_compares_on_unseen_epochs_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_report, "GRID", (3, 2, 4))
    monkeypatch.setattr(search_report, "LEAST_EPOCHS", 6)
    found = epochs_for(study(), [*TRAINING, *UNSEEN], threads=2, ran=lambda _s: None)
    report = SearchReport(study(), seeds=2, most_epochs=4, threads=2)
    rows = report.run(found, levels=2, journal=Journal(tmp_path, key="ab" * 32))
    assert [row["target_ms"] for row in rows] == [50, 100, 50, 100]
    for row in rows:
        assert (row["evaluations"], row["seeds"]) == (8, 2)
        assert 0 < row["worst_share"] <= row["mean_share"]
        met = row["grid_meets"] and row["seeds_meeting"] == 2
        assert row["holds"] == (met and row["worst_share"] >= 0.98)
    monkeypatch.setattr(SearchReport, "level", lambda *_args: pytest.fail("a finished level ran again"))
    assert report.run(found, levels=2, journal=Journal(tmp_path, key="ab" * 32)) == rows


def test_robustness_covers_what_the_claim_names() -> None:
    names = {condition.name for condition in CONDITIONS}
    assert {"RTT 20 ms", "RTT 200 ms", "buffer 200", "as trained", "loss 0.1 %", "loss 1 %", "two flows"} <= names
    assert {condition.flow_s for condition in CONDITIONS} == {None, 10.0, 30.0, 120.0}


def test_robustness_as_trained_agrees_with_the_judgement(trained: Ensemble) -> None:
    [row] = robustness(trained, UNSEEN, conditions=[Condition("as trained")])
    for cell, pooled in zip(row["targets"], judge(trained, UNSEEN)["targets"], strict=True):
        assert cell["utilization"] == pytest.approx(pooled["utilization"], abs=1e-4)
        assert cell["p95_queueing_delay_ms"] == pytest.approx(pooled["p95_queueing_delay_ms"], rel=0.07)


def test_two_flows_share_the_link_and_short_flows_begin_anew(trained: Ensemble) -> None:
    conditions = [Condition("alone"), Condition("two", flows=2), Condition("short", flow_s=10.0)]
    alone, two, short = (row["targets"][0] for row in robustness(trained, UNSEEN, conditions=conditions))
    assert alone["fairness"] == 1.0
    assert 0.5 < two["fairness"] < 1.0
    assert short["throughput_mbps"] != alone["throughput_mbps"]


def test_a_flow_that_joins_late_has_carried_less(trained: Ensemble) -> None:
    conditions = [c for c in CONDITIONS if c.name in ("two flows", "one joins late")]
    # At 10 s of 12: two flows of GR part a link unevenly for long, which over 30 s may outweigh it.
    together, late = robustness(trained, [recording(seconds=12)], conditions=conditions)
    assert late["targets"][0]["fairness"] < together["targets"][0]["fairness"]


def test_a_condition_falls_short_beyond_half_as_much_again_as_the_target(trained: Ensemble) -> None:
    [row] = robustness(trained, UNSEEN, conditions=[Condition("far", rtt_ms=2000.0)])
    assert row["holds"] == all(cell["p95_queueing_delay_ms"] <= 1.5 * cell["target_ms"] for cell in row["targets"])


def test_made_traces_are_compared_with_what_they_were_fitted_on(trained: Ensemble) -> None:
    rows = synthetic(trained, UNSEEN, seed=1)
    assert [row["target_ms"] for row in rows] == [50, 100]
    for row in rows:
        points = row["made"]["utilization"] - row["recorded"]["utilization"]
        assert row["utilization_difference"] == pytest.approx(points, abs=1e-3)


def test_recordings_too_short_to_fit_are_refused_and_hold_nothing(trained: Ensemble) -> None:
    with pytest.raises(TrainingError, match="expected a recording of at least 60 s"):
        synthetic(trained, [recording(seconds=30)], seed=1)


def test_the_bound_is_searched_for_every_level_that_misses(trained: Ensemble) -> None:
    figures = judge(trained, UNSEEN)
    for row in figures["levels"]:
        row["ensemble"]["meets"] = row["target_ms"] != 50
    here = epochs_for(study(), UNSEEN, threads=2, ran=lambda _s: None)
    rows = bounds(study(), figures, here, counts=(2, 2, 5), most_epochs=4, threads=2)
    assert rows
    assert {(row["level"], row["target_ms"]) for row in rows} <= set(missed(figures))
    assert {row["target_ms"] for row in rows} == {50}
    for row in rows:
        assert row["bound_meets"] == (row["bound_delay_ms"] <= 50)


def test_what_is_attainable_meets_more_levels_than_what_was_learnt_elsewhere(trained: Ensemble) -> None:
    here = epochs_for(study(), UNSEEN, threads=2, ran=lambda _s: None)
    told: list[float] = []
    rows = attainable(study(), trained, here, least_epochs=2, most_epochs=6, threads=2, told=told.append)
    assert [row["target_ms"] for row in rows] == [50, 100]
    for row in rows:
        assert row["levels"] == len(told) > 0
        assert row["bound"]["levels_met"] == row["levels"]
        for scheme in ("ensemble", "single"):
            assert row[scheme]["levels_met"] <= row["levels"]
            if row[scheme]["levels_met"] == row["levels"]:
                assert row["bound"]["utilization"] >= row[scheme]["utilization"]


def test_attainable_needs_levels_with_epochs(trained: Ensemble) -> None:
    here = epochs_for(study(), UNSEEN, threads=2, ran=lambda _s: None)
    with pytest.raises(TrainingError, match="expected a level with 1000 epochs"):
        attainable(study(), trained, here, least_epochs=1000, most_epochs=6, threads=2)


def test_single_sets_that_wait_less_use_less_and_the_rival_is_the_best_that_meets_as_many_levels(
    trained: Ensemble,
) -> None:
    for row in scaled(trained, UNSEEN, scales=(1.0, 0.5)):
        whole, half = row["sets"]
        assert half["p95_queueing_delay_ms"] < whole["p95_queueing_delay_ms"]
        assert half["utilization"] <= whole["utilization"]
        able = [one for one in row["sets"] if one["levels_met"] >= row["levels_met"]]
        assert row["rival"] == max(able, key=lambda one: one["utilization"], default=None)
        assert row["holds"] == (row["rival"] is None or row["utilization"] >= row["rival"]["utilization"])


def test_an_ensemble_without_single_sets_has_none_to_scale(trained: Ensemble) -> None:
    bare = dataclasses.replace(trained, provenance={**trained.provenance, "single": []})
    with pytest.raises(TrainingError, match="expected single sets"):
        scaled(bare, UNSEEN)
