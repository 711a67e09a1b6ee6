# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from links import epochs_of_links, recording, study, workload
from small import RECORDINGS, small

from emulation.mahimahi.translate import Runner
from emulation.run.simulator import simulate_many
from kmod.ensemble import Ensemble
from training.cli import train
from training.errors import TrainingError
from training.reports import robustness
from training.reports import search as search_report
from training.reports.bound import bounds
from training.reports.cli import report
from training.reports.conditions import CONDITIONS, Place, places_of
from training.reports.robustness import run_conditions, shortfalls
from training.reports.search import SearchReport, compared_stage, halves, state_cases
from training.reports.synthetic import run_both
from training.searches import SobolChoice
from training.study import Journal, Study, load_study
from training.validation.recordings import WITHIN, validate
from training.workloads import Sample
from training.workloads.levels import StateEpoch

TRAINING = [recording("a", seed=1, seconds=120), recording("b", seed=2, seconds=120)]
UNSEEN = [recording("c", seed=3, seconds=120), recording("d", seed=4, seconds=120)]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(study(), TRAINING, threads=2).run()


def epochs(*levels: int) -> list[StateEpoch]:
    return [StateEpoch(TRAINING[0], i * 10, i * 10 + 5000, level) for i, level in enumerate(levels)]


def test_the_halves_are_every_other_epoch_in_time() -> None:
    searched, judged = halves(epochs(*[1] * 7)[::-1])
    assert [e.start_ms for e in searched] == [0, 20, 40, 60]
    assert [e.start_ms for e in judged] == [10, 30, 50]


def test_states_are_picked_at_equal_distances_among_those_with_enough_epochs() -> None:
    found = epochs_of_links(study(), TRAINING)
    found.__dict__["epochs"] = epochs(*[level for level in (1, 2, 4, 5, 6, 7) for _ in range(24)], *[3] * 23)
    assert list(state_cases(study(), found, count=3, most_cases=2)) == [(2,), (5,), (7,)]
    assert len(state_cases(study(), found, count=7, most_cases=2)) == 6
    found.__dict__["epochs"] = epochs(*[3] * 23)
    with pytest.raises(TrainingError, match="expected a state with at least 24 epochs"):
        state_cases(study(), found, count=7, most_cases=2)


@pytest.mark.parametrize("name", ["gr", "gr-demo", "roccet", "rtcp"])
def test_the_search_that_is_compared_needs_no_result_of_another_stage(name: str) -> None:
    its = load_study(search_report.STUDIES / f"{name}.yaml")
    assert its.search_of(compared_stage(its)).make(its.space(0), [], samples=(1,), steps=(1,)).budget > 20


@pytest.mark.parametrize("kind", ["epochs", "policed"])
def test_the_search_report_compares_on_unseen_cases_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(search_report, "GRIDS", {2: 3, 3: 2})
    monkeypatch.setattr(search_report, "LEAST_EPOCHS", 6)
    settings = study() if kind == "epochs" else small()
    recordings = [*TRAINING, *UNSEEN] if kind == "epochs" else RECORDINGS
    cases = state_cases(settings, workload(settings, recordings), count=2, most_cases=4)
    comparison = SearchReport(settings, seeds=2, threads=2, others={"other": SobolChoice(kind="sobol", points=3)})
    rows = comparison.run(cases, journal=Journal(tmp_path, key="ab" * 32))
    assert [row["class"] for row in rows] == ([0, 1] * 4 if kind == "epochs" else [0] * 4)
    own = (8, 2) if kind == "epochs" else (5, 2)
    for row in rows:
        assert (row["evaluations"], row["seeds"]) == ((3, 2) if row["search"] else own)
        assert row["seconds"] > 0
        assert 0 < row["worst_share"] <= row["mean_share"]
        no_worse = row["worst_violation"] <= row["grid"]["violation"] + 0.02
        assert row["holds"] == (no_worse and row["worst_share"] >= 0.98)
    monkeypatch.setattr(SearchReport, "state", lambda *_args: pytest.fail("a finished state ran again"))
    assert comparison.run(cases, journal=Journal(tmp_path, key="ab" * 32)) == rows


