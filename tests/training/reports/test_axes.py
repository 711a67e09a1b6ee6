# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from links import recording, write_traces

from emulation.run.simulator import simulate
from training.errors import TrainingError
from training.reports.axes import AXES, PATHS, TARGETS_MS, PathEpoch, Runs, axis_values, draw_epochs, price
from training.reports.cli import report


def made(seed: int) -> Runs:
    """Epochs on two paths, which the gap between ACKs alone tells apart. Two of four sets are right on each of them.

    Of the right sets one carries 90 % with 4 % of it late, the other one 95 % with 9 %. Wrong sets carry 50 % with 1 %.
    """
    rng = np.random.default_rng(seed)
    paths = np.arange(200) % 2
    values = rng.uniform(size=(200, len(AXES)))
    values[:, AXES.index("ack_gap")] += 10 * paths
    right = np.repeat(paths[:, None, None] == np.array([0, 1, 0, 1]), len(TARGETS_MS), axis=1)
    delivered = np.where(right, [90.0, 90.0, 95.0, 95.0], 50.0)
    late = np.where(right, [0.04, 0.04, 0.09, 0.09], 0.01)
    return Runs(values, paths, np.full(200, 100.0), delivered, delivered * late)


def test_an_axis_is_worth_what_its_levels_gain_over_one_set_at_five_percent_late() -> None:
    # Prices below 5 / 4.95 choose the later ones: the line goes from 90 % with 3.6 late to 95 % with 8.55 late.
    # One set: from 70 with 2.05 late (2.93 %) to 72.5 with 4.525 late (6.24 %).
    one = 0.70 + 0.025 * (5 - 205 / 70) / (452.5 / 72.5 - 205 / 70)
    rows = {row["axes"]: row for row in price(made(1), made(2), draws=20)}
    for target in rows["one set"]["targets"]:
        assert target["utilization"] == pytest.approx(one, abs=1e-4)
    for name, row in rows.items():
        tells = "ack_gap" in name or name in ("path", "best")
        for target in row["targets"]:
            assert target["utilization"] == pytest.approx(0.91 if tells else one, abs=2e-4 if tells else 0.05)
            low, high = target["gain_interval"]
            assert low > 0.1 if tells else low < 0.05 and high > -0.05


def test_a_line_that_is_always_too_late_is_worth_nothing() -> None:
    runs = made(1)
    late = Runs(runs.values, runs.paths, runs.capacity, runs.delivered, runs.delivered * 0.06)
    assert {target["utilization"] for row in price(late, late, draws=1) for target in row["targets"]} == {0.0}


def test_a_flow_tells_bunches_of_acks_and_the_shortest_rtt() -> None:
    plain, bunched = (PathEpoch(recording(seconds=70), 33_000, path) for path in (3, 7))
    for epoch, gap_ms in ((plain, 10), (bunched, 40)):
        values = dict(zip(AXES, axis_values(simulate(epoch.scenario(33_000), series_every_s=1e-3)), strict=True))
        assert values["ack_gap"] == pytest.approx(gap_ms, rel=0.5)
        assert values["min_rtt"] == pytest.approx(PATHS[epoch.path]["rtt_ms"], abs=40)


def test_recordings_without_enough_pairs_of_epochs_are_refused() -> None:
    with pytest.raises(TrainingError, match="at least 8 pairs of epochs, got 2"):
        draw_epochs([recording(seconds=100)], 20, paths=3, seed=1)


def test_the_report_prices_every_axis_and_pair(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "made", files=6, seconds=240)
    words = ["axes", "--traces", str(traces), "--epochs", "20", "--sets", "2", "--draws", "10", "--json"]
    figures = json.loads(CliRunner().invoke(report, words, catch_exceptions=False).stdout)
    assert len(figures["rows"]) == 1 + len(AXES) * (len(AXES) + 1) // 2 + 2
    assert all(0 < target["utilization"] <= 1 for row in figures["rows"] for target in row["targets"])
