# SPDX-License-Identifier: MIT
"""The report of PQSA on a small scale: its verdicts, and cases of two parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulation.run.simulator import compact_edges_us
from emulation.traces.synthetic import TraceModel, make_recordings
from experiments.campaign import Links, Results, Store, judge
from experiments.pqsa import REPORT, describe, qos_table
from experiments.pqsa.cases import GR, ONE_ROW, SHARED, ensemble_of, fairness_cases, hours_of, target_cases
from experiments.pqsa.settings import PqsaSettings, load_settings
from experiments.pqsa.statements import Columns, delay_near, outperforms, p95_ms, steadier
from kmod.ensemble import Axis, DelayClass, Ensemble
from training.errors import TrainingError

ROOT = Path(__file__).resolve().parents[2]
RUNS = 6
COLUMNS = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")
TARGETS_US = (50_000, 100_000, 200_000)


def made(delay_ms: float, mbps: float) -> Columns:
    """Runs of which all packets have about one delay; each has 2 % more throughput than the one before it."""
    edges_us = compact_edges_us()
    delays = np.zeros((RUNS, len(edges_us)))
    delays[:, np.searchsorted(edges_us, 1000 * delay_ms)] = 100
    return {"delays": delays, "mbps": mbps * 1.02 ** np.arange(RUNS)}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PqsaSettings:
    """The report's own, with few runs, and with rows whose threshold is 0.7 of their target."""
    rows = tuple((20_000, 5_000, target_us * 7 // 10) for target_us in TARGETS_US)
    table = Ensemble("gr", 30_000, 250, 25, tuple(DelayClass(95, target_us) for target_us in TARGETS_US),
                     (Axis("throughput_bytes_per_s", "linear", 125_000, 2),), COLUMNS, 2 * rows,
                     {"single": [{"values": dict(zip(COLUMNS, row, strict=True))} for row in rows]})  # fmt: skip
    ensemble = tmp_path_factory.mktemp("pqsa") / "ensemble.json"
    table.save(ensemble)
    found = load_settings(ROOT / "configs" / "reports" / "pqsa.yaml")
    fairness = found.fairness.model_copy(update={"rate_mbps": 12, "rtt_ms": (50,), "flows": (2,), "seeds": 5})
    return found.model_copy(update={"ensemble": ensemble, "runs": 5, "duration_s": 20, "rivals": ("bbr",),
                                    "fairness": fairness})  # fmt: skip


@pytest.fixture(scope="module")
def links(settings: PqsaSettings) -> Links:
    """A short made 4G link."""
    recordings = make_recordings(TraceModel.load(settings.models["4g"]), duration_s=120, count=1, seed=1)
    return Links({"4g": recordings}, made=True)


def test_the_delay_is_that_of_the_packets_of_all_runs() -> None:
    case = made(100, 5)
    case["delays"][0] = 0
    case["delays"][0, np.searchsorted(compact_edges_us(), 200_000)] = 40  # 40 of 540 packets: more than 5 %
    found_ms, drawn_ms = p95_ms(case)
    assert found_ms == pytest.approx(200, rel=0.032)
    assert {round(ms, -2) for ms in drawn_ms} == {100, 200}


@pytest.mark.parametrize(("delay_ms", "agrees"), [(70, False), (80, True), (120, True), (131, False)])
def test_a_delay_is_close_within_a_quarter_of_its_target(delay_ms: float, agrees: bool) -> None:
    assert delay_near("", made(delay_ms, 5), target_ms=100, apart=0.25).agrees is agrees


@pytest.mark.parametrize(
    ("delay_ms", "mbps", "agrees"), [(200, 9, True), (50, 4, True), (50, 9, False), (100, 5, True)]
)
def test_pqsa_outperforms_what_is_not_better_in_both(delay_ms: float, mbps: float, agrees: bool) -> None:
    figures = outperforms({GR: made(100, 5), "bbr": made(delay_ms, mbps)})
    assert [figure.agrees for figure in figures] == [agrees, agrees]


def test_delays_of_hours_are_compared_by_their_largest_quotient() -> None:
    hours = {f"{ms}": {GR: made(ms, 5), "bbr": made(ms * factor, 5)} for ms, factor in ((100, 1), (120, 2))}
    (figure,) = steadier(hours)
    assert figure.agrees
    assert figure.mean == pytest.approx(1.2, rel=0.05)
    assert not steadier({at: {GR: its["bbr"], "bbr": its[GR]} for at, its in hours.items()})[0].agrees
    assert steadier({"100": hours["100"]}) == []


def test_an_ensemble_of_one_level_is_refused(settings: PqsaSettings, tmp_path: Path) -> None:
    table = ensemble_of(settings)
    one = replace(table, axes=(replace(table.axes[0], count=1),), rows=table.rows[: len(table.classes)])
    one.save(tmp_path / "one.json")
    with pytest.raises(TrainingError, match=r"one\.json: expected .* several throughput levels, got one"):
        list(fairness_cases(settings.model_copy(update={"ensemble": tmp_path / "one.json"}), Links()))


def test_hours_are_the_folders_of_recordings(links: Links) -> None:
    assert hours_of(links.recordings["4g"]) == {}


def test_a_stricter_target_has_a_shorter_delay(settings: PqsaSettings, links: Links) -> None:
    results = Results(settings, Store().run(target_cases(settings, links)), links)
    rows = {row["statement"]: row for row in judge(REPORT, REPORT.chosen(["targets"]), results)}
    delays_ms = [figure["mean"] for figure in rows["IV-1"]["figures"]]
    assert delays_ms == sorted(delays_ms)
    assert delays_ms[0] < 0.6 * delays_ms[2]
    assert rows["IV-2"]["agrees"]
    assert len(qos_table(results, part="target")) == 2 + 3
    assert "made" in describe(results)


def test_a_share_gain_makes_two_flows_share_the_link(settings: PqsaSettings, links: Links) -> None:
    """Without it the shares stay those with which the flows met (kmod/core/gr.h, share)."""
    cases = Store().run(fairness_cases(settings, links))
    without, with_gain = (cases["fairness", "50", "2", name]["jain"] for name in (ONE_ROW, SHARED))
    assert with_gain.min() > 0.95
    assert without.mean() < 0.9
    (row,) = (row for row in judge(REPORT, REPORT.chosen(["fairness"]), Results(settings, cases, links))
              if row["statement"] == "target-1")  # fmt: skip
    assert row["agrees"]
