# SPDX-License-Identifier: MIT
"""The picture of a run: that it shows what the run gave, with units, for one flow and for many."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from emulation.errors import EmulationError
from emulation.run.plot import draw_run, make_figure
from emulation.run.qos import SERIES
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Policer
from tests.emulation.tables import ensemble_of, table_of
from tests.figures import is_inside

LINK = LinkSpec(rate_mbps=20)


def figure_of(*flows: FlowSpec, duration_s: float = 10, warmup_s: float = 0) -> Figure:
    scenario = Scenario(link=LINK, flows=flows, duration_s=duration_s, warmup_s=warmup_s)
    return make_figure(scenario, simulate(scenario, series_every_s=0.05))


def legend_words(figure: Figure) -> list[str]:
    assert len(figure.legends) == 1
    return [text.get_text() for text in figure.legends[0].get_texts()]


def table() -> str:
    return table_of(ensemble_of(((20_000,), (60_000,)) * 40, classes_ms=(50, 120), epoch_ms=3000))


def test_panels_say_what_they_show_and_in_which_unit() -> None:
    labels = [axes.get_ylabel().replace("\n", " ") for axes in figure_of(FlowSpec()).axes]
    assert labels == [
        "throughput (Mbit/s)",
        "queueing delay (ms)",
        "RTT (ms)",
        "cwnd (packets)",
        "pacing rate (Mbit/s)",
        "retransmitted (packets/s)",
        "state (flow)",
    ]


def test_policer_shows_its_drops_over_time() -> None:
    link = LinkSpec(rate_mbps=20, behind=(Policer(rate_mbps=2, bucket_bytes=300_000),))
    scenario = Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=10)
    qos = simulate(scenario, series_every_s=0.05)
    figure = make_figure(scenario, qos)
    drops = figure.axes[6]
    assert drops.get_ylabel().replace("\n", " ") == "drops (packets/s)"
    assert {"dropped: policer"} <= set(legend_words(figure))
    # Bars of 0.1 s: their sum is what the policer dropped.
    heights = [patch.get_height() for patch in drops.patches if isinstance(patch, Rectangle)]
    assert sum(heights) * 0.1 == pytest.approx(qos.elements[-1].dropped, rel=0.01)
    assert qos.elements[-1].dropped > 50


def test_lines_hold_what_the_run_gave() -> None:
    throughput, _, rtt, *_ = figure_of(FlowSpec(cca="fixed", params={"cwnd_pkts": 300})).axes
    assert np.nanmedian(np.asarray(throughput.lines[0].get_ydata(), dtype=float)) == pytest.approx(20, rel=0.02)
    # 300 packets of 0.6 ms are 180 ms: 100 on the way, the rest in the queue.
    assert np.nanmedian(np.asarray(rtt.lines[0].get_ydata(), dtype=float)) == pytest.approx(180, rel=0.02)
    low, high = rtt.get_ylim()
    assert low < 100
    assert high > 180


def test_retransmissions_add_up_to_what_was_resent() -> None:
    flow = FlowSpec(cca="reno")
    scenario = Scenario(link=LinkSpec(rate_mbps=20, buffer_pkts=50), flows=(flow,), duration_s=30)
    qos = simulate(scenario, series_every_s=0.1)
    assert qos.dropped > 0
    assert qos.series["retransmitted_pkts"].sum() == round(qos.retransmission_rate * qos.sent)
    line = make_figure(scenario, qos).axes[5].lines[0]
    resent = np.asarray(line.get_ydata(), dtype=float).sum() * 0.1
    assert resent == pytest.approx(qos.series["retransmitted_pkts"].sum(), rel=1e-6)


def test_a_run_of_a_kernel_which_tells_no_modes_has_no_panel_of_states() -> None:
    scenario = Scenario(link=LINK, flows=(FlowSpec(ensemble_text=table()),), duration_s=10)
    qos = simulate(scenario, series_every_s=0.05)
    told = {name: values for name, values in qos.series.items() if name in SERIES}
    figure = make_figure(scenario, dataclasses.replace(qos, series=told))
    assert len(figure.axes) == 6
    assert figure.axes[-1].get_xlabel() == "time (s)"
    assert not {"cruise", "state of the epoch"} & set(legend_words(figure))


def test_one_legend_names_each_flow_once() -> None:
    words = legend_words(figure_of(FlowSpec(), FlowSpec(cca="reno", start_s=2)))
    assert words[:3] == ["link capacity", "flow 1: gr", "flow 2: reno"]
    assert {"95th percentile", "slow start", "cruise"} <= set(words)
    assert "target delay" not in words
    assert len(words) == len(set(words))


def test_nothing_is_cut_off_by_many_entries_or_a_long_name() -> None:
    ccas = ("rtcp_cubic", "rtcp_bbr", "rtcp_bbr3", "gr", "bbr3", "cubic", "bbr")
    scenario = Scenario(
        name="a long name " * 20,
        link=LinkSpec(rate_mbps=20, behind=(Policer(rate_mbps=2, bucket_bytes=300_000),)),
        flows=tuple(FlowSpec(cca=cca) for cca in ccas),
        duration_s=3,
    )
    assert is_inside(make_figure(scenario, simulate(scenario, series_every_s=0.05)))


def test_the_legend_names_no_mode_of_flows_that_are_not_in_the_panel_of_states() -> None:
    words = legend_words(figure_of(*[FlowSpec()] * 6, FlowSpec(cca="reno"), duration_s=2))
    assert "cruise" in words
    assert not {"congestion avoidance", "recovery"} & set(words)


def test_many_flows_stay_legible() -> None:
    figure = figure_of(*[FlowSpec()] * 20, duration_s=3)
    words = legend_words(figure)
    assert "and 14 more" in words
    assert len(words) < 14
    assert len(figure.axes[0].lines) == 20


def test_ensemble_shows_its_target_and_the_states_of_its_epochs() -> None:
    figure = figure_of(FlowSpec(ensemble_text=table(), delay_class=1), duration_s=16)
    assert {"target delay", "state of the epoch"} <= set(legend_words(figure))
    assert any(np.allclose(np.asarray(line.get_ydata(), dtype=float), 120) for line in figure.axes[1].lines)
    states = [text.get_text().strip() for text in figure.axes[6].texts]
    assert len(states) >= 4
    # 20 Mbit/s of wire bytes are 2.41 MB/s of data: level 19.
    assert states[-1] == "19"


def test_flow_is_drawn_only_while_it_runs() -> None:
    figure = figure_of(FlowSpec(), FlowSpec(start_s=4, stop_s=7))
    line = figure.axes[3].lines[1]
    time_s, cwnd_pkts = (np.asarray(data, dtype=float) for data in (line.get_xdata(), line.get_ydata()))
    shown_s = time_s[np.isfinite(cwnd_pkts)]
    assert 4 <= shown_s.min() < 4.5
    assert 6.5 < shown_s.max() <= 7.01


def test_rare_peak_is_told_instead_of_flattening_the_rest() -> None:
    figure = figure_of(FlowSpec(), duration_s=60)
    pacing = figure.axes[4]
    assert pacing.get_ylim()[1] < 60
    assert next(text.get_text() for text in pacing.texts).startswith("peak ")


def test_flows_without_pacing_leave_an_empty_panel() -> None:
    pacing = figure_of(FlowSpec(cca="reno")).axes[4]
    assert [text.get_text() for text in pacing.texts] == ["none"]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_picture_is_of_the_kind_asked_for(tmp_path: Path, suffix: str, start: bytes) -> None:
    scenario = Scenario(link=LINK, duration_s=2, warmup_s=1)
    file = tmp_path / f"run.{suffix}"
    draw_run(scenario, simulate(scenario, series_every_s=0.1), path=file)
    assert file.read_bytes().startswith(start)


def test_run_without_samples_is_refused(tmp_path: Path) -> None:
    scenario = Scenario(link=LINK, duration_s=2)
    with pytest.raises(EmulationError, match="expected a run with samples"):
        draw_run(scenario, simulate(scenario), path=tmp_path / "run.png")


def test_picture_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.png").mkdir()
    scenario = Scenario(link=LINK, duration_s=2)
    with pytest.raises(EmulationError, match=r"run\.png: cannot be written"):
        draw_run(scenario, simulate(scenario, series_every_s=0.1), path=tmp_path / "run.png")


def test_simulating_without_a_picture_does_not_import_matplotlib() -> None:
    code = "import emulation.cli, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
