# SPDX-License-Identifier: MIT
"""Statements on files behind a policer, judged on made figures whose outcome is known; and the moments of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulation.scenario.path import Policer
from experiments.campaign import Results, Store, judge
from experiments.command import run_parts
from experiments.rtcp import RTCP
from experiments.rtcp.cells import Cell, RtcpResults
from experiments.rtcp.policing import CCAS, POLICING, cases, first_constant_s, one_file, rates_table
from experiments.rtcp.settings import RtcpSettings, load_settings
from tests.figures import is_inside
from training.intervals import interval_of

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "rtcp.yaml"
PART = RTCP.chosen(["policing"])
LARGEST_AGAIN_BYTES = 8_000_000  # of the document's table: larger files take as long again as all of these
SIZES = (500_000, 1_000_000, 2_000_000, 32_000_000)
SMALL, FIRST, SECOND, LAST = SIZES
SEEDS = 5
WHOLE = load_settings(CONFIG)
SETTINGS = WHOLE.model_copy(update={"sizes_bytes": SIZES, "access_mbps": (50,), "seeds": SEEDS})
RATES = {"cubic": (0.0, 0.15, 0.12, 0.05), "bbr": (0.0, 0.3, 0.2, 0.09), "bbr3": (0.0, 0.6, 0.4, 0.15)}
MOMENTS = {"loss_s": 0.4, "window_share": 0.1, "window_bdps": 40.0, "pacing_mbps": 2.7}
Key = tuple[Any, ...]


def rtt_ms(key: Key) -> float:
    return float(key[1].partition("-")[2])


def as_published(settings: RtcpSettings = SETTINGS) -> RtcpResults:
    """Figures that are all as the paper has them."""
    found = {}
    for case in cases(settings):
        _, _, cca, value = case.key
        if value == "moments":
            figures = {**MOMENTS, "detection_s": 0.4 + rtt_ms(case.key) / 120}
        else:
            at = min(settings.sizes_bytes.index(int(value)), 3)
            rate = RATES[cca][at]
            if at:  # longer RTTs: less at the second size, more from the third on
                rate += (-1 if at == 1 else 1) * rtt_ms(case.key) / 5000
            figures = {"retransmission_rate": max(rate, 0.0), "goodput_mbps": 2.05 if at else 10.0}
        found[case.key] = {name: np.full(SEEDS, figure) for name, figure in figures.items()}
    return Results(settings, found)


def rows_of(results: RtcpResults) -> list[dict[str, Any]]:
    return judge(RTCP, PART, results)


def differing(results: RtcpResults) -> set[str]:
    return {row["statement"] for row in rows_of(results) if not row["agrees"]}


def changed(key: Key, column: str, value: object) -> RtcpResults:
    """The published figures but for one column.

    key: (algorithm, RTT, size) of files, (algorithm, RTT) of moments;
    None in it: each. value: of every seed, or one a seed.
    """
    results, values = as_published(), np.broadcast_to(np.array(value, dtype=float), SEEDS)
    wanted = (*key, "moments") if len(key) == 2 else key
    met = [
        columns for at, columns in results.cases.items()
        if column in columns and all(
            one in {None, other} for one, other in
            zip(wanted, (at[2], rtt_ms(at), at[3] if len(key) == 2 else int(at[3]) if at[3] != "moments" else 0),
                strict=True))
    ]  # fmt: skip
    assert met, key
    for columns in met:
        columns[column] = values
    return results


def test_figures_as_published_agree_with_every_statement() -> None:
    assert differing(as_published()) == set()


RATE, GOODPUT = "retransmission_rate", "goodput_mbps"
OFF: list[tuple[tuple[Any, ...], str, float, set[str]]] = [
    (("bbr", None, SMALL), RATE, 0.02, {"3.1-1", "B-1"}),
    (("bbr", 200, SMALL), RATE, 0.0006, {"B-1"}),
    (("cubic", 36, SMALL), GOODPUT, 4.0, {"3.1-2"}),
    (("cubic", 36, FIRST), RATE, 0.35, {"3.1-7", "3.1-8"}),
    (("cubic", 36, FIRST), RATE, 0.05, {"3.1-3", "3.1-5", "3.1-8"}),
    (("bbr3", 36, FIRST), RATE, 0.45, {"3.1-4"}),
    (("bbr3", 36, None), RATE, 0.21, {"3.1-1", "3.1-4", "3.1-6"}),
    (("cubic", 36, SECOND), GOODPUT, 1.8, {"3.1-9"}),
    (("bbr", None, LAST), RATE, 0.2, {"4.1-1"}),
    (("bbr", 36, LAST), RATE, 0.06, {"4.1-1"}),
    (("cubic", 36, LAST), RATE, 0.2, {"3.1-5", "3.1-7", "4.1-2"}),
    (("cubic", 36, LAST), RATE, 0.02, {"4.1-2"}),
    (("cubic", 36, LAST), RATE, 0.005, {"3.1-3", "4.1-2"}),
    (("bbr3", 36, LAST), RATE, 0.08, {"talk-1"}),
    (("bbr", 36), "loss_s", 0.1, {"A-1"}),
    (("bbr3", 36), "loss_s", 0.7, {"A-1"}),
    (("bbr", 36), "window_share", 0.6, {"A-2"}),
    (("bbr3", 36), "window_bdps", 4.0, {"A-3"}),
    (("bbr", 36), "detection_s", 0.45, {"A-4"}),
    (("bbr", 36), "detection_s", 0.95, {"A-4"}),
    (("bbr3", 36), "pacing_mbps", 2.0, {"A-5"}),
    (("bbr3", 36, FIRST), GOODPUT, 2.4, {"A-6"}),
    (("bbr3", 36, FIRST), GOODPUT, 1.84, {"3.1-9", "A-6"}),
    (("bbr", 40, LAST), RATE, 0.005, {"B-2"}),
    (("bbr", 200, SECOND), RATE, 0.2, {"B-3"}),
    (("bbr", 200, FIRST), RATE, 0.3, {"B-4"}),
    (("bbr", 200), "detection_s", 1.2, {"B-5"}),
    (("bbr", 120, SECOND), GOODPUT, 1.8, {"B-6"}),
]


@pytest.mark.parametrize(("key", "column", "value", "expected"), OFF)
def test_a_figure_that_is_off_differs_where_it_is_stated_and_nowhere_else(
    key: tuple[Any, ...], column: str, value: float, expected: set[str]
) -> None:
    assert differing(changed(key, column, value)) == expected


def test_every_statement_is_shown_to_differ() -> None:
    assert set().union(*(expected for *_, expected in OFF)) == {statement.name for statement in POLICING}


def off_by_far() -> Iterator[RtcpResults]:
    """One column of one key far from what is published: of files below and above, of moments below and never."""
    for at in as_published().cases:
        if at[3] == "moments":
            for column, value in product([*MOMENTS, "detection_s"], (0.0, np.nan)):
                yield changed((at[2], rtt_ms(at)), column, value)
            continue
        for column, value in ((RATE, 0.0), (RATE, 1.0), (GOODPUT, 0.0)):
            yield changed((at[2], rtt_ms(at), int(at[3])), column, value)
    yield changed(("bbr", 36, None), RATE, 1.0)  # 3.1-6 is of most sizes


def test_every_figure_of_a_statement_counts() -> None:
    rows = [(row["statement"], row["figures"]) for row in rows_of(as_published())]
    stated = {(name, number) for name, figures in rows for number in range(len(figures))}
    off = set()
    for results in off_by_far():
        for row in rows_of(results):
            off |= {(row["statement"], number) for number, f in enumerate(row["figures"]) if not f["agrees"]}
            assert row["agrees"] == all(figure["agrees"] for figure in row["figures"])
    assert off == stated


@pytest.mark.parametrize(("cca", "size", "value"), [("bbr", FIRST, 1.0), ("bbr", LAST, 0.2), ("bbr3", FIRST, 0.0)])
def test_version_1_may_be_near_version_3_at_one_size_of_three(cca: str, size: int, value: float) -> None:
    results = changed((cca, 36, size), RATE, value)
    assert "3.1-6" not in differing(results)


def test_what_never_happened_differs_and_has_no_number() -> None:
    results = changed(("bbr", 36), "detection_s", [0.7, np.nan, 0.7, 0.7, 0.7])
    rows = [row for row in rows_of(results) if row["statement"] == "A-4"]
    assert [row["agrees"] for row in rows] == [False]
    assert rows[0]["figures"][0]["mean"] is None


SPREAD = np.array([-2, -1, 0, 1, 2]) / 10


@pytest.mark.parametrize(("beyond", "expected"), [(0.99, set()), (1.01, {"3.1-6"})])
def test_version_1_over_version_3_is_bounded_up_to_its_interval(beyond: float, expected: set[str]) -> None:
    results = as_published()
    for size in SIZES[1:]:
        version_1, version_3 = (results.cases[Cell("policing", "50-36", cca, str(size))] for cca in ("bbr", "bbr3"))
        version_1[RATE] = version_3[RATE] * (0.8 + SPREAD + beyond * interval_of(SPREAD))
    assert differing(results) & {"3.1-6"} == expected


@pytest.mark.parametrize(("beyond", "expected"), [(0.99, set()), (1.01, {"B-5"})])
def test_a_later_detection_is_missed_only_beyond_the_interval(beyond: float, expected: set[str]) -> None:
    at_120_ms = 0.4 + 120 / 120
    earlier = changed(("bbr", 200), "detection_s", at_120_ms + SPREAD - beyond * interval_of(SPREAD))
    assert differing(earlier) == expected


def test_the_report_says_how_often_each_case_was_run() -> None:
    results = as_published()
    results.cases[Cell("lifted", "op1", "cubic", "file")] = {"mbps": np.zeros(10)}
    results.cases[Cell("lifted", "grid", "cubic", "file")] = {"mbps": np.zeros(7)}
    assert RTCP.describe(results) == f"runs of each case: {SEEDS} of policing; 7 or 10 of lifted"


def test_words_name_the_sizes_of_the_settings() -> None:
    rows = {row["statement"]: row for row in rows_of(as_published())}
    assert rows["3.1-3"]["words"] == "From 1 MB on retransmission is very high"
    assert rows["3.1-3"]["expected"] == "1 MB >= 10 %, 32 MB > 1 %"


def test_words_follow_other_sizes() -> None:
    sizes = (600_000, 800_000, 3_000_000, 4_000_000, 8_000_000)
    results = as_published(SETTINGS.model_copy(update={"sizes_bytes": sizes}))
    rows = {row["statement"]: row for row in rows_of(results)}
    assert rows["3.1-3"]["expected"] == "0.8 MB >= 10 %, 8 MB > 1 %"
    assert rows["B-1"]["words"].startswith("BBRv1: 0.6 MB has")
    assert rows["B-3"]["words"].startswith("BBRv1: from 3 MB on")
    text = " ".join(f"{row['words']} {row['expected']}" for row in rows.values())
    assert set(re.findall(r"([\d.]+) MB", text)) == {"0.6", "0.8", "3", "8"}


@pytest.mark.parametrize("policer", ["before", "behind"])
def test_the_policer_is_where_the_settings_have_it(policer: str) -> None:
    settings = SETTINGS.model_copy(update={"policer": policer})
    link = one_file(settings, (20, 36), "bbr", 1_000_000, 3).link
    assert [isinstance(element, Policer) for element in (*link.before, *link.behind)][:1] == [True]
    assert bool(link.before) == (policer == "before")


def test_a_small_campaign_is_drawn_and_has_a_table() -> None:
    small = SETTINGS.model_copy(update={"sizes_bytes": (500_000, 1_000_000, 2_000_000, 4_000_000)})
    results = run_parts(RTCP, PART, small)
    # The bucket is larger than the smallest file, and the jitter makes seeds differ.
    assert all(row["agrees"] for row in rows_of(results) if row["statement"] in {"3.1-1", "3.1-2", "B-1"})
    rates = results.get(Cell("policing", "50-36", "bbr3", "2000000"), RATE)
    assert rates[0] != rates[1]
    assert RTCP.draw is not None
    figure = RTCP.draw(results)
    assert is_inside(figure)
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        assert bottom == 0
        assert all(float(np.max(line.get_ydata())) < top for line in axes.lines if len(line.get_ydata()) > 2)
    head, rule, *rows = rates_table(results)
    assert head == "| access | algorithm | 0.5 MB | 1 | 2 | 4 |"
    assert rule == "| --- | --- | --- | --- | --- | --- |"
    assert [row.split(" | ")[:2] for row in rows] == [["| 50 Mbit/s", "CUBIC"], ["|", "BBRv1"], ["|", "BBRv3*"]]
    rate = results.get(Cell("policing", "50-36", "bbr", "4000000"), RATE).mean()
    assert rows[1].endswith(f" | {100 * rate:.1f} |")


def test_the_documents_table_is_of_this_engine() -> None:
    """Its one decimal, but of the largest files. `python -m experiments rtcp --only policing --markdown` prints it."""
    document = (CONFIG.parents[2] / "docs" / "policing.md").read_text(encoding="utf-8")
    head, _, *rows = [line for line in document.splitlines() if line.startswith("| ")]
    sizes = [round(float(name.removesuffix(" MB")) * 1e6) for name in head.strip("| ").split(" | ")[2:]]
    assert tuple(sizes) == WHOLE.sizes_bytes
    small = WHOLE.model_copy(update={"sizes_bytes": tuple(size for size in sizes if size <= LARGEST_AGAIN_BYTES)})
    chosen = [case for case in cases(small) if rtt_ms(case.key) == 36 and case.key[3] != "moments"]
    found = Store().run(chosen)
    keys = [(f"{access:g}-36", cca) for access in sorted(WHOLE.access_mbps) for cca in CCAS]
    for (place, cca), row in zip(keys, rows[: len(keys)], strict=True):  # the first table
        written = [float(cell) for cell in row.strip("| ").split(" | ")[-len(sizes) :]]
        for size, rate in zip(small.sizes_bytes, written, strict=False):
            measured = found[Cell("policing", place, cca, str(size))][RATE].mean()
            assert 100 * measured == pytest.approx(rate, abs=0.051), (place, cca, size)


def test_a_value_is_constant_from_its_last_change_on() -> None:
    time_s = np.arange(1, 101) / 100
    values = np.where(time_s <= 0.3, time_s, 5.0)
    assert first_constant_s(time_s, values, least_s=0.5, from_s=0.1) == pytest.approx(0.31)
    assert first_constant_s(time_s, values, least_s=0.5, from_s=0.4) == pytest.approx(0.4)
    assert np.isnan(first_constant_s(time_s, values, least_s=0.8, from_s=0.1))
    assert np.isnan(first_constant_s(time_s, values, least_s=0.1, from_s=float("nan")))
