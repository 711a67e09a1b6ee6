# SPDX-License-Identifier: MIT
"""Statements judged on made figures, whose outcome is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from emulation.policing import STATEMENTS, PolicingSettings, judge
from emulation.policing.campaign import Case, Files, Moments, Results, cases_of, moment_keys
from emulation.policing.statements import below, interval_of, student_t95, within

SIZES = (500_000, 1_000_000, 2_000_000, 32_000_000)
SETTINGS = PolicingSettings(
    rate_mbps=2.07, bucket_bytes=733_000, rtt_ms=36, longer_rtts_ms=(40, 120, 200), sizes_bytes=SIZES,
    access_mbps=(50,), buffer_pkts=1000, jitter_ms=2, seeds=3,
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
        files[case] = Files(np.full(3, max(rate, 0.0)), np.full(3, goodput), 0)
    moments = {
        (cca, access, rtt): Moments(
            loss_s=np.full(3, 0.4), window_share=np.full(3, 0.1), window_bdps=np.full(3, 40.0),
            detection_s=np.full(3, 0.4 + rtt / 120), pacing_mbps=np.full(3, 2.7),
        )
        for cca, access, rtt in moment_keys(SETTINGS)
    }  # fmt: skip
    return Results(SETTINGS, files, moments)


def differing(results: Results) -> set[str]:
    return {row["statement"] for row in judge(results) if not row["agrees"]}


def with_rate(results: Results, cca: str, size: int, rate: float) -> Results:
    changed = {
        case: replace(files, retransmission_rate=np.full(3, rate))
        for case, files in results.files.items()
        if (case.cca, case.size_bytes) == (cca, size)
    }
    return replace(results, files={**results.files, **changed})


def test_figures_as_published_agree_with_every_statement() -> None:
    assert differing(as_published()) == set()


@pytest.mark.parametrize(
    ("cca", "size", "rate", "expected"),
    [
        ("bbr", SIZES[0], 0.02, {"3.1-1", "B-1"}),
        ("cubic", SIZES[1], 0.35, {"3.1-7", "3.1-8"}),
        ("cubic", SIZES[1], 0.05, {"3.1-3", "3.1-5", "3.1-8"}),
        ("cubic", SIZES[3], 0.2, {"3.1-5", "3.1-7", "4.1-2"}),
        ("bbr", SIZES[3], 0.2, {"4.1-1"}),
        ("bbr3", SIZES[1], 0.45, {"3.1-4"}),
        ("bbr3", SIZES[3], 0.08, {"talk-1"}),
    ],
)
def test_a_figure_that_is_off_differs_where_it_is_stated(cca: str, size: int, rate: float, expected: set[str]) -> None:
    assert expected <= differing(with_rate(as_published(), cca, size, rate))


def test_what_never_happened_differs_and_has_no_number() -> None:
    results = as_published()
    key = ("bbr", 50.0, 36.0)
    moments = {**results.moments, key: replace(results.moments[key], detection_s=np.array([0.7, np.nan, 0.7]))}
    rows = [row for row in judge(replace(results, moments=moments)) if row["statement"] == "A-4"]
    assert [row["agrees"] for row in rows] == [False]
    assert rows[0]["figures"][0]["mean"] is None


def test_students_t_is_that_of_the_tables() -> None:
    assert student_t95(10) == pytest.approx(2.262, abs=2e-3)
    assert student_t95(20) == pytest.approx(2.093, abs=1e-3)
    assert student_t95(10_000) == pytest.approx(1.960, abs=1e-3)


def test_the_interval_is_t_s_over_the_root_of_n() -> None:
    values = np.arange(20.0)
    assert interval_of(values) == pytest.approx(2.093 * math.sqrt(35) / math.sqrt(20), rel=1e-3)
    assert interval_of(np.full(5, 3.0)) == 0


def test_a_bound_is_missed_only_beyond_the_interval() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0])
    interval = interval_of(values)
    assert within("", values, most=1 - 0.99 * interval).agrees
    assert not within("", values, most=1 - 1.01 * interval).agrees
    assert not within("", values, least=1 + 1.01 * interval).agrees


def test_a_comparison_goes_seed_by_seed() -> None:
    # Apart by 0.1 with every seed, though the seeds are apart by more.
    base = np.array([1.0, 2.0, 3.0])
    assert below("", base, base + 0.1).agrees
    assert below("", base, base).agrees
    assert not below("", base + 0.1, base).agrees


def test_statements_on_version_3_are_marked() -> None:
    marked = {statement.name for statement in STATEMENTS if statement.unvalidated}
    assert marked == {
        statement.name for statement in STATEMENTS if "BBRv3" in statement.words and statement.name != "A-1"
    }


def test_names_are_unique() -> None:
    assert len({statement.name for statement in STATEMENTS}) == len(STATEMENTS)
    assert Case("bbr", 50, 36, 1) == Case("bbr", 50.0, 36.0, 1)
