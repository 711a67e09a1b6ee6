# SPDX-License-Identifier: MIT
"""The report: its page is one file with every scheme and run, and the graphs have Pantheon's names."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import ccatune
from emulation.errors import EmulationError
from emulation.pantheon._pdf import pages_of
from emulation.pantheon.analysis import Analysis, analyse
from emulation.pantheon.plots import BLACK, Style, run_figure, styles_of, summary_figure
from emulation.pantheon.report import write_report, write_results
from emulation.pantheon.tables import flow_table, left_out_table, overview_table, summary_table
from tests.emulation.pantheon.folders import MODELS, make_folder
from tests.figures import is_inside

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
KNOWN = {"cubic": Style("TCP Cubic <a>", "black", "*"), "bbr": Style("TCP BBR", "gold", "^")}
Capture = pytest.CaptureFixture[str]
VOID = {"meta", "path", "use", "rect", "image", "br"}


@pytest.fixture(scope="module")
def analyses(tmp_path_factory: pytest.TempPathFactory) -> list[Analysis]:
    top = tmp_path_factory.mktemp("folders")
    one_flow = {"cubic": MODELS["cubic"], "gr": MODELS["gr"]}
    return [
        analyse(make_folder(top / "wired", link="wired, 12 Mbit/s")),
        analyse(make_folder(top / "single", flows=1, interval_s=0, runs=1, models=one_flow)),
    ]


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


class Page(HTMLParser):
    """Collects what the tests ask of the page, and checks that its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._take(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def _take(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.identifiers.append(value or "")
            if name in {"href", "xlink:href", "src"}:
                self.links.append(value or "")


@pytest.fixture(scope="module")
def text(analyses: list[Analysis], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(analyses, path, kind="html", styles=KNOWN, now=NOW)
    return path.read_text()


def test_the_page_is_one_valid_file_that_loads_nothing(text: str) -> None:
    page = Page(text)
    assert len(page.identifiers) == len(set(page.identifiers))
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert all(link[1:] in page.identifiers for link in page.links if link.startswith("#"))
    assert not re.search(r"<script|@import|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_shows_each_link_scheme_run_and_failure(text: str) -> None:
    assert "TCP Cubic &lt;a&gt;" in text
    assert "TCP Cubic <a>" not in text
    assert text.count("<h2>") == 2
    assert text.index("<table>") < text.index("<figure>")
    assert "crashed: the receiver exited with status 1" in text
    assert "too short" in text
    assert "2026-03-02 at 08:30 UTC" in text
    # Of the 9 runs of the first folder one has no log; the second folder has 2 runs; each folder has a summary.
    assert len(re.findall(r"<svg [^>]*viewBox=\"0 0", text)) == 8 + 2 + 2


def test_the_same_folders_give_the_same_page(analyses: list[Analysis], tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(analyses[1:], tmp_path / name, kind="html", styles=KNOWN, now=NOW)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_pdf_has_a_page_for_each_link_and_pages_of_six_runs_on_which_nothing_is_cut_off(
    analyses: list[Analysis], tmp_path: Path
) -> None:
    write_report(analyses[1:], tmp_path / "report.pdf", kind="pdf", styles=KNOWN, now=NOW)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", content)) == 2
    figures = pages_of(analyses, styles=styles_of(["cubic", "bbr", "gr"], KNOWN), now=NOW)
    assert len(figures) == 1 + (1 + 2) + (1 + 1)
    for figure in figures[:3]:
        assert is_inside(figure)
        # The legends of two runs that are side by side do not touch.
        legends = [legend for part in figure.subfigs for legend in part.legends]
        boxes = [legend.get_window_extent() for legend in legends]
        assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])


def test_the_results_have_pantheons_names(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", runs=1)
    write_results(analyse(folder), styles=KNOWN, now=NOW)
    names = {path.name for path in folder.iterdir()}
    assert {f"pantheon_summary{kind}.{end}" for kind in ("", "_mean") for end in ("svg", "pdf")} <= names
    assert set(json.loads((folder / "pantheon_perf.json").read_text())) == {"bbr", "cubic", "gr"}
    assert "# Datalink statistics" in (folder / "cubic_stats_run1.log").read_text()


def run_with_failures(words: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        ccatune.run(words)


def test_results_are_kept_where_logs_are_missing_or_schemes_left_out(tmp_path: Path, capsys: Capture) -> None:
    folder = make_folder(tmp_path / "data", seconds=2, runs=2, flows=1, interval_s=0)
    words = ["pantheon", "analyze", "--data-dir", str(folder)]
    run_with_failures(words)  # the last run of bbr failed
    files = {path.name: path.read_bytes() for path in folder.glob("pantheon_*")}
    results = json.loads(files["pantheon_perf.json"])
    assert {scheme: list(runs) for scheme, runs in results.items()} == {"bbr": ["1"], "cubic": ["1", "2"], "gr": ["1"]}
    for path in folder.glob("cubic_datalink_*"):
        path.unlink()
    run_with_failures(words)
    run_with_failures([*words, "--schemes", "gr"])
    assert json.loads((folder / "pantheon_perf.json").read_bytes()) == results
    # Of many published folders only the results are left.
    for path in folder.glob("*.log"):
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    run_with_failures(words)
    assert "cubic run 1: missing" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_folder_that_cannot_be_written_is_analysed_nevertheless(tmp_path: Path, capsys: Capture) -> None:
    folder = make_folder(tmp_path / "$_$", runs=1, flows=1, interval_s=0, models={"cubic": MODELS["cubic"]})
    (folder / "pantheon_perf.json").mkdir()
    assert ccatune.run(["pantheon", "analyze", "--data-dir", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert "cubic" in out
    assert "pantheon_perf.json: cannot be written" in err


def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    odd = os.fsdecode(b"$b_$\x1b[31m\xff")
    only = {"gr": MODELS["gr"]}
    folder = make_folder(tmp_path / odd, seconds=2, runs=1, flows=1, interval_s=0, link="a $_$ link", models=only)
    analyses = [analyse(folder)] * 2
    styles = {"gr": Style("$_$ \x1b[1m", "black", "o")}
    write_results(analyses[0], styles=styles, now=NOW)
    assert "a $_$ link, means" in (folder / "pantheon_summary_mean.svg").read_text()
    write_report(analyses, folder / "a.html", kind="html", styles=styles, now=NOW)
    assert r"$b_$\x1b[31m\udcff" in (folder / "a.html").read_text()
    write_report(analyses, folder / "a.pdf", kind="pdf", styles=styles, now=NOW)


def test_the_delay_axis_decreases_to_the_right_and_is_logarithmic_over_a_wide_range(analyses: list[Analysis]) -> None:
    styles = styles_of(["cubic", "bbr", "gr"], KNOWN)
    wide = summary_figure(analyses[0], styles).axes[0]
    left, right = wide.get_xlim()
    assert left > right > 0
    delays = [s.summary.delay_p95_ms.mean for s in analyses[0].schemes if s.summary.delay_p95_ms]
    assert wide.get_xscale() == ("log" if max(delays) > 4 * min(delays) else "linear")


def test_the_names_in_the_summary_cover_neither_each_other_nor_a_mark(analyses: list[Analysis]) -> None:
    figure = summary_figure(analyses[0], styles_of(["cubic", "bbr", "gr"], KNOWN))
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    labels = [text for text in figure.axes[0].texts if text.get_text() in {"TCP Cubic <a>", "TCP BBR", "gr"}]
    boxes = [text.get_window_extent(renderer) for text in labels]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])


def test_the_figure_of_a_run_shows_all_rates_and_delays(analyses: list[Analysis]) -> None:
    figure = run_figure(analyses[0].schemes[1].runs[0])
    assert is_inside(figure)
    for axes in figure.axes:
        values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
        assert np.nanmin(values) >= axes.get_ylim()[0]
        assert np.nanmax(values) <= axes.get_ylim()[1]


def test_a_run_without_packets_says_why(analyses: list[Analysis]) -> None:
    bbr = next(scheme for scheme in analyses[0].schemes if scheme.scheme == "bbr")
    assert "crashed" in words(run_figure(bbr.runs[2]))


def test_unknown_schemes_get_distinct_colours_and_markers() -> None:
    wrong = {"d": Style("D", "no colour", "o"), "e": Style("E", "black", "no marker")}
    styles = styles_of(["a", "b", "c", "d", "e"], KNOWN | wrong)
    looks = {(style.color, style.marker) for style in styles.values()}
    assert len(looks) == 5
    assert styles["d"].name == "D"
    assert styles["e"].color == BLACK
    assert styles_of(["cubic"], KNOWN)["cubic"].marker == "*"


def test_tables_mark_the_best_value_and_list_what_does_not_count(analyses: list[Analysis]) -> None:
    styles = styles_of(["cubic", "bbr", "gr"], KNOWN)
    table = summary_table(analyses[0], styles)
    by_name = {row.cells[0].text: row.cells for row in table.rows}
    rates = {name: float(cells[2].text.split()[0]) for name, cells in by_name.items()}
    assert {name for name, cells in by_name.items() if cells[2].is_best} == {max(rates, key=lambda name: rates[name])}
    assert {name for name, cells in by_name.items() if cells[4].is_best} == {"gr"}
    assert by_name["gr"][1].text == "2 of 3"
    flows = flow_table(analyses[0], styles)
    assert flows is not None
    assert len(flows.columns) == 1 + 3 * 2
    assert flow_table(analyses[1], styles) is None
    left_out = left_out_table(analyses[0], styles)
    assert left_out is not None
    assert {(row.cells[0].text, row.cells[1].text) for row in left_out.rows} == {("TCP BBR", "3"), ("gr", "2")}
    overview = overview_table(analyses, styles)
    assert overview is not None
    assert [row.cells[3].text for row in overview.rows if row.cells[0].text == "TCP BBR"] == ["–"]


def test_a_report_of_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match="expected at least one data folder to report, got none"):
        write_report([], tmp_path / "a.html", kind="html", styles={}, now=NOW)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_valid_run_is_reported(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", runs=1)
    for path in folder.glob("*_datalink_*"):
        path.unlink()
    analysis = analyse(folder)
    assert all(run.verdict in {"missing", "failed"} for scheme in analysis.schemes for run in scheme.runs)
    write_report([analysis], tmp_path / "a.html", kind="html", styles=KNOWN, now=NOW)
    write_report([analysis], tmp_path / "a.pdf", kind="pdf", styles=KNOWN, now=NOW)
    assert "there is no gr_datalink_run1.log" in (tmp_path / "a.html").read_text()
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
