# SPDX-License-Identifier: MIT
"""The example of docs/python.md, run from top to bottom, with its package registered as pip would register it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow.parquet
import pytest

from emulation import Trial, measure, simulate
from emulation.scenario.files import load_scenario
from kmod.ensemble import Ensemble
from training import TrainingError, load_study, write_trials

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A Python process in the folder that imports the packages there."""
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, and example.py with its other Python, which has run."""
    folder = tmp_path_factory.mktemp("page")
    script = ""
    for language, file, text in FENCE.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8")):
        if file:
            (folder / file).write_text(text, encoding="utf-8")
        elif language == "python":
            script += text
        else:
            project = tomllib.loads(text)["project"]
    installed = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    groups = [
        "\n".join([f"[{group}]", *(f"{kind} = {value}" for kind, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    (folder / "example.py").write_text(script, encoding="utf-8")
    done = run(folder, "example.py")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) < 500, "what it prints of results is short"
    return folder


def test_the_page_trains_with_the_objective_and_search_of_another_package(folder: Path) -> None:
    ensemble = Ensemble.load(f"{folder}/gr.json")
    assert ensemble.provenance["registered"] == {"power": "power-objective 1.0", "random": "power-objective 1.0"}
    assert ensemble.provenance["study"]["objective"] == {"kind": "power", "rtt_ms": 60.0}
    rows = list(csv.DictReader((folder / "trials.csv").read_text(encoding="utf-8").splitlines()))
    single = [row for row in rows if row["stage"] == "single"]
    assert len(single) == 12
    best = min(single, key=lambda row: float(row["cost"]))
    assert {name: int(best[name]) for name in ensemble.columns} == ensemble.provenance["single"][0]["values"]


def test_train_keeps_the_trials_of_the_page_as_parquet_too(folder: Path, tmp_path: Path) -> None:
    words = ["-m", "ccatune", "train", "gr", "--study", "power.yaml", "--traces", "recordings", "--json",
             "--out", str(tmp_path / "gr.json"), "--keep-trials"]  # fmt: skip
    done = run(folder, *words, str(tmp_path / "trials.parquet"), "--executor", "processes")
    assert json.loads(done.stdout)["digest"] == Ensemble.load(folder / "gr.json").digest
    write_trials(pyarrow.parquet.read_table(tmp_path / "trials.parquet").to_pylist(), tmp_path / "trials.csv")
    assert (tmp_path / "trials.csv").read_text(encoding="utf-8") == (folder / "trials.csv").read_text(encoding="utf-8")
    refused = run(folder, *words, str(tmp_path / "trials.xlsx"))
    assert refused.returncode == 2
    assert "expected a file ending in .csv or .parquet" in refused.stderr


def test_a_kind_whose_package_is_broken_is_refused_by_its_place(folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("*.dist-info"):
        (tmp_path / path.name).mkdir()
        for file in path.iterdir():
            (tmp_path / path.name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "power.yaml").write_bytes((folder / "power.yaml").read_bytes())
    done = run(tmp_path, "-m", "ccatune", "train", "gr", "--study", "power.yaml")
    assert done.returncode == 2
    assert "power.yaml: objective: kind power: expected the settings class power_objective:PowerSettings" in done.stderr
    with pytest.raises(TrainingError, match=r"objective\.kind: expected one of 'delay', .*got 'power'"):
        load_study(str(tmp_path / "power.yaml"))


def test_results_are_short_when_they_are_shown() -> None:
    scenario = load_scenario(str(ROOT / "configs" / "scenarios" / "constant-20mbps.yaml"))
    scenario = scenario.model_copy(update={"duration_s": 12.0})
    result = simulate(scenario)
    for shown in (result, result.flows[0], result.windows, result.elements[0], measure([scenario], [Trial("gr")])):
        assert len(repr(shown)) < 600