def test_robustness_on_an_undisturbed_path_agrees_with_the_judgement(trained: Ensemble) -> None:
    places = [Place(r, 0, r.duration_s) for r in UNSEEN]
    [row] = run_conditions(trained, places, conditions=CONDITIONS[:1], schemes=["ensemble"])
    for cells, pooled in zip(row["targets"], validate(trained, UNSEEN)["targets"], strict=True):
        assert cells["ensemble"]["utilization"] == pytest.approx(pooled["utilization"], abs=1e-4)
        assert cells["ensemble"]["p95_queueing_delay_ms"] == pytest.approx(pooled["p95_queueing_delay_ms"], rel=0.07)


def test_perfect_knowledge_uses_no_less_than_a_single_set_that_keeps_the_target(trained: Ensemble) -> None:
    conditions = [c for c in CONDITIONS if c.name in ("ACKs every 40 ms", "drawn: cellular")]
    for row in run_conditions(trained, places_of(UNSEEN, 4), conditions=conditions, perfect=True):
        for cells in row["targets"]:
            single, perfect = cells["single"], cells["perfect"]
            most_ms = WITHIN * cells["target_ms"]
            assert perfect["p95_queueing_delay_ms"] <= max(most_ms, single["p95_queueing_delay_ms"])
            if single["p95_queueing_delay_ms"] <= most_ms:
                assert perfect["utilization"] >= single["utilization"]
            assert perfect["values"]
        assert row["holds"] == (not any(cells["short_of"] for cells in row["targets"]))


def test_the_defaults_at_the_delay_of_the_ensemble_use_less_than_the_best_set_of_the_cell(trained: Ensemble) -> None:
    [row] = run_conditions(trained, places_of(UNSEEN, 4), conditions=CONDITIONS[:1], perfect=True, with_matched=True)
    for cells in row["targets"]:
        own, at_equal_delay = cells["ensemble"], cells["matched"]
        assert at_equal_delay["p95_queueing_delay_ms"] == own["p95_queueing_delay_ms"]
        assert cells["default"]["utilization"] != at_equal_delay["utilization"]
    first = row["targets"][0]
    assert first["matched"]["utilization"] <= first["perfect"]["utilization"]


def test_an_ensemble_beside_it_runs_with_the_same_targets_or_a_single_one(trained: Ensemble) -> None:
    one = replace(trained, classes=trained.classes[:1], rows=trained.rows[:: len(trained.classes)], provenance={})
    places, schemes = places_of(UNSEEN, 2), ["ensemble", "itself.json", "one.json"]
    others = {"itself.json": trained, "one.json": one}
    [row] = run_conditions(trained, places, conditions=CONDITIONS[:1], schemes=schemes, others=others)
    first, second = row["targets"]
    assert first["ensemble"] == first["itself.json"] == first["one.json"] == second["one.json"]
    assert second["ensemble"] == second["itself.json"]
    swapped = replace(trained, classes=trained.classes[::-1], provenance={})
    with pytest.raises(TrainingError, match=r"it\.json: expected the targets of the ensemble, or a single one"):
        run_conditions(trained, places, conditions=CONDITIONS[:1], others={"it.json": swapped})


@pytest.mark.parametrize(
    ("own", "perfect", "short_of"),
    [
        ((63, 0.80), (50, 0.90), ["delay"]),
        ((63, 0.80), (52, 0.90), []),
        ((50, 0.74), (50, 0.86), ["use"]),
        ((50, 0.74), (50, 0.84), []),
        ((63, 0.10), None, ["delay"]),
    ],
)
def test_the_criterion_asks_for_what_perfect_knowledge_can(
    own: tuple[float, float], perfect: tuple[float, float] | None, short_of: list[str]
) -> None:
    names = ("p95_queueing_delay_ms", "utilization")
    cells = {"ensemble": dict(zip(names, own, strict=True))}
    if perfect is not None:
        cells["perfect"] = dict(zip(names, perfect, strict=True))
    assert shortfalls(cells, target_ms=50) == short_of


