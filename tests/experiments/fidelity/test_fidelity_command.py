# SPDX-License-Identifier: MIT
"""`python -m experiments fidelity` as a person runs it."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import yaml

import ccatune
from emulation.mahimahi.machine import Machine, Watch
from experiments.__main__ import cli
from experiments.fidelity import runs
from experiments.fidelity.plan import DEFAULT_PLAN, Pieces, cases_of, load_plan
from experiments.fidelity.runs import Task, read_record

from .conftest import StandInKernel

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[3]


def run(words: list[str]) -> int:
    return ccatune.run(["fidelity", *words], group=cli, name="python -m experiments")


def told(capsys: Capture, plan_file: Path, *words: str, status: int = 0) -> str:
    work = plan_file.parent / "work"
    assert run(["--plan", str(plan_file), "--work", str(work), *words]) == status
    out, err = capsys.readouterr()
    assert err == "" or status == 2
    return out or err


def test_it_prints_each_error_and_each_target(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    del kernel
    out = told(capsys, plan_file, "--enforce")
    # A case is marked with ~ where the machine was busy.
    lines = [line.rstrip("~") for line in out.splitlines()]
    at = [lines.index(case) for case in ("slow/cubic", "slow/reno", "fast/cubic")]
    for first in at:
        assert [line[:18].strip() for line in lines[first + 1 : first + 4]] == [
            "Mbit/s", "p95 delay, ms", "retransmitted, %",
        ]  # fmt: skip
    assert all(len(line) <= 80 for line in lines[: at[-1] + 4])
    assert "slow/gr: cannot run: vm: no guest in this test" in out
    assert "holds  throughput within 5% in at least 90%: 3 of 3 cases (100.0%)" in out
    assert "holds  p95 queueing delay never off by more than 30% or 15 ms: 0 of 3 cases exceed it" in out
    assert "slow/reno: throughput is explained, but within" in out
    assert out.splitlines()[-1] == "fidelity: 3 cases compared, 1 without runs: all hold"


def test_a_kernel_that_is_slower_falls_short_and_is_unexplained(
    kernel: StandInKernel, plan_file: Path, capsys: Capture
) -> None:
    kernel.slower = 0.8
    out = told(capsys, plan_file, "--enforce", "--runner", "mahimahi", status=1)
    assert "FAILS  throughput within 5% in at least 90%: 0 of 3 cases (0.0%)" in out
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
    assert [(gains["algorithms"], gains["scenarios"]) for gains in found["gains"]] == [(["cubic", "reno"], 1)]


def test_kept_runs_nothing_and_json_says_why_it_is_empty(
    kernel: StandInKernel, plan_file: Path, capsys: Capture
) -> None:
    out = told(capsys, plan_file, "--kept", status=2)
    assert out.splitlines()[-1] == "fidelity: 0 cases compared, 4 without runs: no verdict"
    assert not kernel.ran
    assert not (plan_file.parent / "work").exists()
    words = ["--plan", str(plan_file), "--work", str(plan_file.parent / "work"), "--kept", "--json"]
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["cases"] == []
    assert err.startswith(
        "ccatune: expected runs to judge, got none; `python -m experiments fidelity --list` shows which are kept"
    )
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_refused_before_a_run(
    kernel: StandInKernel, plan_file: Path, capsys: Capture
) -> None:
    work = plan_file / "work"
    assert run(["--plan", str(plan_file), "--work", str(work)]) == 2
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


def test_a_picture_is_drawn(kernel: StandInKernel, plan_file: Path, capsys: Capture) -> None:
    del kernel
    errors = plan_file.with_name("errors.svg")
    out = told(capsys, plan_file, "--only", "fast/cubic", "--plot", str(errors))
    assert "fast" in errors.read_text(encoding="utf-8")
    assert out.endswith(f"picture: {errors}\n")


@pytest.fixture
def record(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, list[str]]:
    """The two runs of each of three cases in a file, and the words that judge it with an empty folder of results."""
    quiet = Machine(late_share=0.001)
    monkeypatch.setattr(Watch, "during_the_last", lambda _self, _duration_s: quiet)
    path = plan_file.with_name("runs.jsonl")
    told(capsys, plan_file, "--record", str(path))
    kernel.ran.clear()
    return path, ["--recorded", str(path), "--work", str(plan_file.with_name("elsewhere"))]


def test_recorded_runs_are_judged_without_a_run_or_a_runner(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, record: tuple[Path, list[str]]
) -> None:
    path, words = record
    assert [json.loads(line)["case"] for line in path.read_text(encoding="utf-8").splitlines()] == [
        name for name in ("slow/cubic", "slow/reno", "fast/cubic") for _ in range(2)
    ]
    first = told(capsys, plan_file, "--runner", "mahimahi")
    assert told(capsys, plan_file, *words, "--runner", "mahimahi") == first
    out = told(capsys, plan_file, *words)
    assert "missing: 2 of 8 real runs, of 1 case: slow/gr (2); --run-missing runs them" in out
    assert "not the present code" not in out
    assert not kernel.ran


def test_a_record_is_judged_on_another_kernel_and_no_run_is_started(
    kernel: StandInKernel,
    plan_file: Path,
    capsys: Capture,
    record: tuple[Path, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, words = record
    made_on = platform.release()
    monkeypatch.setattr("platform.release", lambda: "9.9.9-foreign")
    runs.versions.cache_clear()
    try:
        out = told(capsys, plan_file, *words, "--enforce", "--runner", "mahimahi")
        assert "medians of 2 and 3 runs" in out
        assert f"6 real runs were recorded with kernel {made_on} (here 9.9.9-foreign): not the present code" in out
        assert out.splitlines()[-1] == "fidelity: 3 cases compared: all hold"
        found = json.loads(told(capsys, plan_file, *words, "--json"))
        assert found["of_other_versions"] == {f"kernel {made_on} (here 9.9.9-foreign)": 6}
        assert found["missing"] == {"slow/gr": 2}
        # Nothing is run for its key alone.
        told(capsys, plan_file, *words, "--run-missing", "--runner", "mahimahi")
    finally:
        runs.versions.cache_clear()
    assert not kernel.ran


def test_missing_runs_are_named_and_run_on_request_alone(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, record: tuple[Path, list[str]]
) -> None:
    path, words = record
    words += ["--runner", "mahimahi"]
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line}\n" for line in lines[1:4]), encoding="utf-8")
    out = told(capsys, plan_file, *words)
    assert "missing: 3 of 6 real runs, of 2 cases: slow/cubic (1), fast/cubic (2); --run-missing runs them" in out
    assert "FAILS  cases have the required number of real runs: 1 of 3 cases" in out
    assert not kernel.ran
    assert "missing" not in told(capsys, plan_file, *words, "--run-missing")
    assert sorted(kernel.ran) == ["fast/cubic", "fast/cubic", "slow/cubic"]


def test_a_recorded_run_of_another_scenario_is_none_of_the_case_of_its_name(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, record: tuple[Path, list[str]]
) -> None:
    _, words = record
    slower = plan_file.read_text(encoding="utf-8").replace("rate_mbps: 12", "rate_mbps: 11")
    plan_file.write_text(slower, encoding="utf-8")
    out = told(capsys, plan_file, *words, "--runner", "mahimahi")
    assert "missing: 2 of 6 real runs, of 1 case: fast/cubic (2)" in out
    assert not kernel.ran


def test_a_record_names_what_made_its_runs(record: tuple[Path, list[str]]) -> None:
    line = json.loads(record[0].read_text(encoding="utf-8").splitlines()[1])
    assert line["number"] == 1
    assert line["made_with"]["kernel"] == platform.release()
    assert set(line["made_with"]) == {"runner", "kernel", "mahimahi", "runner's sources"}


@pytest.mark.parametrize(("name", "count"), [("fidelity", 668), ("fidelity-rtcp", 150)])
def test_the_records_here_are_of_the_plans_scenarios(name: str, count: int) -> None:
    plan_path = DEFAULT_PLAN.with_name(f"{name}.yaml")
    found = read_record(ROOT / "experiments" / "recorded" / f"{name}.jsonl")
    assert len({(run.case, run.number) for run in found}) == len(found) == count
    # Without the recordings the scenarios of recorded links are not known here.
    cases = cases_of(load_plan(plan_path), source=plan_path, pieces=Pieces(None))
    digests = {case.key: Task(case, 0).digest for case in cases if case.scenario is not None}
    assert {run.case for run in found} <= {case.key for case in cases}
    assert all(digests.get(run.case, run.scenario) == run.scenario for run in found)


def test_disturbed_runs_are_not_recorded(
    kernel: StandInKernel, plan_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    del kernel
    disturbed = Machine(late_share=0.02)
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
        (["--plot", "x.jpg"], "expected a picture ending in"),
        (["--plan", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--recorded", "nowhere.jsonl"], "nowhere.jsonl: expected recorded runs, "),
        (["--recorded", "runs.jsonl", "--short"], "--recorded: expected the plan's own durations"),
        (["--recorded", "runs.jsonl", "--redo-disturbed"], "--redo-disturbed: expected --run-missing"),
        (["--run-missing"], "--run-missing: expected --recorded"),
        (["--record", "nowhere/runs.jsonl"], "nowhere/runs.jsonl: cannot be written"),
        (["--record", "runs.jsonl", "--only", "fast/cubic"], "--record: expected all cases"),
    ],
)
def test_what_cannot_be_asked_is_refused(plan_file: Path, capsys: Capture, words: list[str], message: str) -> None:
    assert message in told(capsys, plan_file, *words, status=2)
