# SPDX-License-Identifier: MIT
"""The report of ROCCET on a small scale: its settings, its cases, its command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from emulation import EmulationError
from emulation.traces import Recording, Trace
from experiments import campaign, roccet
from experiments.campaign import Links, Results, Store, pieces_of
from experiments.command import run_parts
from experiments.roccet import ROCCET, command
from experiments.roccet.settings import load_settings
from tests.figures import is_inside
from training.errors import TrainingError

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SMALL = {
    "halved": {"buffers_bdp": [4]},
    "share": {"buffers_bdp": [1, 4], "roccet_flows": [1]},
    "buffers": {
        "links": [{"rate_mbps": 10, "rtt_ms": 40}],
        "buffers_bdp": [4],
        "duration_s": 3,
        "start_within_s": 0.1,
        "later_s": [0.2, 0.4],
        "settled_s": 1,
    },
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration with short runs, in a folder of its own."""
    folder = tmp_path_factory.mktemp("configs")
    document = yaml.safe_load((CONFIGS / "reports" / "roccet.yaml").read_text(encoding="utf-8"))
    for section, values in SMALL.items():
        document[section] |= values
    for kind, section in (("scenario", "frozen"), ("scenarios", "halved"), ("scenarios", "share")):
        named = document[section][kind]
        names = [named] if isinstance(named, str) else named[:1]
        for name in names:
            scenario = yaml.safe_load((CONFIGS / "reports" / name).resolve().read_text(encoding="utf-8"))
            scenario["duration_s"] = {"frozen": 15, "halved": 22, "share": 5}[section]
            (folder / Path(name).name).write_text(yaml.safe_dump(scenario), encoding="utf-8")
        local = [Path(name).name for name in names]
        document[section][kind] = local[0] if kind == "scenario" else local
    for links in document["recorded"].values():
        links.update(duration_s=3, runs=5)
    (folder / "roccet.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    for number, dataset in enumerate(("pqsa-4g-validation", "mahimahi-mobile")):
        (folder / dataset).mkdir()
        times_ms = np.sort(np.random.default_rng(number).integers(1, 15_000, 8000))
        (folder / dataset / "a.down").write_text("\n".join(map(str, times_ms)) + "\n15000\n", encoding="ascii")
    return folder


@pytest.mark.parametrize(("old", "new", "message"), [
    ("seeds: 5", "seeds: 4", r"roccet\.yaml: seeds: .* 5, got 4"),
    ("roccet_flows: [1, 2,", "roccet_flows: [2, 1,", "expected 1 and then ascending values"),
    ("settled_s: 10 ", "settled_s: 0 ", "settled_s"),
])  # fmt: skip
def test_settings_out_of_range_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (CONFIGS / "reports" / "roccet.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "roccet.yaml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(EmulationError, match=message):
        load_settings(tmp_path / "roccet.yaml")


def test_pieces_are_spread_over_the_recordings_and_leave_outages_out() -> None:
    times_ms = np.concatenate([np.arange(1, 10_001), np.arange(20_001, 40_001)]).astype(np.uint32)
    recording = Recording("a", "made", Trace("a", times_ms, 40_000), (), ("a",))
    pieces = pieces_of([recording], length_s=2, most=5)
    assert [piece.name for piece in pieces] == ["a[0:2000]", "a[8000:10000]", "a[24000:26000]", "a[30000:32000]",
                                                "a[38000:40000]"]  # fmt: skip
    with pytest.raises(TrainingError, match="expected 5 pieces of 2 s or more, got 0"):
        pieces_of([], length_s=2, most=5)


def test_the_whole_campaign_on_a_small_scale(small: Path, traces: Path, tmp_path: Path) -> None:
    options = ["--config", str(small / "roccet.yaml"), "--traces", str(traces), "--work", str(tmp_path / "w")]
    result = CliRunner().invoke(command, [*options, "--json", "--plot", str(tmp_path / "roccet.png")],
                                catch_exceptions=False)  # fmt: skip
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert {row["part"] for row in figures["rows"]} == {"frozen", "halved", "recorded", "share"}
    assert (tmp_path / "roccet.png").stat().st_size > 10_000
    agrees = {row["statement"]: row["agrees"] for row in figures["rows"]}
    assert all(agrees[name] for name in ("III-1", "III-2", "IX-1", "IX-7", "target-2b"))
    text = CliRunner().invoke(command, [*options, "--enforce"], catch_exceptions=False)
    assert text.exit_code == (1 if figures["rows_differing"] else 0)
    assert text.stdout.startswith("The frozen window, section III\n")
    judged = len(figures["rows"])
    assert f"{judged - figures['rows_differing']} of {judged} rows agree; 5 seeds on made links" in text.stdout
    halved = {row["case"][-1]: row for row in figures["cases"] if row["case"][0] == "halved"}
    assert (
        halved["cubic"]["rtt_after_ms"]
        > 1.5 * halved["cubic"]["rtt_before_ms"]
        > 1.5 * halved["roccet"]["rtt_after_ms"]
    )
    for row in figures["cases"]:
        if row["case"][0] == "recorded":
            assert row["rtts_ms"] == sorted(row["rtts_ms"])
    written = CliRunner().invoke(command, [*options, "--markdown"], catch_exceptions=False).stdout
    one = halved["roccet"]
    assert f"| ROCCET | {one['rtt_before_ms']:.1f} ± {one['rtt_before_ms_interval']:.1f} |" in written
    rows = [line for line in written.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) == 3 + 4 + 8 + 4 + 2 * (1 + 22)


@pytest.mark.parametrize("part", ["halved", "share"])
def test_the_parts_that_were_run_fill_the_picture(small: Path, part: str) -> None:
    results = run_parts(ROCCET, ROCCET.chosen([part]), load_settings(small / "roccet.yaml"))
    assert ROCCET.draw is not None
    figure = ROCCET.draw(results)
    assert is_inside(figure)
    (axes,) = figure.axes
    assert axes.get_window_extent().width > 0.8 * figure.bbox.width
    (_, low), (_, high) = axes.viewLim.get_points()
    assert all(low <= value <= high for line in axes.lines for value in line.get_ydata() if value > 0)


@pytest.mark.parametrize(("part", "place"), [("halved", None), ("buffers", "10 Mbit/s x 100 ms")])
def test_the_documents_table_is_of_this_engine(part: str, place: str | None) -> None:
    """Of what runs in seconds. `python -m experiments roccet --only PART --markdown` prints the tables anew."""
    document = (CONFIGS.parent / "docs" / "roccet.md").read_text(encoding="utf-8").splitlines()
    settings = load_settings(CONFIGS / "reports" / "roccet.yaml")
    (its,) = ROCCET.chosen([part])
    trace = Trace("unused", np.arange(1, 300_001, dtype=np.uint32), 300_000)
    links = Links({"stationary": [Recording("unused", "unused", trace, (), ())]})
    cases = [case for case in its.cases(settings, links) if place in (None, case.key[1])]
    assert its.table is not None
    assert [line for line in its.table(Results(settings, Store().run(cases))) if line not in document] == []


def test_without_recorded_traces_made_ones_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roccet, "default_traces", lambda: None)
    monkeypatch.setattr(campaign, "MADE_S", 60.0)
    links = roccet.links_of(load_settings(CONFIGS / "reports" / "roccet.yaml"), ())
    assert links.made
    assert {kind: len(found) for kind, found in links.recordings.items()} == {"stationary": 8, "mobile": 8}


@pytest.mark.parametrize("option", ["--plot=a.png", "--markdown"])
def test_a_part_without_table_or_picture_is_refused(small: Path, option: str) -> None:
    result = CliRunner().invoke(command, ["--config", str(small / "roccet.yaml"), "--only", "frozen", option])
    assert result.exit_code == 2
    assert "expected a part that" in result.output
    assert "halved, recorded, share" in result.output
