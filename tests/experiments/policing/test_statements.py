# SPDX-License-Identifier: MIT
"""Statements judged on made figures, whose outcome is known."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from experiments.figures import Figure, above, below, within
from experiments.policing import STATEMENTS, PolicingSettings, judge
from experiments.policing.campaign import Case, Files, Moments, Results, cases_of, moment_keys
from training.intervals import interval_of, student_t95

SIZES = (500_000, 1_000_000, 2_000_000, 32_000_000)
SMALL, FIRST, SECOND, LAST = SIZES
SEEDS = 5
SETTINGS = PolicingSettings(
    rate_mbps=2.07, bucket_bytes=733_000, rtt_ms=36, longer_rtts_ms=(40, 120, 200), sizes_bytes=SIZES,
    access_mbps=(50,), buffer_pkts=1000, jitter_ms=2, seeds=SEEDS,
)  # fmt: skip
RATES = {"cubic": (0.0, 0.15, 0.12, 0.05), "bbr": (0.0, 0.3, 0.2, 0.09), "bbr3": (0.0, 0.6, 0.4, 0.15)}


def as_published() -> Results:
    """Figures that are all as the paper has them."""
    files = {}
    for case in cases_of(SETTINGS):
        rate = RATES[case.cca][SIZES.index(case.size_bytes)]
        if case.size_bytes > SIZES[0]:  # longer RTTs: less at the second size, more from the third on
            rate += (-1 if case.size_bytes == SIZES[1] else 1) * case.rtt_ms / 5000
        goodput = 10.0 if case.size_bytes == SIZES[0] else 2.05
        files[case] = Files(np.full(SEEDS, max(rate, 0.0)), np.full(SEEDS, goodput), 0)
    moments = {
        (cca, access, rtt): Moments(
            loss_s=np.full(SEEDS, 0.4), window_share=np.full(SEEDS, 0.1), window_bdps=np.full(SEEDS, 40.0),
            detection_s=np.full(SEEDS, 0.4 + rtt / 120), pacing_mbps=np.full(SEEDS, 2.7),
        )
        for cca, access, rtt in moment_keys(SETTINGS)
    }  # fmt: skip
    return Results(SETTINGS, files, moments)


def differing(results: Results) -> set[str]:
    return {row["statement"] for row in judge(results) if not row["agrees"]}


def changed(key: tuple[Any, ...], column: str, value: object) -> Results:
    """The published figures but for one column.

    key: (algorithm, RTT, size) of files, (algorithm, RTT) of moments;
    None in it: each. value: of every seed, or one a seed.
    """
    results, values = as_published(), np.broadcast_to(np.array(value, dtype=float), SEEDS)

    def is_meant(*found: object) -> bool:
        return all(wanted in {None, one} for wanted, one in zip(key, found, strict=True))

    files = {
        case: replace(old, **{column: values})
        for case, old in results.files.items()
        if len(key) == 3 and is_meant(case.cca, case.rtt_ms, case.size_bytes)
    }
    moments = {
        (cca, access, rtt): replace(old, **{column: values})
        for (cca, access, rtt), old in results.moments.items()
        if len(key) == 2 and is_meant(cca, rtt)
    }
    assert files or moments, key
    return replace(results, files={**results.files, **files}, moments={**results.moments, **moments})


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
    assert set().union(*(expected for *_, expected in OFF)) == {statement.name for statement in STATEMENTS}


def off_by_far() -> Iterator[Results]:
    """One column of one key far from what is published: of files below and above, of moments below and never."""
    published = as_published()
    for case, (column, value) in product(published.files, ((RATE, 0.0), (RATE, 1.0), (GOODPUT, 0.0))):
        yield changed((case.cca, case.rtt_ms, case.size_bytes), column, value)
    for (cca, _, rtt_ms), column, value in product(published.moments, fields(Moments), (0.0, np.nan)):
        yield changed((cca, rtt_ms), column.name, value)
    yield changed(("bbr", 36, None), RATE, 1.0)  # 3.1-6 is of most sizes


def test_every_figure_of_a_statement_counts() -> None:
    rows = [(row["statement"], row["figures"]) for row in judge(as_published())]
    stated = {(name, number) for name, figures in rows for number in range(len(figures))}
    off = set()
    for results in off_by_far():
        for row in judge(results):
            off |= {(row["statement"], number) for number, f in enumerate(row["figures"]) if not f["agrees"]}
            assert row["agrees"] == all(figure["agrees"] for figure in row["figures"])
    assert off == stated


@pytest.mark.parametrize(("cca", "size", "value"), [("bbr", FIRST, 1.0), ("bbr", LAST, 0.2), ("bbr3", FIRST, 0.0)])
def test_version_1_may_be_near_version_3_at_one_size_of_three(cca: str, size: int, value: float) -> None:
    results = changed((cca, 36, size), RATE, value)
    assert "3.1-6" not in differing(results)


def test_what_never_happened_differs_and_has_no_number() -> None:
    results = changed(("bbr", 36), "detection_s", [0.7, np.nan, 0.7, 0.7, 0.7])
    rows = [row for row in judge(results) if row["statement"] == "A-4"]
    assert [row["agrees"] for row in rows] == [False]
    assert rows[0]["figures"][0]["mean"] is None


SPREAD = np.array([-2, -1, 0, 1, 2]) / 10


@pytest.mark.parametrize(("beyond", "expected"), [(0.99, set()), (1.01, {"3.1-6"})])
def test_version_1_over_version_3_is_bounded_up_to_its_interval(beyond: float, expected: set[str]) -> None:
    results = as_published()
    for size in SIZES[1:]:
        case, version_3 = Case("bbr", 50, 36, size), results.files[Case("bbr3", 50, 36, size)]
        rates = version_3.retransmission_rate * (0.8 + SPREAD + beyond * interval_of(SPREAD))
        results.files[case] = replace(results.files[case], retransmission_rate=rates)
    assert differing(results) & {"3.1-6"} == expected


@pytest.mark.parametrize(("beyond", "expected"), [(0.99, set()), (1.01, {"B-5"})])
def test_a_later_detection_is_missed_only_beyond_the_interval(beyond: float, expected: set[str]) -> None:
    at_120_ms = 0.4 + 120 / 120
    earlier = changed(("bbr", 200), "detection_s", at_120_ms + SPREAD - beyond * interval_of(SPREAD))
    assert differing(earlier) == expected


def test_words_name_the_sizes_of_the_settings() -> None:
    rows = {row["statement"]: row for row in judge(as_published())}
    assert rows["3.1-3"]["words"] == "From 1 MB on retransmission is very high"
    assert rows["3.1-3"]["expected"] == "1 MB >= 10 %, 32 MB > 1 %"


def test_words_follow_other_sizes() -> None:
    sizes = (600_000, 800_000, 3_000_000, 4_000_000, 8_000_000)
    settings = SETTINGS.model_copy(update={"sizes_bytes": sizes})
    at_sizes = dict(zip(sizes, (*SIZES, LAST), strict=True))
    published = as_published()
    files = {case: published.files[replace(case, size_bytes=at_sizes[case.size_bytes])] for case in cases_of(settings)}
    rows = {row["statement"]: row for row in judge(Results(settings, files, published.moments))}
    assert rows["3.1-3"]["expected"] == "0.8 MB >= 10 %, 8 MB > 1 %"
    assert rows["B-1"]["words"].startswith("BBRv1: 0.6 MB has")
    assert rows["B-3"]["words"].startswith("BBRv1: from 3 MB on")
    text = " ".join(f"{row['words']} {row['expected']}" for row in rows.values())
    assert set(re.findall(r"([\d.]+) MB", text)) == {"0.6", "0.8", "3", "8"}


def test_students_t_is_that_of_the_tables() -> None:
    assert student_t95(5) == pytest.approx(2.776, rel=3e-3)
    assert student_t95(10) == pytest.approx(2.262, abs=2e-3)
    assert student_t95(20) == pytest.approx(2.093, abs=1e-3)
    assert student_t95(10_000) == pytest.approx(1.960, abs=1e-3)


def test_the_interval_is_t_s_over_the_root_of_n() -> None:
    values = np.arange(20.0)
    assert interval_of(values) == pytest.approx(2.093 * math.sqrt(35) / math.sqrt(20), rel=1e-3)
    assert interval_of(np.full(5, 3.0)) == 0


def test_a_bound_is_missed_only_beyond_the_interval() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0, 1.0])
    interval = interval_of(values)
    assert within("", values, most=1 - 0.99 * interval).agrees
    assert not within("", values, most=1 - 1.01 * interval).agrees
    assert not within("", values, least=1 + 1.01 * interval).agrees


def test_between_two_bounds_the_interval_is_to_fit() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0, 1.0])
    interval = interval_of(values)
    assert within("", values, least=1 - 1.01 * interval, most=1 + 1.01 * interval).agrees
    assert not within("", values, least=1 - 0.99 * interval, most=1 + 0.99 * interval).agrees


def test_a_comparison_goes_seed_by_seed() -> None:
    # Apart by 0.1 with every seed, though the seeds are apart by more.
    base = np.arange(5.0)
    assert below("", base, base + 0.1).agrees
    assert below("", base, base).agrees
    assert not below("", base + 0.1, base).agrees
    assert above("", base + 0.1, base).agrees
    assert above("", base, base).agrees
    assert not above("", base, base + 0.1).agrees


def test_statements_on_version_3_are_marked() -> None:
    marked = {statement.name for statement in STATEMENTS if statement.unvalidated}
    assert marked == {statement.name for statement in STATEMENTS if "BBRv3" in statement.words}


def test_names_are_unique() -> None:
    assert len({statement.name for statement in STATEMENTS}) == len(STATEMENTS)
    assert Case("bbr", 50, 36, 1) == Case("bbr", 50.0, 36.0, 1)


def test_a_figure_without_an_interval_shows_none() -> None:
    longest = Figure("longest", 4298.2, math.nan, agrees=True, unit="ms")
    assert longest.text() == "longest 4298.20 ms"
    assert longest.summary()["interval"] is None
