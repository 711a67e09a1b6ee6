# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from links import recording, write_traces
from small import RECORDINGS, SMALL, small, tally

from kmod.ensemble import Ensemble
from training.cli import train
from training.errors import TrainingError
from training.intervals import student_t95
from training.objectives import RetransmissionSettings
from training.objectives.retransmissions import PAPER_PARAMS
from training.reports.cli import report
from training.study import Study
from training.validation.command import evaluate
from training.validation.policed import SCHEMES, SchemeComparison, ratio, validate_policed
from training.workloads.epochs import default_values

UNSEEN = [recording("c", seed=3, dataset="made-validation")]
SETTINGS = small().objective
assert isinstance(SETTINGS, RetransmissionSettings)
COMPARISON = SchemeComparison(small(), SETTINGS, {}, threads=1)


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    """The result of the small study."""
    return Study(small(), RECORDINGS, threads=2).run()


@pytest.fixture(scope="module")
def judged(trained: Ensemble) -> dict:
    return validate_policed(small(), trained, UNSEEN, runs=10, threads=2)


def test_each_state_is_judged_on_files_beside_the_papers_setting_and_the_single_set(judged: dict) -> None:
    assert [row["rtt_ms"] for row in judged["states"]] == [[20, 40]] * 2 + [[40, 80]] * 2
    assert [row["limit_mbps"] for row in judged["states"]] == [[1, 2], [2, 4]] * 2
    for row in judged["states"]:
        assert row["runs"] == 10
        assert set(row["retransmitted"]) == set(SCHEMES)
        assert row["fewer"] == pytest.approx(1 - row["retransmitted"]["learned"] / row["retransmitted"]["paper"])


def test_all_states_together_are_the_mean_over_their_files(judged: dict) -> None:
    every = judged["all"]
    assert every["runs"] == 40
    for name in SCHEMES:
        assert every["retransmitted"][name] == pytest.approx(
            np.mean([row["retransmitted"][name] for row in judged["states"]])
        )


def test_clients_without_a_limit_are_counted_for_each_round_trip(judged: dict) -> None:
    assert [row["clients"] for row in judged["unlimited"]] == [40, 40]
    for row in judged["unlimited"]:
        assert row["share"] == row["false"]["learned"] / 40


def test_a_table_of_the_papers_setting_hardly_differs_from_it(trained: Ensemble) -> None:
    # A flow has its row from its first RTT on. Before that it has the parameters of the host, with their probing.
    columns = (*trained.columns, "probing")
    values = {**default_values("rtcp_bbr"), **PAPER_PARAMS}
    same = replace(trained, columns=columns, rows=tuple(tuple(values[name] for name in columns) for _ in trained.rows))
    judged = validate_policed(small(), same, UNSEEN, runs=10, threads=2)
    for row in judged["states"]:
        assert row["fewer"] == pytest.approx(0, abs=0.01)
        assert row["goodput"]["over_paper"] == pytest.approx(1, abs=0.001)
        assert row["lifted"]["over_paper"] == 1
    assert not judged["all"]["holds"]  # which are to be fewer


def test_a_ratio_of_means_has_the_interval_of_its_residuals() -> None:
    parts, wholes = np.array([1.0, 2.0, 2.0, 3.0, 2.0]), np.array([2.0, 4.0, 5.0, 5.0, 4.0])
    middle, interval = ratio(parts, wholes)
    assert middle == pytest.approx(0.5)
    residuals = parts - 0.5 * wholes
    expected = student_t95(5) * np.sqrt(5 / 4 * (residuals**2).sum()) / wholes.sum()
    assert interval == pytest.approx(expected)
    assert ratio(np.zeros(5), np.zeros(5)) == (1.0, 0.0)
    assert ratio(parts, np.zeros(5)) == (math.inf, 0.0)


@pytest.mark.parametrize(
    ("unmodified", "default", "holds"),
    [(0.96, 1.0, True), (0.94, 1.0, False), (0.80, 0.80, True), (0.75, 0.80, False), (0.96, 1.1, True)],
)
def test_behind_a_raised_limit_the_defaults_are_the_measure_where_they_are_slower(
    unmodified: float, default: float, holds: bool
) -> None:
    """unmodified: the learned goodput over the unmodified algorithm's; default: that of the defaults over it."""
    files = {name: [tally(retransmitted=50)] * 5 for name in SCHEMES}
    raised = {name: [tally("lifted", goodput=unmodified, default=default)] * 5 for name in SCHEMES}
    row = COMPARISON.state_row({"limited": files, "lifted": raised})
    assert row["holds"] == holds


def test_what_sends_again_where_the_papers_setting_does_not_never_holds() -> None:
    files = {name: [tally(retransmitted=3 if name == "learned" else 0)] * 5 for name in SCHEMES}
    raised = {name: [tally("lifted")] * 5 for name in SCHEMES}
    row = COMPARISON.state_row({"limited": files, "lifted": raised})
    assert row["fewer"] == -math.inf
    assert not row["holds"]


def test_too_few_runs_for_an_interval_are_refused(trained: Ensemble) -> None:
    with pytest.raises(TrainingError, match="expected at least 10 runs of a state, got 9"):
        validate_policed(small(), trained, UNSEEN, runs=9, threads=1)


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rtcp")
    (folder / "study.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    write_traces(folder / "made-train", seed=1)
    write_traces(folder / "made-validation", seed=5)
    options = ["rtcp", "--study", str(folder / "study.yaml"), "--traces", str(folder), "--base", "cubic"]
    result = CliRunner().invoke(train, [*options, "--out", str(folder / "rtcp.json"), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert figures["digest"] == Ensemble.load(folder / "rtcp.json").digest
    assert figures["states_trained"] == 4
    assert not (folder / "rtcp.json.parts").exists()
    return folder


def test_the_base_algorithm_may_be_another_than_the_studys(folder: Path) -> None:
    ensemble = Ensemble.load(folder / "rtcp.json")
    assert ensemble.cca == ensemble.provenance["study"]["cca"] == "rtcp_cubic"
    assert {trace["dataset"] for trace in ensemble.provenance["traces"]} == {"made-train"}


def test_the_report_of_states_prints_and_exits_by_its_line(folder: Path) -> None:
    options = ["states", str(folder / "rtcp.json"), "--traces", str(folder), "--runs", "10"]
    result = CliRunner().invoke(report, [*options, "--json"], catch_exceptions=False)
    figures = json.loads(result.stdout)
    assert len(figures["rows"]) == 4 + 1 + 2
    assert figures["rows_short"] == sum(not row["holds"] for row in figures["rows"])
    assert result.exit_code == (0 if figures["holds"] else 1)
    # `evaluate` does the same with an ensemble that has no delay targets.
    options = [str(folder / "rtcp.json"), "--traces", str(folder)]
    lines = CliRunner().invoke(evaluate, options, catch_exceptions=False).stdout.splitlines()
    assert sum(re.match(r"[0-9.]+-[0-9.]+ +[0-9.]+-", line) is not None for line in lines) == 2 * 4
    assert lines[-1].startswith("no more retransmissions than the paper's one setting")
