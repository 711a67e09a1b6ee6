# SPDX-License-Identifier: MIT
from __future__ import annotations

import importlib
import json
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from links import STUDY, write_traces

from emulation.errors import TraceError
from kmod.ensemble import Ensemble
from kmod.errors import CcatuneError
from training.cli import train
from training.errors import TrainingError
from training.reports.cli import report
from training.validation.command import evaluate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY), encoding="utf-8")
    write_traces(folder / "made-train", seed=1)
    write_traces(folder / "made-validation", seed=5)
    return folder


def arguments(folder: Path, *more: str) -> list[str]:
    words = ["gr", "--study", str(folder / "study.yaml"), "--traces", str(folder), "--out", str(folder / "gr.json")]
    return [*words, *more]


@pytest.fixture(scope="module")
def trained(folder: Path) -> dict[str, object]:
    result = CliRunner().invoke(train, arguments(folder, "--json"), catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_training_writes_an_ensemble_and_tells_its_digest_and_figures(folder: Path, trained: dict) -> None:
    assert Ensemble.load(folder / "gr.json").digest == trained["digest"]
    assert 0 < trained["states_trained"] <= trained["states"] == 8
    assert trained["requirements_judged_unseen"] > 0
    assert not (folder / "gr.json.parts").exists()


def test_training_says_last_and_in_80_columns_what_it_lacks(folder: Path, trained: dict, tmp_path: Path) -> None:
    states = Ensemble.load(folder / "gr.json").provenance["states"]
    n_copied = sum(state["copied_from"] is not None for state in states) // 2
    assert n_copied
    n_missed = sum(not state["training"]["meets"] and state["copied_from"] is None for state in states)
    result = CliRunner().invoke(train, arguments(folder, "--out", str(tmp_path / "gr.json")), catch_exceptions=False)
    figures, *warnings = result.stdout.split("\n\n")
    assert [" ".join(warning.split()) for warning in warnings] == trained["warnings"]
    assert f"The other {n_copied} had too few epochs" in trained["warnings"][0]
    assert (f"{n_missed} of {2 * trained['states_trained']} trained rows miss" in trained["warnings"][-1]) == bool(
        n_missed
    )
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if str(tmp_path) not in line)
    assert not {"{", "["} & set(figures)


def test_only_the_training_part_trains(folder: Path, trained: dict) -> None:
    provenance = Ensemble.load(folder / "gr.json").provenance
    assert trained["epochs"] > 0
    assert {trace["dataset"] for trace in provenance["traces"]} == {"made-train"}
    assert len(provenance["unseen_traces"]) == 2


def test_evaluation_prints_the_pooled_targets_as_json(folder: Path, trained: dict) -> None:
    options = [str(folder / "gr.json"), "--traces", str(folder), "--json"]
    result = CliRunner().invoke(evaluate, options, catch_exceptions=False)
    figures = json.loads(result.stdout)
    assert figures["ensemble_digest"] == trained["digest"]
    for row in figures["targets"]:
        assert {"target_ms", "p95_queueing_delay_ms", "utilization", "throughput_mbps"} <= set(row)


def test_evaluation_exits_1_where_what_is_required_does_not_hold(folder: Path, trained: dict) -> None:
    del trained
    options = [str(folder / "gr.json"), "--traces", str(folder), "--require", "1,1"]
    assert CliRunner().invoke(evaluate, options, catch_exceptions=False).exit_code == 1


def test_evaluation_exits_0_only_where_learning_beats_the_single_set(folder: Path, trained: dict) -> None:
    del trained
    options = [str(folder / "gr.json"), "--traces", str(folder), "--require-gain", "--json"]
    result = CliRunner().invoke(evaluate, options, catch_exceptions=False)
    figures = json.loads(result.stdout)
    gains = [
        (met["ensemble"] > met["single"], row["utilization"] >= single["utilization"])
        for row, single, met in zip(figures["targets"], figures["single"], figures["levels_met"], strict=True)
    ]
    assert len(figures["short_of"]) == sum(not holds for gain in gains for holds in gain)
    assert result.exit_code == (1 if figures["short_of"] else 0)


