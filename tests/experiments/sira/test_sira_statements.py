# SPDX-License-Identifier: MIT
"""Statements on SIRA judged on figures whose outcome is known, and the variation of links of known rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emulation.traces import Recording, Trace
from experiments.campaign import Key, Links, Results, judge
from experiments.sira import REPORT
from experiments.sira.cases import FLOWS, RULES, SIRA_H
from experiments.sira.plot import PAPER
from experiments.sira.settings import SiraSettings, load_settings
from experiments.sira.statements import rises, share_below

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "sira.yaml"
RUNS = 5


def settings() -> SiraSettings:
    found = load_settings(CONFIG)
    return found.model_copy(update={"places": {"made": found.places["made"]}})


def figures_of(mean_ms: float, p95_ms: float, mbps: float) -> dict[str, np.ndarray]:
    values = {"mean_ms": mean_ms, "p95_ms": p95_ms, "mbps": mbps, "utilization": mbps / 6.92}
    return {name: np.full(RUNS, value) for name, value in values.items()}


def differing(changed: dict[str, tuple[float, float, float]] | None = None, *, effect: float = 1.0) -> set[str]:
    """The statements that differ, of the paper's figures with some changed. effect: of each step of a parameter."""
    paper = PAPER | (changed or {})
    cases: dict[Key, dict[str, np.ndarray]] = {
        ("flow", "made", name): figures_of(*paper[name.partition(",")[0]]) for name in FLOWS
    }
    for rule in RULES:
        for parameter, values in settings().varied.values.items():
            for step, value in enumerate(values):
                varied = figures_of(10, 50 + effect * step, 6 + effect * step / 10)
                cases["varied", "made", rule, parameter, f"{value}"] = varied
    chosen = REPORT.chosen(["table1", "sira_h", "sensitivity"])
    return {row["statement"] for row in judge(REPORT, chosen, Results(settings(), cases)) if not row["agrees"]}


THEIRS = {"III-2", "V-2", "V-4"}  # (895.7 - 363.3) / 363.3 = 1.465, (363.3 - 90.2) / 90.2 = 3.03, 6.24 / 6.67 = 0.936


def test_the_papers_own_figures_agree_with_all_statements_but_three() -> None:
    assert differing() == THEIRS


@pytest.mark.parametrize(("name", "figures", "statements"), [
    ("SIRA", (205.0, 300.0, 6.67), {"III-1", "V-2", "V-4"}),       # 483.1 / 205 - 1 = 1.357
    ("SIRA", (203.7, 362.0, 6.66), {"V-2", "V-4", "III-4"}),       # 895.7 / 362 - 1 = 1.474, 6.66 / 6.92 = 0.962
    ("SIRA", (203.7, 455.0, 5.6), {"III-2", "III-3", "III-4"}),    # 455 / 90.2 - 1 = 4.04, above SIRA's throughput
    ("SIRA", (203.7, 363.3, 6.80), THEIRS | {"V-1"}),
    ("Vegas", (204.0, 211.4, 5.16), THEIRS | {"III-5"}),
    ("Vegas", (127.5, 211.4, 6.4), THEIRS | {"III-5"}),
    ("Vegas", (17.0, 211.4, 5.16), THEIRS | {"V-7"}),
    (SIRA_H, (17.87, 90.2, 6.28), {"III-2", "V-2", "V-3", "V-6"}),  # 203.7 / 17.87 - 1 = 10.399, 6.28 / 6.67 = 0.942
    (SIRA_H, (17.8, 100.1, 6.24), THEIRS | {"V-5"}),
    (SIRA_H, (17.8, 74.0, 6.24), {"III-2", "V-4"}),                # 363.3 / 74 - 1 = 3.909
])  # fmt: skip
def test_a_figure_beyond_its_bound_differs(
    name: str, figures: tuple[float, float, float], statements: set[str]
) -> None:
    assert differing({name: figures}) == statements


@pytest.mark.parametrize("effect", [0.0, -1.0])
def test_a_parameter_without_effect_or_with_the_opposite_one_differs(effect: float) -> None:
    assert differing(effect=effect) == THEIRS | {"V.D-1", "V.D-2", "V.D-3", "V.D-4"}


def test_a_rise_must_exceed_its_interval() -> None:
    """Differences of 0 to 4 have a mean of 2, and 2.776 sqrt(2.5 / 5) = 1.96 beside it."""
    values, zero = np.arange(5.0), np.zeros(5)
    assert rises("", values, zero).agrees
    assert not rises("", values - 0.1, zero).agrees


@pytest.mark.parametrize(("counts", "share"), [((50, 58), 1.0), ((50, 59), 0.0), ((50, 50, 59), 1 / 3)])
def test_neighbouring_intervals_differ_by_less_than_a_megabit(counts: tuple[int, ...], share: float) -> None:
    """In 100 ms 8 packets more are 0.96 Mbit/s, and 9 are 1.08."""
    tenths = np.resize(counts, 301)
    times_ms = np.repeat(np.arange(len(tenths)) * 100, tenths).astype(np.uint32)
    segment = Recording("a", "made", Trace("a", times_ms, 100 * len(tenths)), (), ("a",))
    assert share_below(segment, 100) == pytest.approx(share, abs=0.01)


def test_links_that_vary_more_than_the_papers_differ() -> None:
    shares = {}
    for name, counts in (("recorded", (50, 58)), ("made", (50, 59))):
        times_ms = np.repeat(np.arange(60_000) * 100, np.resize(counts, 60_000)).astype(np.uint32)
        shares[name] = [Recording(name, name, Trace(name, times_ms, 6_000_000), (), (name,))]
    rows = judge(REPORT, REPORT.chosen(["variation"]), Results(settings(), {}, Links(shares)))
    assert [(row["statement"], row["at"]) for row in rows if not row["agrees"]] == [("IV-2", "made")]
