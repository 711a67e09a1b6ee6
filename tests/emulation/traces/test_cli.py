# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from emulation.errors import EmulationError
from emulation.traces.cli import traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of a link whose rate steps, and one bad file in a folder of its own."""
    root = tmp_path_factory.mktemp("traces")
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.repeat(rng.uniform(0.2, 1.0, 24), 5000))
    times_ms = np.repeat(np.arange(1, len(counts) + 1), counts)
    (root / "good").mkdir()
    (root / "good" / "link.down").write_text("\n".join(map(str, times_ms)) + "\n", encoding="ascii")
    (root / "bad").mkdir()
    (root / "bad" / "torn.down").write_text("1\n7\n3\n", encoding="ascii")
    return root


def run(*arguments: str | Path) -> str:
    """What the command printed; it is expected to succeed."""
    result = CliRunner().invoke(traces, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_good_recordings_are_counted(folder: Path) -> None:
    found = json.loads(run("check", folder / "good", "--json"))
    assert "link" in json.dumps(found)


def test_every_bad_file_is_named_with_its_line_and_every_other_file_is_read(folder: Path, tmp_path: Path) -> None:
    files = {"a.down": "1\nx\n", "b.trace": "", "c1.down": "5\n", "c01.down": "7\n", "d.down": "9\n", "e.csv": ""}
    for name, data in {**files, "f.tar.xz": "no archive"}.items():
        (tmp_path / name).write_text(data)
    result = CliRunner().invoke(traces, ["check", str(folder / "bad"), str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 1
    bad = [line for line in result.stdout.splitlines() if line.startswith("bad file: ")]
    expected = ["torn.down, line 3", "a.down, line 2", "b.trace", "f.tar.xz", "numbered 1"]
    assert [name for line, name in zip(bad, expected, strict=True) if name not in line] == []
    assert f"not read: {tmp_path}/e.csv" in result.stdout
    assert "2 recordings of 2 files, 0.00 h; 5 bad files, 1 file not read" in result.stdout
    found = json.loads(CliRunner().invoke(traces, ["check", str(tmp_path), "--json"]).stdout)
    assert (len(found["bad_files"]), found["unread_files"]) == (4, [f"{tmp_path}/e.csv"])


def test_the_variation_is_shown_at_several_time_scales_and_drawn(folder: Path, tmp_path: Path) -> None:
    rows = json.loads(run("show", folder / "good", "--json"))
    assert len(rows[0]["variation"]) >= 3
    run("show", folder / "good", "--plot", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"


def test_a_link_is_fitted_and_made_again_with_about_its_rate(folder: Path, tmp_path: Path) -> None:
    fitted = json.loads(run("fit", folder / "good", "-o", tmp_path / "m.json", "--json"))
    assert fitted["recorded_s"] == pytest.approx(120, abs=1)
    assert len(fitted["links"]) == 1
    made = [
        json.loads(run("make", tmp_path / "m.json", "--duration", "60", "--seed", seed, "-o", tmp_path / out, "--json"))
        for seed, out in (("1", "a.down"), ("1", "b.down"), ("2", "c.down"))
    ]
    assert made[0]["digest"] == made[1]["digest"] != made[2]["digest"]
    assert (tmp_path / "a.down").read_bytes() == (tmp_path / "b.down").read_bytes()
    recorded = json.loads(run("show", folder / "good", "--json"))[0]["mean_rate_mbps"]
    assert made[0]["mean_rate_mbps"] == pytest.approx(recorded, rel=0.5)


def test_a_poisson_link_is_made_and_read_again(tmp_path: Path) -> None:
    out = tmp_path / "p.down"
    made = json.loads(run("make", "--poisson", "2.5", "--duration", "60", "-o", out, "--json"))
    assert made["mean_rate_mbps"] == pytest.approx(2.5, rel=0.05)
    assert json.loads(run("show", out, "--json"))[0]["mean_rate_mbps"] == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("words", [[], ["m.json", "--poisson", "2"], ["--poisson", "2", "--link", "a"]])
def test_a_trace_is_made_of_a_model_or_of_a_poisson_process(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match="expected either MODEL, with or without --link, or --poisson"):
        CliRunner().invoke(traces, ["make", *words, "-o", str(tmp_path / "x.down")], catch_exceptions=False)


def test_bad_files_that_are_left_out_are_told_and_counted(folder: Path, tmp_path: Path) -> None:
    for words in (["show"], ["fit", "-o", str(tmp_path / "m.json")]):
        result = CliRunner().invoke(traces, [*words, str(folder), "--skip-bad"], catch_exceptions=False)
        assert result.exit_code == 0
        assert "left out: bad/torn.down, line 3" in result.stderr
        assert "1 bad file left out" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "good", "--plot", "x.txt"], "x.txt: expected a picture ending in"),
        (["show", "good", "--plot", "nowhere/x.png"], "expected a folder nowhere to write to"),
        (["fit", "good", "-o", "nowhere/m.json"], "nowhere/m.json: cannot be written"),
        (
            ["fit", "good", "-o", "/dev/null"],
            "/dev/null: cannot be written .a folder or a device is there",
        ),
        (["make", "m.json", "-o", "m.xyz"], "m.xyz: expected a name ending in .down, .up, .trace, .txt"),
        (["make", "m.json", "-o", ".m.down"], ".m.down: expected a name ending in .down, .up, .trace, .txt"),
    ],
)
def test_what_could_not_be_written_is_refused_before_anything_is_read(words: list[str], message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        CliRunner().invoke(traces, words, catch_exceptions=False)


def test_a_place_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    run("fit", folder / "good", "-o", tmp_path / "m.json")
    out = tmp_path / "nowhere" / "x.down"
    with pytest.raises(EmulationError, match=r"nowhere/x\.down: cannot be written"):
        CliRunner().invoke(traces, ["make", str(tmp_path / "m.json"), "-o", str(out)], catch_exceptions=False)