def test_finished_parts_of_the_same_study_are_not_used_or_lost_unasked(
    folder: Path, trained: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.study.study.build_ensemble", lambda *_args: (_ for _ in ()).throw(KeyboardInterrupt))
    interrupted = CliRunner().invoke(train, arguments(folder, "--json"))
    assert interrupted.exit_code != 0
    monkeypatch.undo()
    with pytest.raises(TrainingError, match="expected --resume to go on, or --fresh to discard"):
        CliRunner().invoke(train, arguments(folder, "--json"), catch_exceptions=False)
    result = CliRunner().invoke(train, arguments(folder, "--json", "--resume"), catch_exceptions=False)
    figures = json.loads(result.stdout)
    assert figures["digest"] == trained["digest"]
    assert figures["resumed_parts"] == trained["states_trained"] + 1


@pytest.mark.parametrize(("minutes", "code"), [("1.6", 1), ("1.7", 0)])
def test_training_that_takes_longer_than_was_asked_exits_1(
    monkeypatch: pytest.MonkeyPatch, minutes: str, code: int
) -> None:
    monkeypatch.setattr("training.commands.run_train", lambda *_args, **_named: {"total_s": 100.0, "warnings": []})
    result = CliRunner().invoke(train, ["gr", "--within", minutes], catch_exceptions=False)
    assert result.exit_code == code
    assert ("--within: expected at most 1.6 minutes, took 1.7" in result.stderr) == bool(code)


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (train, ["gr", "--within", "nan"], "'--within': expected a finite number"),
        (train, ["gr", "--within", "inf"], "'--within': expected a finite number"),
        (train, ["gr", "--seed", "-1"], "'--seed': -1 is not in the range"),
        (train, ["gr", "--seed", "18446744073709551616"], "'--seed': 18446744073709551616 is not in the range"),
        (train, ["gr", "--out", "/"], "'--out': File '/' is a directory"),
        (evaluate, ["gr.json", "--require", "nan"], "'--require': expected a finite number"),
        (evaluate, ["gr.json", "--require", "98"], "'--require': 98.0 is not in the range 0<=x<=1"),
        (evaluate, ["gr.json", "--require", "0.9,x"], "'--require': 'x' is not a valid float"),
        (report, ["bound", "gr.json", "--least", "1"], "'--least': 1 is not in the range x>=2"),
        (train, ["gr", "--base", "bbr"], "--base: expected an algorithm that is built on others, got gr"),
    ],
)
def test_options_that_ask_for_nothing_are_refused(command: click.Command, words: list[str], message: str) -> None:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--require", "0.9,0.9,0.9"], "expected 2 shares, got 3"),
        (["--plot", "x.txt"], "x.txt: expected a picture ending in .png"),
        (["--against", "cubic", "--plot", "x.txt"], "x.txt: expected a picture ending in .png"),
        (["--plot", "nowhere/x.png"], "expected a folder nowhere to write to"),
        (["--rtt-ms", "nan"], "rtt_ms: expected"),
    ],
)
def test_what_can_be_refused_is_refused_before_any_run(
    folder: Path, trained: dict, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    del trained
    monkeypatch.setattr(
        importlib.import_module("training.validation.recordings"), "validate", lambda *_, **__: pytest.fail("flows ran")
    )
    options = [str(folder / "gr.json"), "--traces", str(folder), *words]
    with pytest.raises((CcatuneError, click.UsageError), match=message):
        evaluate.main(options, standalone_mode=False)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("precious.json", "precious.json: .*expected no file or an ensemble"),
        ("precious.json/o.json", "expected a folder to write to"),
        ("/proc/o.json", "/proc/o.json: cannot be written"),
        ("held.json", r"held.json.parts: expected a folder for finished parts"),
        ("o" * 250 + ".json", "cannot be written .File name too long"),
    ],
)
def test_a_file_that_cannot_or_should_not_be_replaced_is_refused_before_traces_are_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, message: str
) -> None:
    monkeypatch.setattr("training.commands.read_split", lambda *_args, **_named: pytest.fail("traces were read"))
    (tmp_path / "precious.json").write_text('{"precious": 1}')
    (tmp_path / "held.json.parts").write_text("")
    with pytest.raises(CcatuneError, match=message):
        CliRunner().invoke(train, arguments(folder, "--out", str(tmp_path / out)), catch_exceptions=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.json.parts", "precious.json"]


def test_bad_validation_traces_are_refused_as_those_that_train_are(folder: Path, tmp_path: Path) -> None:
    write_traces(tmp_path / "a-train", files=1)
    write_traces(tmp_path / "a-validation", files=1)
    (tmp_path / "a-validation" / "bad.down").write_text("5\n4\n")
    words = ["gr", "--study", str(folder / "study.yaml"), "--traces", str(tmp_path), "--out", str(tmp_path / "gr.json")]
    with pytest.raises(TraceError, match=r"a-validation/bad\.down, line 2"):
        CliRunner().invoke(train, words, catch_exceptions=False)
    result = CliRunner().invoke(train, [*words, "--skip-bad", "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["requirements_judged_unseen"] > 0
    assert "validation: left out: a-validation/bad.down, line 2" in result.stderr
    assert "validation: 1 bad file left out" in result.stderr


def test_training_goes_without_validation_traces(folder: Path, tmp_path: Path) -> None:
    words = ["gr", "--study", str(folder / "study.yaml"), "--traces", str(folder / "made-train"), "--json"]
    result = CliRunner().invoke(train, [*words, "--out", str(tmp_path / "gr.json")], catch_exceptions=False)
    assert json.loads(result.stdout)["requirements_judged_unseen"] == 0


def test_a_picture_that_cannot_be_written_loses_no_figures(
    folder: Path, trained: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    del trained
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_args: (_ for _ in ()).throw(OSError(28, "full")))
    options = [str(folder / "gr.json"), "--traces", str(folder), "--plot", str(folder / "x.png"), "--json"]
    result = CliRunner().invoke(evaluate, options)
    assert json.loads(result.stdout)["targets"]
    assert "cannot be written (full)" in str(result.exception)


def test_a_study_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be read"):
        CliRunner().invoke(train, ["gr", "--study", str(folder / "none.yaml")], catch_exceptions=False)


def test_a_report_exits_1_and_says_so_where_its_line_does_not_hold(folder: Path, trained: dict) -> None:
    del trained
    options = ["robustness", str(folder / "gr.json"), "--traces", str(folder), "--flows", "1", "--schemes", "reno"]
    text = CliRunner().invoke(report, options, catch_exceptions=False).stdout
    assert "* delay above 1.25 x target" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    result = CliRunner().invoke(report, [*options, "--perfect", "--json"], catch_exceptions=False)
    figures = json.loads(result.stdout)
    assert figures["holds"] == all(row["holds"] for row in figures["rows"])
    assert result.exit_code == (0 if figures["holds"] else 1)


def test_a_dataset_that_is_not_there_is_refused(folder: Path, trained: dict) -> None:
    del trained
    options = ["robustness", str(folder / "gr.json"), "--traces", str(folder), "--dataset", "nowhere", "--json"]
    with pytest.raises(TrainingError, match="expected datasets among made-validation, got nowhere"):
        CliRunner().invoke(report, options, catch_exceptions=False)
