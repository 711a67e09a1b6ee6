# SPDX-License-Identifier: MIT
"""A study of ROCCET: states of throughput level and minimum RTT, least delay beside a rival's goodput."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from links import constant, epochs_of_links, recording

from kmod.ensemble import Deployment, Ensemble, table_text
from training.errors import TrainingError
from training.evaluation.runner import CaseRunner
from training.objectives import Pool
from training.reports.cli import report
from training.study import Study, StudySettings
from training.validation.command import evaluate
from training.validation.states import summary, validate_states
from training.workloads import Sample
from training.workloads.epochs import default_values
from training.workloads.levels import StateEpoch

STUDY = StudySettings.model_validate({
    "schema": "ccatune-study/2",
    "cca": "roccet",
    "axes": {"throughput": {"count": 3, "step_kbps": 2500}, "min_rtt": {"shortest_ms": 20, "count": 2}},
    "clock": {"epoch_s": 5},
    "workload": {"kind": "epochs", "shortest_s": 3, "minimum": 2, "maximum": 4, "link": {"buffer_pkts": 300}},
    "objective": {"kind": "delay", "classes": [
        {"goal": "delay", "queueing_delay_ms": 20},
        {"goal": "delay", "rival": "roccet", "goodput_share": 1, "queueing_delay_ms": 40},
        {"queueing_delay_ms": 60},
    ]},
    "search": {"kind": "dds", "intervals": 4, "steps": 4},
    "stages": [
        {"name": "single", "candidates_from": ["defaults"]},
        {"name": "state", "group_by": ["throughput", "min_rtt"], "candidates_from": ["defaults"]},
        {"name": "final", "group_by": ["throughput", "min_rtt"], "candidates_from": ["state", "single", "defaults"],
         "neighbours": 1, "search": {"kind": "local", "steps": 2}, "sample": {"maximum": 6}},
    ],
})  # fmt: skip
RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
UNSEEN = [recording("c", seed=3, dataset="made-validation"), recording("d", seed=4, dataset="made-validation")]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(STUDY, RECORDINGS, unseen=UNSEEN, threads=2).run()


def test_an_ensemble_has_a_row_for_every_level_rtt_and_class(trained: Ensemble) -> None:
    assert [axis.count for axis in trained.axes] == [3, 2]
    assert len(trained.rows) == 3 * 2 * 3
    states = trained.provenance["states"]
    assert [(*s["state"], s["class"]) for s in states] == [
        (level, rtt, c) for level in range(3) for rtt in range(2) for c in range(3)
    ]
    for number, state in enumerate(states):
        if state["copied_from"] is not None:
            assert trained.rows[number] == tuple(trained.row(tuple(state["copied_from"]), state["class"]).values())
    assert table_text(trained, Deployment("local", "champion", 1)).endswith("end 18\n")


def test_rows_of_least_delay_deliver_their_share_of_what_the_rival_does(trained: Ensemble) -> None:
    for state in trained.provenance["states"]:
        share = {0: 0.95, 1: 1.0}.get(state["class"])
        if share is not None and state["training"]["meets"]:
            assert state["training"]["rival_share"] >= share


def test_a_flow_of_roccet_measures_a_constant_link_at_its_goodput_by_its_own_clock() -> None:
    [turns] = epochs_of_links(STUDY).turns([constant(5.0, seconds=21)], 1)
    assert 0 < turns[0].at_ms < 5000
    for turn, following in itertools.pairwise(turns[1:]):
        assert following.at_ms - turn.at_ms == pytest.approx(5000, abs=150)
        assert turn.measured_bytes_per_s == pytest.approx(603_333, rel=0.06)


def runner() -> CaseRunner:
    return CaseRunner("roccet", STUDY.names, STUDY.objective.objectives("roccet", "validation"), threads=2)


def test_each_path_has_epochs_of_its_own_rtt() -> None:
    workload = epochs_of_links(STUDY, RECORDINGS[:1])
    assert {epoch.rtt for epoch in workload.epochs} == {0, 1}
    assert len({epoch.key for epoch in workload.epochs}) == len(workload.epochs)
    short, long = (StateEpoch(RECORDINGS[0], 5000, 10_000, 0, rtt) for rtt in (0, 1))
    [[near], [far]] = runner().run([workload.case(short), workload.case(long)], [(100, 20, 125, 700)])
    assert near.delays.tolist() != far.delays.tolist()
    assert near.capacity_bytes == far.capacity_bytes
    assert near.references["bbr"].goodput_bytes > 0


def test_the_defaults_deliver_exactly_what_they_do_as_a_rival() -> None:
    case = epochs_of_links(STUDY).case(StateEpoch(RECORDINGS[0], 5000, 10_000, 0, 0))
    [[tally]] = runner().run([case], [tuple(default_values("roccet").values())])
    assert tally.references["roccet"].goodput_bytes == tally.goodput_bytes > 0


def test_a_row_is_judged_on_unseen_epochs_of_its_state_beside_the_defaults_and_the_single_set(
    trained: Ensemble,
) -> None:
    workload = epochs_of_links(STUDY, unseen=UNSEEN)
    cases = {state: workload.cases([state], "validation", Sample()) for state in STUDY.states}
    cases = {state: its for state, its in cases.items() if len(its) >= 3}
    rows = validate_states(STUDY, trained, cases, threads=2)
    assert {tuple(row["state"]) for row in rows} == set(cases)
    first, state = rows[0], next(iter(cases))
    assert first["values"] == trained.row(state, 0)
    assert first["rtt_ms"] == [20 * 2 ** state[1], 40 * 2 ** state[1]]
    # The figures are those of the objective over the same epochs.
    point = tuple(first["values"][name] for name in STUDY.names)
    pool = Pool.of(tally for [tally] in runner().run(cases[state], [point]))
    [objective, *_] = STUDY.objective.objectives("roccet", "validation")
    assert first["learned"]["delay_ms"] == objective.score(pool).bounded
    for row in rows:
        if row["values"] == trained.provenance["single"][row["class"]]["values"]:
            assert row["against"]["single"]["holds"]
            assert row["against"]["single"]["delay_ms"] == 0
    assert {one["states"] for one in summary(rows)} == {len(cases)}


@pytest.fixture(scope="module")
def folder(trained: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roccet")
    trained.save(folder / "roccet.json")
    for name, seed in (("c", 3), ("d", 4)):
        lines = "\n".join(map(str, recording(name, seed=seed).trace.opportunities_ms))
        (folder / f"{name}.down").write_text(lines + "\n", encoding="ascii")
    return folder


def test_the_report_says_in_how_many_states_rows_hold(folder: Path) -> None:
    options = ["states", str(folder / "roccet.json"), "--traces", str(folder), "--least", "2", "--most", "3"]
    result = CliRunner().invoke(report, [*options, "--json"], catch_exceptions=False)
    figures = json.loads(result.stdout)
    assert result.exit_code == (0 if figures["holds"] else 1)
    assert figures["rows_short"] == sum(not row["holds"] for row in figures["rows"])
    text = CliRunner().invoke(report, options, catch_exceptions=False).stdout
    assert "least delay, 95 % of bbr:\n  met by the row in " in text
    assert "\n  beside the default " in text
    assert "least delay, 100 % of roccet" in text


@pytest.mark.parametrize(
    "words",
    [["evaluate", "--levels"], *(["report", name] for name in ("robustness", "synthetic"))],
)
def test_reports_on_delay_targets_refuse_another_objective_before_traces_are_read(
    trained: Ensemble, tmp_path: Path, words: list[str]
) -> None:
    trained.save(tmp_path / "roccet.json")
    command = {"evaluate": evaluate, "report": report}[words[0]]
    options = [*words[1:], str(tmp_path / "roccet.json"), "--traces", str(tmp_path / "nowhere")]
    with pytest.raises(TrainingError, match="got one of roccet with another objective"):
        CliRunner().invoke(command, options, catch_exceptions=False)
