# SPDX-License-Identifier: MIT
"""The campaign on a small scale, and its settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from emulation import EmulationError, simulate_many
from emulation.scenario.path import Policer
from experiments.policing import PolicingSettings, judge, load_settings, rates_table, run_campaign
from experiments.policing.campaign import CCAS, Case, first_constant_s, scenario_of
from experiments.policing.plot import draw, make_figure
from tests.figures import is_inside

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "policing.yaml"
LARGEST_AGAIN_BYTES = 8_000_000  # of the document's table: larger files take as long again as all of these
SMALL = {"access_mbps": [50], "seeds": 5, "longer_rtts_ms": [40, 120],
         "sizes_bytes": [500_000, 1_000_000, 2_000_000, 4_000_000]}  # fmt: skip


def settings(**changes: object) -> PolicingSettings:
    return PolicingSettings.model_validate({**load_settings(CONFIG).model_dump(), **changes})


def test_the_configuration_holds_what_the_issue_names() -> None:
    found = load_settings(CONFIG)
    assert (found.rate_mbps, found.bucket_bytes, found.rtt_ms) == (2.07, 733_000, 36)
    assert found.access_mbps == (20, 50, 100)
    assert found.longer_rtts_ms == (40, 120, 200)
    assert found.seeds >= 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"access_mbps": [50, 20]}, "expected access_mbps ascending"),
        ({"bucket_bytes": 400_000}, "expected the first size alone below the bucket"),
        ({"seeds": 4}, "expected at least 5, .*; got 4"),
        ({"seeds": 10_001}, "less than or equal to 10000"),
        ({"policer": "inside"}, "'before' or 'behind'"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changes)


def test_a_file_of_settings_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"none\.yaml: cannot be read"):
        load_settings(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("seeds: many\n", encoding="utf-8")
    with pytest.raises(EmulationError, match=r"bad\.yaml: rate_mbps: expected it, got nothing"):
        load_settings(tmp_path / "bad.yaml")
    text = CONFIG.read_text(encoding="utf-8")
    (tmp_path / "few.yaml").write_text(text.replace("seeds: 20", "seeds: 2"), encoding="utf-8")
    with pytest.raises(EmulationError, match=r"few\.yaml: seeds: expected at least 5, .*; got 2"):
        load_settings(tmp_path / "few.yaml")
    (tmp_path / "odd.yaml").write_text(text + "wide: 1\n", encoding="utf-8")
    with pytest.raises(EmulationError, match=r"odd\.yaml: wide: expected one of rate_mbps, .*, seeds, got 1"):
        load_settings(tmp_path / "odd.yaml")


@pytest.mark.parametrize("policer", ["before", "behind"])
def test_the_policer_is_where_the_settings_have_it(policer: str) -> None:
    link = scenario_of(settings(policer=policer), Case("bbr", 20, 36, 1_000_000), seed=3).link
    assert [isinstance(element, Policer) for element in (*link.before, *link.behind)][:1] == [True]
    assert bool(link.before) == (policer == "before")


def test_a_small_campaign_is_the_same_again_and_draws(tmp_path: Path) -> None:
    results = run_campaign(settings(**SMALL), threads=1)
    rows = judge(results)
    assert judge(run_campaign(settings(**SMALL), threads=2)) == rows
    assert {row["access_mbps"] for row in rows} == {50}
    assert all(files.incomplete == 0 for files in results.files.values())
    # The bucket is larger than the smallest file, and the jitter makes seeds differ.
    assert all(row["agrees"] for row in rows if row["statement"] in {"3.1-1", "3.1-2", "B-1"})
    rates = results.files[Case("bbr3", 50, 36, 2_000_000)].retransmission_rate
    assert rates[0] != rates[1]
    draw(results, path=tmp_path / "policing.png")
    assert (tmp_path / "policing.png").stat().st_size > 10_000
    figure = make_figure(results)
    assert is_inside(figure)
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        assert bottom == 0
        # The last line marks the bucket.
        assert all(float(np.max(line.get_ydata())) < top for line in axes.lines[:-1])


def test_the_table_has_a_row_for_each_access_rate_and_algorithm() -> None:
    results = run_campaign(settings(**SMALL), threads=1)
    head, rule, *rows = rates_table(results)
    assert head == "| access | algorithm | 0.5 MB | 1 | 2 | 4 |"
    assert rule == "| --- | --- | --- | --- | --- | --- |"
    assert [row.split(" | ")[:2] for row in rows] == [["| 50 Mbit/s", "CUBIC"], ["|", "BBRv1"], ["|", "BBRv3*"]]
    rate = results.files[Case("bbr", 50, 36, 4_000_000)].retransmission_rate.mean()
    assert rows[1].endswith(f" | {100 * rate:.1f} |")


def test_the_documents_table_is_of_this_engine() -> None:
    """Its one decimal, but of the largest files. `python -m experiments policing --markdown` prints it anew."""
    document = (CONFIG.parents[2] / "docs" / "policing.md").read_text(encoding="utf-8")
    head, _, *rows = [line for line in document.splitlines() if line.startswith("| ")]
    sizes_bytes = [round(float(name.removesuffix(" MB")) * 1e6) for name in head.strip("| ").split(" | ")[2:]]
    assert tuple(sizes_bytes) == settings().sizes_bytes
    cases = [(access_mbps, cca) for access_mbps in settings().access_mbps for cca in CCAS]
    for (access_mbps, cca), row in zip(cases, rows[: len(cases)], strict=True):  # the first table
        written = [float(cell) for cell in row.strip("| ").split(" | ")[-len(sizes_bytes) :]]
        for size_bytes, rate in zip(sizes_bytes, written, strict=True):
            if size_bytes > LARGEST_AGAIN_BYTES:
                continue
            case = Case(cca, access_mbps, settings().rtt_ms, size_bytes)
            scenarios = [scenario_of(settings(), case, seed=seed) for seed in range(settings().seeds)]
            found = np.mean([qos.flows[0].retransmission_rate for qos in simulate_many(scenarios)])
            assert 100 * found == pytest.approx(rate, abs=0.051), case


def test_a_value_is_constant_from_its_last_change_on() -> None:
    time_s = np.arange(1, 101) / 100
    values = np.where(time_s <= 0.3, time_s, 5.0)
    assert first_constant_s(time_s, values, least_s=0.5, from_s=0.1) == pytest.approx(0.31)
    assert first_constant_s(time_s, values, least_s=0.5, from_s=0.4) == pytest.approx(0.4)
    assert np.isnan(first_constant_s(time_s, values, least_s=0.8, from_s=0.1))
    assert np.isnan(first_constant_s(time_s, values, least_s=0.1, from_s=float("nan")))
