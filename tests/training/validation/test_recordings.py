# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from links import constant, recording, study

from kmod.ensemble import Ensemble
from tests.figures import is_inside
from training.errors import TrainingError
from training.reports.gain import gain_figure, gain_lines, level_lines
from training.study import Study
from training.validation.against import against_figure, against_lines
from training.validation.recordings import Path as LinkPath
from training.validation.recordings import flow_places, validate

UNSEEN = [recording("c", seed=3, seconds=90, dataset="one"), recording("d", seed=4, seconds=60, dataset="other")]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(study(), [recording("a", seed=1), recording("b", seed=2)], threads=2).run()


@pytest.fixture(scope="module")
def figures(trained: Ensemble) -> dict[str, object]:
    return validate(trained, UNSEEN)


def test_the_pooled_figures_of_each_target_are_there(figures: dict) -> None:
    assert [row["target_ms"] for row in figures["targets"]] == [50, 100]
    for row in (*figures["targets"], *figures["single"], *figures["default"]):
        assert 0 < row["utilization"] <= 1
        assert row["p95_queueing_delay_ms"] > 0
        assert row["meets"] == (row["p95_queueing_delay_ms"] <= row["target_ms"])


def test_throughput_over_all_is_what_the_datasets_carry_by_their_time(figures: dict) -> None:
    for i in (0, 1):
        parts = [figures["datasets"][name]["ensemble"][i]["throughput_mbps"] for name in ("one", "other")]
        assert figures["targets"][i]["throughput_mbps"] == pytest.approx(
            (90 * parts[0] + 60 * parts[1]) / 150, rel=0.01
        )


def test_every_scheme_is_judged_on_the_same_windows_of_a_level(figures: dict) -> None:
    assert figures["levels"]
    for row in figures["levels"]:
        assert row["windows"] >= 5
        low, high = row["ensemble"]["p95_queueing_delay_ms_interval"]
        assert low <= row["ensemble"]["p95_queueing_delay_ms"] <= high or low == high
    for met in figures["levels_met"]:
        assert max(met[name] for name in ("ensemble", "single", "default")) <= met["levels"]


def test_levels_are_told_apart_by_whether_the_single_set_meets_its_target_there(figures: dict) -> None:
    for i, met in enumerate(figures["levels_met"]):
        rows = [row for row in figures["by_single"] if row["target_ms"] == met["target_ms"]]
        assert sum(row["levels"] for row in rows) == met["levels"]
        assert sum(row["levels"] for row in rows if row["single_meets"]) == met["single"]
        assert 0 < sum(row["share_of_capacity"] for row in rows) <= 1 + 1e-9
        assert {row["target_ms"] for row in rows} == {figures["targets"][i]["target_ms"]}


def test_judging_again_gives_the_same_figures_on_any_number_of_threads(trained: Ensemble, figures: dict) -> None:
    assert validate(trained, UNSEEN, threads=1) == figures


def test_an_ensemble_whose_rows_are_the_defaults_does_as_the_defaults_do(trained: Ensemble) -> None:
    flat = replace(trained, rows=((100_000, 10_000, 50_000),) * len(trained.rows))
    found = validate(flat, [constant(4.0, seconds=60)])
    for row, default in zip(found["targets"], found["default"], strict=True):
        assert row["throughput_mbps"] == default["throughput_mbps"]
        assert row["p95_queueing_delay_ms"] == default["p95_queueing_delay_ms"]


def test_the_path_is_the_one_that_was_asked_for(trained: Ensemble, figures: dict) -> None:
    assert validate(trained, UNSEEN, path=LinkPath(rtt_ms=20.0))["targets"] != figures["targets"]


def test_flows_of_ten_minutes_are_as_many_as_asked_for_and_spread_over_a_recording() -> None:
    hour = constant(4.0, seconds=3600)
    assert [start_s for _, start_s in flow_places([hour], most=3)] == [480, 1500, 2520]
    assert len(flow_places([hour], most=60)) == 60  # 51 of them start a minute apart, so these do half a minute


def test_an_ensemble_without_its_single_sets_and_no_recordings_are_refused(trained: Ensemble) -> None:
    with pytest.raises(TrainingError, match="expected validation recordings, got none"):
        validate(trained, [])
    with pytest.raises(TrainingError, match="expected an ensemble with its best single sets"):
        validate(replace(trained, provenance={}), UNSEEN)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rtt_ms": 1e9}, "rtt_ms: expected less than or equal to 60000"),
        ({"rtt_ms": float("nan")}, "rtt_ms: expected"),
        ({"loss": float("nan")}, "loss: expected"),
        ({"buffer_pkts": 99_999_999_999}, "buffer_pkts: expected less than 4294967296"),
    ],
)
def test_a_path_that_no_link_has_is_refused(value: dict, message: str) -> None:
    with pytest.raises(TrainingError, match=f"path: {message}"):
        LinkPath(**value)


def test_the_picture_and_the_tables_hold_every_scheme(figures: dict) -> None:
    flows = {"flows": 2, "flows_within": 0.5, "flows_utilization": 0.9, "flows_p95_ms": [20.0, 120.0]}
    schemes = ("targets", "single", "default")
    with_flows = figures | {scheme: [{**row, **flows} for row in figures[scheme]] for scheme in schemes}
    one_level = with_flows | {
        "levels": [row for row in figures["levels"] if row["level"] == figures["levels"][0]["level"]]
    }
    for shown, panels in ((figures, 2), (with_flows, 2), (one_level, 1), (figures | {"levels": []}, 1)):
        figure = gain_figure(shown)
        assert is_inside(figure)
        assert len(figure.axes) == panels
        assert all(axes.lines for axes in figure.axes)
        # Neither a text nor a legend covers a mark.
        assert not any(axes.texts for axes in figure.axes)
        boxes = [axes.get_window_extent() for axes in figure.axes]
        assert not any(legend.get_window_extent().overlaps(box) for legend in figure.legends for box in boxes)
    assert gain_lines(with_flows)[0] == "flows that meet their target: default 50%, best single set 50%, ensemble 50%"
    lines = [*gain_lines(figures), *gain_lines(with_flows), *level_lines(figures)]
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    for name in ("default", "best single set", "ensemble"):
        assert name in text


def test_schemes_on_real_kernels_are_drawn_with_their_names() -> None:
    measured = {"gr-50ms": (4.8, 45), "gr-100ms": (5.4, 92), "cubic": (5.7, 640)}
    rows = [
        {"scheme": scheme, "throughput_mbps": mbps, "utilization": mbps / 6, "p95_queueing_delay_ms": delay_ms,
         "median_queueing_delay_ms": delay_ms / 2, "loss": 0.01, "flows_within": 0.75 if scheme == "gr-50ms" else None}
        for scheme, (mbps, delay_ms) in measured.items()
    ]  # fmt: skip
    figures = {"pieces": 4, "piece_s": 30, "runs": 1, "schemes": rows}
    figure = against_figure(figures)
    assert is_inside(figure)
    assert [line.split()[-1] for line in against_lines(figures)[2:]] == ["75%", "1.00%", "1.00%"]
    (axes,) = figure.axes
    assert axes.get_title("left") == against_lines(figures)[0] == "on real kernels, 4 pieces of 30 s, 1 run each"
    assert {"GR 50 ms", "GR 100 ms", "CUBIC", "link capacity 6"} <= {text.get_text() for text in axes.texts}
