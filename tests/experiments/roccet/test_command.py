# SPDX-License-Identifier: MIT
"""The report of ROCCET on a small scale: its settings, its cases, its command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from experiments.roccet.command import lines_of
from experiments.roccet.runs import key_of, run_cases

from emulation import EmulationError
from emulation.traces import Recording, Trace
from experiments.roccet import load_settings, markdown_of, plan, tables_of
from experiments.roccet.cases import pieces_of
from experiments.roccet.plot import make_figure
from experiments.roccet.settings import LinksSettings, bdp_pkts, named_scenarios
from tests.figures import is_inside
from training.errors import TrainingError
from training.reports.cli import report
from training.study import Journal

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SMALL = {
    "halved": {"buffers_bdp": [4]},
    "share": {"buffers_bdp": [1, 4], "roccet_flows": [1]},
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


def test_the_configuration_holds_what_the_issue_names() -> None:
    found = load_settings(CONFIGS / "reports" / "roccet.yaml")
    assert found.seeds >= 5
    assert min(found.recorded.stationary.runs, found.recorded.mobile.runs) >= 100
    assert (found.share.roccet_flows[0], found.share.roccet_flows[-1]) == (1, 32)
    assert (found.share.buffers_bdp[0], found.share.buffers_bdp[-1]) == (1, 64)
    links = {(s.link.rate_mbps, s.link.rtt_ms, s.duration_s) for s in named_scenarios(found.share.scenarios).values()}
    assert links == {(50, 30, 120), (10, 40, 120)}
    halved = list(named_scenarios(found.halved.scenarios).values())
    assert [s.link.rtt_ms for s in halved] == [30, 40]
    assert all([step.rate_mbps for step in s.link.steps] == [50, 25] and s.duration_s == 35 for s in halved)
    assert [round(bdp_pkts(s)) for s in halved] == [125, 167]
    (frozen,) = named_scenarios((found.frozen.scenario,)).values()
    assert frozen.duration_s == 60


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
    links = LinksSettings(dataset="made", duration_s=2, runs=5, rtt_ms=40, buffer_pkts=100)
    recording = Recording("a", "made", Trace("a", times_ms, 40_000), (), ("a",))
    pieces = pieces_of([recording], links)
    assert [piece.name for piece in pieces] == ["a[0:2000]", "a[8000:10000]", "a[24000:26000]", "a[30000:32000]",
                                                "a[38000:40000]"]  # fmt: skip
    with pytest.raises(TrainingError, match=r"expected five pieces or more of other, got 0 \(of made\)"):
        pieces_of([recording], links.model_copy(update={"dataset": "other"}))


def test_a_case_that_is_over_is_not_run_again_and_gives_the_same_on_any_number_of_threads(
    small: Path, tmp_path: Path
) -> None:
    settings = load_settings(small / "roccet.yaml")
    cases = plan(settings, parts=("halved",), recordings=()).every[:2]
    journal = Journal(tmp_path, key=key_of(settings.halved, cases))
    first = run_cases(cases[:1], journal=journal, threads=1)
    done_s: list[float] = []
    both = run_cases(cases, journal=journal, threads=2, advance=done_s.append)
    assert set(journal.parts()) == {case.name for case in cases}
    assert sum(done_s) == sum(s.duration_s for case in cases for s in case.scenarios)
    again = run_cases(cases, threads=2)
    for name, figures in again.items():
        for figure, values in figures.items():
            assert np.array_equal(values, both[name][figure])
    assert first[cases[0].name].keys() == again[cases[0].name].keys()
    assert key_of(settings.halved, cases[:1]) != key_of(settings.halved, cases)


def test_the_whole_report_on_a_small_scale(small: Path, traces: Path, tmp_path: Path) -> None:
    options = ["roccet", "--config", str(small / "roccet.yaml"), "--traces", str(traces), "--work", str(tmp_path / "w")]
    result = CliRunner().invoke(report, [*options, "--json", "--plot", str(tmp_path / "roccet.png")],
                                catch_exceptions=False)  # fmt: skip
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert {row["part"] for row in figures["rows"]} == {"frozen", "halved", "recorded", "share"}
    assert (tmp_path / "roccet.png").stat().st_size > 10_000
    agrees = {row["statement"]: row["agrees"] for row in figures["rows"]}
    assert all(agrees[name] for name in ("III-1", "III-2", "IX-1", "IX-7", "target-2b"))
    text = CliRunner().invoke(report, [*options, "--enforce"], catch_exceptions=False)
    assert text.exit_code == (1 if figures["rows_differing"] else 0)
    assert {part: len(rows) for part, rows in figures["tables"].items()} == {
        "halved": len(figures["settings"]["halved"]["buffers_bdp"])
        * len(figures["settings"]["halved"]["scenarios"])
        * 4,
        "recorded": 2 * 4,
        "share": len(figures["settings"]["share"]["scenarios"]) * 4 * 2,
    }
    before, after = ({row["scheme"]: row[f"rtt_{when}_ms"] for row in figures["tables"]["halved"]}
                     for when in ("before", "after"))  # fmt: skip
    assert after["CUBIC"] > 1.5 * before["CUBIC"] > 1.5 * after["ROCCET"]
    for row in figures["tables"]["recorded"]:
        assert row["goodput_p25_mbps"] <= row["goodput_median_mbps"] <= row["goodput_p75_mbps"]
        assert row["rtt_p25_ms"] <= row["rtt_median_ms"] <= row["rtt_p75_ms"]
    assert all(0 < row["over_equal_share"] < row["roccet_flows"] + 1 for row in figures["tables"]["share"])
    written = CliRunner().invoke(report, [*options, "--markdown"], catch_exceptions=False).stdout
    one = figures["tables"]["halved"][0]
    assert f"| ROCCET | {one['rtt_before_ms']:.1f} ± {one['rtt_before_ms_interval']:.1f} |" in written
    rows = len(figures["rows"])
    assert f"agree in {rows - figures['rows_differing']} of {rows}; 5 seeds" in text.stdout


@pytest.mark.parametrize("part", ["halved", "share"])
def test_the_parts_that_were_run_fill_the_picture(small: Path, part: str) -> None:
    settings = load_settings(small / "roccet.yaml")
    figure = make_figure(settings, plan(settings, parts=(part,), recordings=()).run(part))
    assert is_inside(figure)
    (axes,) = figure.axes
    assert axes.get_window_extent().width > 0.8 * figure.bbox.width
    (_, low), (_, high) = axes.viewLim.get_points()
    assert all(low <= value <= high for line in axes.lines for value in line.get_ydata() if value > 0)


def test_the_documents_figures_are_of_this_engine() -> None:
    """Of the two quick parts. `python -m experiments roccet` prints all of them anew."""
    document = (CONFIGS.parent / "docs" / "roccet.md").read_text(encoding="utf-8").splitlines()
    campaign = plan(load_settings(CONFIGS / "reports" / "roccet.yaml"), parts=("frozen", "halved"), recordings=())
    results = {part: campaign.run(part) for part in campaign.cases}
    rows = [row for part in campaign.cases for row in campaign.judge(part, results[part])]
    tables = markdown_of(tables_of(campaign.settings, results["halved"], parts=("halved",)))
    assert [line for line in [*lines_of(rows), *tables] if line not in document] == []


def test_one_part_alone_is_run_and_drawn(small: Path, tmp_path: Path) -> None:
    options = ["roccet", "--config", str(small / "roccet.yaml"), "--work", str(tmp_path / "w"), "--only", "frozen"]
    result = CliRunner().invoke(report, options, catch_exceptions=False)
    assert result.stdout.startswith("The frozen window, section III\n")
    result = CliRunner().invoke(report, [*options, "--plot", str(tmp_path / "a.png")], catch_exceptions=False)
    assert result.exit_code == 2
    assert "expected --only halved, recorded or share beside --plot" in result.output
    result = CliRunner().invoke(report, [*options, "--markdown"], catch_exceptions=False)
    assert result.exit_code == 2
    assert "expected --only halved, recorded or share beside --markdown" in result.output
