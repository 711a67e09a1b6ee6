# SPDX-License-Identifier: MIT
"""Statistics of runs: known values, Pantheon's text, and the verdicts of the analysis."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from emulation.errors import EmulationError
from emulation.mahimahi.logs import Departures, Events, FlowEvents, TunnelLog, log_path
from emulation.pantheon.analysis import analyse, analyse_log, performance, to_json
from emulation.pantheon.metadata import Metadata, write_metadata
from emulation.pantheon.statistics import run_statistics, statistics_text, summarise, update_stats_log
from tests.emulation.pantheon.folders import make_folder

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
# Opportunities for 12 Mbit/s during 4 s. Flow 1 sends a packet each 2 ms during 2 s, and each tenth is lost. Flow 2 has
# three packets.
SLOTS_MS = np.arange(4001.0)
SENT_MS = np.arange(0.0, 2000.0, 2.0)
LEFT = np.arange(1000) % 10 != 9
FLOW_1_DELAY_MS = 20 + np.arange(900) / 100
LOG = TunnelLog(
    0.0,
    Events(SLOTS_MS, np.full(4001, 1500)),
    FlowEvents(
        np.concatenate([SENT_MS, [3000.0, 3500.0, 3990.0]]),
        np.concatenate([np.full(1000, 1500), [1500, 1500, 1500]]),
        np.concatenate([np.full(1000, 1), [2, 2, 2]]),
    ),
    Departures(
        np.concatenate([SENT_MS[LEFT] + 20, [3050.0, 3550.0]]),
        np.concatenate([np.full(900, 1500), [1500, 1500]]),
        np.concatenate([FLOW_1_DELAY_MS, [50.0, 50.0]]),
        np.concatenate([np.full(900, 1), [2, 2]]),
    ),
)
TEXT = """-- Total of 2 flows:
Average capacity: 12.00 Mbit/s
Average throughput: 3.07 Mbit/s (25.5% utilization)
95th percentile per-packet one-way delay: 28.560 ms
Loss rate: 10.07%
-- Flow 1:
Average throughput: 5.41 Mbit/s
95th percentile per-packet one-way delay: 28.540 ms
Loss rate: 10.00%
-- Flow 2:
Average throughput: 0.05 Mbit/s
95th percentile per-packet one-way delay: 50.000 ms
Loss rate: 33.33%
"""


def test_statistics_have_their_closed_form_values() -> None:
    statistics = run_statistics(LOG)
    # 4001 opportunities within 4000 ms.
    assert statistics.capacity_mbps == pytest.approx(4001 * 1500 * 8 / 4e6)
    # The last departure of flow 1 is of the packet that was sent at 1996 ms.
    assert statistics.flows[1].throughput_mbps == pytest.approx(900 * 1500 * 8 / 1996e3)
    assert statistics.flows[1].ingress_mbps == pytest.approx(1000 * 1500 * 8 / 1998e3)
    assert statistics.flows[1].loss == pytest.approx(0.1)
    assert statistics.flows[2].throughput_mbps == pytest.approx(2 * 1500 * 8 / 500e3)
    assert statistics.total.throughput_mbps == pytest.approx(902 * 1500 * 8 / 3530e3)
    assert statistics.total.loss == pytest.approx(1 - 902 / 1003)
    assert statistics.duration_ms == 3530
    # The nearest rank of 0 to 899 is 0.95 * 899 = 854.05.
    assert statistics.flows[1].delay_p95_ms == FLOW_1_DELAY_MS[854]


def test_the_text_is_pantheons() -> None:
    assert statistics_text(run_statistics(LOG)) == TEXT


def test_a_log_without_departures_has_no_delay_and_loses_everything() -> None:
    none = Departures(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64))
    statistics = run_statistics(TunnelLog(0.0, LOG.capacity, LOG.entered, none))
    assert statistics.total.throughput_mbps == 0
    assert statistics.total.delay_p95_ms is None
    assert statistics.total.loss == 1
    assert statistics.flows[1].loss is None
    assert "-- Flow 2:\nAverage throughput: 0.00 Mbit/s\n" in statistics_text(statistics)


def test_the_summary_of_runs_is_mean_and_sample_deviation() -> None:
    one = run_statistics(LOG)
    slower = run_statistics(
        TunnelLog(0.0, LOG.capacity, LOG.entered, Departures(LOG.left.times_ms * 2, *columns_after_time(LOG.left)))
    )
    both = summarise([one, slower]).throughput_mbps
    assert both is not None
    rate = one.total.throughput_mbps
    assert (both.mean, both.n) == (pytest.approx(rate * 0.75), 2)
    assert both.sd == pytest.approx(rate * 0.25 * np.sqrt(2))
    assert summarise([]).throughput_mbps is None
    assert set(summarise([one]).flows) == {1, 2}


def columns_after_time(left: Departures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return left.bytes, left.delay_ms, left.flow


def test_the_series_has_the_rate_of_each_bin_and_nothing_outside_a_flow() -> None:
    series = analyse_log(LOG)
    assert series is not None
    assert series.start_s.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert series.capacity_mbps == pytest.approx(12, rel=0.003)
    # 250 packets in a bin, each tenth lost; the first bin lacks 10 departures, because the delay is 20 ms.
    assert series.flows[1].throughput_mbps[1] == pytest.approx(225 * 1500 * 8 / 500e3)
    assert series.flows[1].throughput_mbps[0] == pytest.approx(216 * 1500 * 8 / 500e3)
    assert np.isfinite(series.flows[1].ingress_mbps).tolist() == [True] * 4 + [False] * 4
    assert np.isfinite(series.flows[2].delay_p95_ms).tolist() == [False] * 6 + [True] * 2
    assert series.flows[1].point_delay_ms.max() == FLOW_1_DELAY_MS.max()


def test_each_run_of_a_folder_has_its_verdict(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data")
    damaged = log_path(folder, scheme="cubic", run=2, kind="datalink")
    damaged.write_text(damaged.read_text()[:-4])
    log_path(folder, scheme="cubic", run=3, kind="datalink").unlink()
    analysis = analyse(folder)
    verdicts = {s.scheme: [(run.verdict, run.reason) for run in s.runs] for s in analysis.schemes}
    assert verdicts["bbr"] == [("ok", ""), ("ok", ""), ("failed", "crashed: the receiver exited with status 1")]
    assert [verdict for verdict, _ in verdicts["gr"]] == ["ok", "too short", "ok"]
    assert "s of 4 s" in verdicts["gr"][1][1]
    assert [verdict for verdict, _ in verdicts["cubic"]] == ["ok", "damaged", "missing"]
    assert "cubic_datalink_run2.log, line " in verdicts["cubic"][1][1]
    assert verdicts["cubic"][2][1] == "there is no cubic_datalink_run3.log"
    bbr = next(scheme for scheme in analysis.schemes if scheme.scheme == "bbr")
    assert bbr.summary.throughput_mbps is not None
    assert bbr.summary.throughput_mbps.n == 2


def test_json_and_performance_hold_the_valid_runs(tmp_path: Path) -> None:
    analysis = analyse(make_folder(tmp_path / "data"))
    document = json.loads(json.dumps(to_json(analysis), allow_nan=False))
    assert document["schemes"]["gr"]["valid_runs"] == 2
    assert document["schemes"]["gr"]["runs"]["2"]["verdict"] == "too short"
    assert len(document["schemes"]["cubic"]["runs"]["1"]["series"]["flows"]["2"]["throughput_mbps"]) == 8
    found = performance(analysis, {})
    assert set(found["bbr"]) == {"1", "2"}
    assert set(found["bbr"]["1"]) == {"all", "1", "2"}
    run = analysis.schemes[0].runs[0]
    assert run.statistics is not None
    assert found[run.scheme]["1"]["all"]["tput"] == run.statistics.total.throughput_mbps


def test_only_known_schemes_are_analysed(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", runs=1)
    assert [scheme.scheme for scheme in analyse(folder, schemes=["gr"]).schemes] == ["gr"]
    with pytest.raises(EmulationError, match="expected schemes among bbr, cubic, gr, got copa"):
        analyse(folder, schemes=["copa"])


def test_without_a_tunnel_the_log_of_mm_link_is_analysed(tmp_path: Path) -> None:
    lines = "".join(f"{ms} + 1504\n{ms + 20} # 1504\n{ms + 20} - 1504 20\n" for ms in range(0, 1000, 50))
    path = log_path(tmp_path, scheme="cubic", run=1, kind="mm_datalink")
    path.write_text(f"# init timestamp: 9\n{lines}")
    about = Metadata(cc_schemes=("cubic",), run_times=1, flows=0, runtime=1, uplink_trace="a", downlink_trace="a")
    write_metadata(about, tmp_path)
    (run,) = analyse(tmp_path).schemes[0].runs
    assert run.verdict == "ok"
    assert run.statistics is not None
    assert run.statistics.total.throughput_mbps == pytest.approx(20 * 1504 * 8 / 950e3)
    assert run.statistics.total.delay_p95_ms == 20


def test_the_statistics_log_keeps_its_times_and_replaces_its_statistics(tmp_path: Path) -> None:
    path = tmp_path / "cubic_stats_run1.log"
    times = "Start at: 2026-03-01 12:00:00\nEnd at: 2026-03-01 12:00:30\n"
    path.write_text(times)
    statistics = run_statistics(LOG)
    for _ in range(2):
        update_stats_log(path, statistics, now=NOW)
    head = "\n# Below is generated by ccatune at 2026-03-02 08:30:00\n# Datalink statistics\n"
    assert path.read_text() == times + head + TEXT