def test_company_shares_the_link_and_may_push_the_delay_beyond_the_target(trained: Ensemble) -> None:
    conditions = [c for c in CONDITIONS if c.name in ("undisturbed", "CUBIC beside it", "two flows")]
    rows = run_conditions(trained, places_of(UNSEEN, 2), conditions=conditions, schemes=["ensemble"])
    alone, cubic, two = (row["targets"][0]["ensemble"] for row in rows)
    assert "fairness" not in alone
    assert 0.5 < two["fairness"] < 1.0
    assert cubic["p95_queueing_delay_ms"] > 2 * alone["p95_queueing_delay_ms"]


def test_the_kernel_runs_the_conditions_that_mahimahi_can_do(
    trained: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(name="mahimahi", algorithms={"gr": "gr"}, tunable=frozenset({"gr"}))
    monkeypatch.setattr(robustness, "host_runner", lambda: runner)
    monkeypatch.setattr(robustness, "emulate_many", simulate_many)
    rows, left_out = robustness.on_kernel(trained, places_of(UNSEEN, 2))
    assert [row["target_ms"] for row in rows] == [50, 100] * 6
    reasons = {"CoDel": "link.codel", "jitter 10 ms": "jitter", "outages of 1 s": "access", "two flows": "enough cells"}
    assert all(reason in left_out[name] for name, reason in reasons.items())
    assert sorted([*left_out, *(row["condition"] for row in rows)]) == sorted(c.name for c in CONDITIONS)


def test_made_traces_are_compared_with_what_they_were_fitted_on(trained: Ensemble) -> None:
    rows = run_both(trained, UNSEEN, seed=1)
    assert [row["target_ms"] for row in rows] == [50, 100]
    for row in rows:
        points = row["made"]["utilization"] - row["recorded"]["utilization"]
        assert row["utilization_difference"] == pytest.approx(points, abs=1e-3)


def test_recordings_too_short_to_fit_are_refused_and_hold_nothing(trained: Ensemble) -> None:
    with pytest.raises(TrainingError, match="expected a recording of at least 60 s"):
        run_both(trained, [recording(seconds=30)], seed=1)


def test_the_bound_meets_every_requirement_that_the_rows_meet(trained: Ensemble) -> None:
    found = epochs_of_links(study(), unseen=UNSEEN)
    cases = {state: found.cases([state], "validation", Sample()) for state in study().states}
    cases = {state: its for state, its in cases.items() if len(its) >= 2}
    done: list[float] = []
    rows = bounds(study(), trained, cases, threads=2, progress=done.append)
    assert [row["class"] for row in rows] == [0, 1]
    for row in rows:
        assert row["states"] == len(done) == len(cases) > 0
        assert row["bound"]["met"] >= max(row["ensemble"]["met"], row["single"]["met"])
        assert row["holds"] == (row["ensemble"]["met"] == row["bound"]["met"])


def test_the_bound_needs_states_with_cases(trained: Ensemble) -> None:
    with pytest.raises(TrainingError, match="a state with enough unseen cases"):
        bounds(study(), trained, {}, threads=2)


def test_a_second_kind_of_study_for_an_algorithm_needs_no_code_and_is_judged(tmp_path: Path) -> None:
    """GR for files through policers."""
    policed = {
        "schema": "ccatune-study/2",
        "cca": "gr",
        "axes": {"throughput": {"count": 2, "step_kbps": 2000}},
        "workload": {"kind": "policed", "cases": {"limited": 4}, "limited_s": [5, 8]},
        "objective": {"kind": "goodput", "most_retransmitted": 0.05},
        "search": {"kind": "dds", "intervals": 3, "steps": 2},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(policed))
    words = ["gr", "--study", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "gr.json")]
    assert CliRunner().invoke(train, words, catch_exceptions=False).exit_code == 0
    ensemble = Ensemble.load(tmp_path / "gr.json")
    assert len(ensemble.rows) == 2
    words = ["states", str(tmp_path / "gr.json"), "--least", "2"]
    text = CliRunner().invoke(report, words, catch_exceptions=False).stdout
    assert "judged: 2 of 2 states" in text
    assert "most goodput" in text
    assert all(len(line) <= 80 for line in text.splitlines()[:-1])
