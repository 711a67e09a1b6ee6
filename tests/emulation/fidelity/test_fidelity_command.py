# SPDX-License-Identifier: MIT
"""`ccatune fidelity` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import ccatune
from emulation.fidelity.machine import Machine, Watch

from .conftest import StandInKernel

Capture = pytest.CaptureFixture[str]
TRIES = 4


def told(capsys: Capture, plan_file: Path, *words: str, status: int = 0) -> str:
    work = plan_file.parent / "work"
    assert ccatune.run(["fidelity", "--plan", str(plan_file), "--work", str(work), *words]) == status
    out, err = capsys.readouterr()
    assert err == "" or status == 2
    return out or err


def test_help_has_an_example(capsys: Capture) -> None:
    assert ccatune.run(["fidelity", "--help"]) == 0
    assert "  ccatune fidelity --short\n" in capsys.readouterr().out


def test_it_prints_each_error_and_each_target(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    del kernel
    out = told(capsys, plan_file, "--enforce")
    # A case is marked with ~ where the machine was busy.
    assert [line.split()[0].rstrip("~") for line in out.splitlines() if line.startswith((" slow", " fast"))] == [
        "slow/cubic",
        "slow/reno",
        "fast/cubic",
    ]
    assert "slow/gr: cannot run: vm: no guest in this test" in out
    assert "holds  throughput within 5% in at least 90%: 3 of 3 (100.0%)" in out
    assert "holds  p95 queueing delay never off by more than 30% or 15 ms: 0 of 3 are" in out
    assert "slow/reno: throughput is explained, but within" in out
    assert out.splitlines()[-1] == "fidelity: 3 cases compared, 1 without runs: all hold"


def test_a_kernel_that_is_slower_falls_short_and_is_unexplained(
    kernel: StandInKernel, plan_file: Path, capsys: Capture
) -> None:
    kernel.slower = 0.8
    out = told(capsys, plan_file, "--enforce", "--runner", "mahimahi", status=1)
    assert "SHORT  throughput within 5% in at least 90%: 0 of 3 (0.0%)" in out
    assert "fast/cubic: throughput +2" in out
    assert out.count(", unexplained)") == 8  # all figures of three cases, and one is explained
    assert "    emulation at fault: what a test says of it" in out
    told(capsys, plan_file, "--kept", "--runner", "mahimahi")


def test_an_explanation_of_several_cases_is_told_once(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    kernel.slower = 0.8
    plan = yaml.safe_load(plan_file.read_text(encoding="utf-8"))
    plan["explanations"]["slow/cubic"] = plan["explanations"]["slow/reno"]
    plan_file.write_text(yaml.safe_dump(plan), encoding="utf-8")
    out = told(capsys, plan_file, "--runner", "mahimahi")
    assert out.count("    emulation at fault: what a test says of it\n") == 1
    assert out.count("    emulation at fault, as slow/cubic\n") == 1


def test_json_says_the_same(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    kernel.slower = 0.9
    found = json.loads(told(capsys, plan_file, "--json"))
    assert not found["holds"]
    assert found["not_run"] == {"slow/gr": "vm: no guest in this test"}
    cubic = next(case for case in found["cases"] if case["case"] == "fast/cubic")
    assert cubic["metrics"]["throughput"]["error_share"] == pytest.approx(1 / 0.9 - 1, abs=0.01)
    assert (cubic["runs"], cubic["seeds"], cubic["unexplained"]) == (2, 3, ["throughput"])


def test_kept_runs_nothing(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    out = told(capsys, plan_file, "--kept", status=2)
    assert out.splitlines()[-1] == "fidelity: 0 cases compared, 4 without runs: nothing to judge"
    assert not kernel.ran
    assert not (plan_file.parent / "work").exists()


def test_without_runs_json_says_why_it_is_empty(plan_file: Path, capsys: Capture) -> None:
    words = ["fidelity", "--plan", str(plan_file), "--work", str(plan_file.parent / "work"), "--kept", "--json"]
    assert ccatune.run(words) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["cases"] == []
    assert err.startswith("ccatune: expected runs to judge, got none; `ccatune fidelity --list` shows which are kept")
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_refused_before_a_run(
    kernel: StandInKernel, plan_file: Path, capsys: Capture
) -> None:
    work = plan_file / "work"
    assert ccatune.run(["fidelity", "--plan", str(plan_file), "--work", str(work)]) == 2
    assert f"--work: expected a folder, got {work}, which cannot be made" in capsys.readouterr().err
    assert not kernel.ran


def test_list_says_what_is_kept(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    told(capsys, plan_file, "--only", "fast/cubic", "--runs", "1")
    ran = len(kernel.ran)
    out = told(capsys, plan_file, "--list")
    assert "fast/cubic  mahimahi  2 s, 1 of 2 real, 3 of 3 simulated" in out
    assert "slow/gr     vm        cannot run: vm: no guest in this test" in out
    assert out.splitlines()[-1] == "4 cases of 2 scenarios"
    rows = json.loads(told(capsys, plan_file, "--list", "--json"))
    assert [row["real"] for row in rows] == [0, 0, 0, 1]
    assert len(kernel.ran) == ran


def test_pictures_are_drawn(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    del kernel
    errors, overlay = plan_file.with_name("errors.png"), plan_file.with_name("overlay.svg")
    out = told(capsys, plan_file, "--only", "fast/cubic", "--plot", str(errors), "--overlay", str(overlay))
    assert errors.read_bytes().startswith(b"\x89PNG")
    assert "fast/cubic" in overlay.read_text(encoding="utf-8")
    assert out.endswith(f"picture: {errors}\npicture: {overlay}\n")


def test_recorded_runs_count_where_they_are_not_kept(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Machine(idle_share=0.5, load=1.0, late_share=0.001)
    monkeypatch.setattr(Watch, "during_the_last", lambda _self, _duration_s: quiet)
    record, overlay = plan_file.with_name("runs.jsonl"), plan_file.with_name("overlay.svg")
    first = told(capsys, plan_file, "--record", str(record))
    ran = len(kernel.ran)
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert [line["case"] for line in lines] == [
        name for name in ("slow/cubic", "slow/reno", "fast/cubic") for _ in range(2)
    ]
    words = ["--recorded", str(record), "--work", str(plan_file.with_name("elsewhere"))]
    assert told(capsys, plan_file, *words) == first
    assert len(kernel.ran) == ran
    said = told(capsys, plan_file, *words, "--only", "fast/cubic", "--overlay", str(overlay), status=2)
    assert "expected runs with their series, got recorded ones" in said
    # What they depend on has changed: they are run.
    lines[0]["key"] = "0" * 64
    record.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    told(capsys, plan_file, *words)
    assert len(kernel.ran) == ran + 1


def test_disturbed_runs_are_not_recorded(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    del kernel
    disturbed = Machine(idle_share=0.5, load=1.0, late_share=0.02)
    monkeypatch.setattr(Watch, "during_the_last", lambda _self, _duration_s: disturbed)
    record = plan_file.with_name("runs.jsonl")
    told(capsys, plan_file, "--record", str(record))
    assert record.read_text(encoding="utf-8") == ""


def test_a_record_that_is_none_names_its_line(plan_file: Path, capsys: Capture) -> None:
    record = plan_file.with_name("runs.jsonl")
    record.write_text("{}\n", encoding="utf-8")
    assert "runs.jsonl: line 1: expected a recorded run" in told(capsys, plan_file, "--recorded", str(record), status=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "expected cases of the plan, got none by that name"),
        (["--overlay", "x.png"], "--overlay: expected one case, got 4"),
        (["--plot", "x.jpg"], "expected a picture ending in"),
        (["--plan", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--recorded", "nowhere.jsonl"], "nowhere.jsonl: expected recorded runs, "),
        (["--record", "nowhere/runs.jsonl"], "nowhere/runs.jsonl: cannot be written"),
        (["--record", "runs.jsonl", "--only", "fast/cubic"], "--record: expected all cases"),
    ],
)
def test_what_cannot_be_asked_is_refused(plan_file: Path, capsys: Capture, words: list[str], message: str) -> None:
    assert message in told(capsys, plan_file, *words, status=2)


@pytest.mark.mahimahi
def test_the_simulator_agrees_with_this_machines_kernel(tmp_path: Path, capsys: Capture) -> None:
    """The short version of the campaign, with all the targets that the whole one is held to.

    Where the machine woke up late, which the campaign tells by timers of its own, those runs are run anew.
    """
    for _ in range(TRIES):
        words = ["fidelity", "--short", "--enforce", "--redo-disturbed", "--work", str(tmp_path)]
        status = ccatune.run(words)
        out = capsys.readouterr().out
        if status == 0 or "~" not in out:
            break
    if status == 1 and "~" in out:
        pytest.xfail(f"this machine woke up late, {TRIES} times over:\n{out}")
    assert status == 0, out
    assert "fidelity: 8 cases compared: all hold" in out
