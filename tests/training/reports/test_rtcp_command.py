# SPDX-License-Identifier: MIT
"""`python -m experiments rtcp` on a small scale: its forms, and that it goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from links import recording

from experiments import rtcp
from experiments.rtcp import KINDS, load_settings
from experiments.rtcp.command import CONFIG, journal_keys
from training.reports.cli import report

SIZES = "sizes_bytes: [500000, 1000000, 2000000, 4000000, 8000000, 16000000, 32000000]"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    text = CONFIG.read_text(encoding="utf-8").replace(SIZES, "sizes_bytes: [500000, 1000000]")
    (tmp_path / "rtcp.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "rtcp.yaml"


def run(small: Path, *options: str) -> Result:
    given = ["rtcp", "--config", str(small), "--work", str(small.parent / "parts"), "--only", "files", "--seeds", "5"]
    return CliRunner().invoke(report, [*given, *options], catch_exceptions=False)


def test_a_report_is_printed_drawn_enforced_and_not_run_twice(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(small, "--plot", str(small.parent / "files.png"))
    assert first.exit_code == 0
    assert (small.parent / "files.png").stat().st_size > 10_000
    monkeypatch.setattr(rtcp, "run_part", None)  # nothing is left to run
    figures = json.loads(run(small, "--json").stdout)
    assert len(figures["parts"]) == 3 * 6 * 2
    assert {row["statement"][:3] for row in figures["rows"]} == {"4.1", "tal", "6.1"}
    assert f"agree: {len(figures['rows']) - figures['rows_differing']} of {len(figures['rows'])}" in first.stdout
    # 1 MB is too little to save 57 %, so that one statement at least differs.
    assert figures["rows_differing"]
    assert run(small, "--enforce").exit_code == 1
    assert run(small, "--markdown").stdout.startswith("| operator | algorithm | 0.5 MB | 1 |\n")


def test_what_is_kept_rests_on_settings_and_on_names_and_contents_of_traces_not_on_paths() -> None:
    settings = load_settings(CONFIG)
    moved = settings.model_copy(update={
        "unlimited": {name: place.model_copy(update={"model": Path("/elsewhere") / place.model.name})
                      for name, place in settings.unlimited.items()}
    })  # fmt: skip
    others, on_traces = journal_keys(settings, {"op4": [recording("a", seed=1)]})
    assert journal_keys(moved, {"op4": [recording("a", seed=1)]}) == (others, on_traces)
    for its in ([recording("b", seed=1)], [recording("a", seed=2)], [recording("a", seed=1), recording("b", seed=2)]):
        keys = journal_keys(settings, {"op4": its})
        assert keys[0] == others
        assert keys[1] != on_traces
    changed = journal_keys(settings.model_copy(update={"seeds": 41}), {"op4": [recording("a", seed=1)]})
    assert changed[0] != others
    assert changed[1] != on_traces


def test_a_picture_is_of_files(small: Path) -> None:
    options = ["rtcp", "--config", str(small), "--only", "map", "--plot", "map.png"]
    result = CliRunner().invoke(report, options)
    assert result.exit_code == 2
    assert "expected --only files beside --plot" in result.output


def test_each_kind_of_the_campaign_can_be_chosen() -> None:
    chosen = next(option for option in report.commands["rtcp"].params if option.name == "kinds")
    assert tuple(getattr(chosen.type, "choices", ())) == KINDS
