# SPDX-License-Identifier: MIT
"""Schemes over real links: each judged by what it did, and nothing of it left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import ccatune
from emulation.errors import EmulationError
from emulation.mahimahi.logs import Departures, Events, FlowEvents, TunnelLog, log_path, read_log
from emulation.pantheon.metadata import read_metadata
from emulation.pantheon.runner import Verdict, judge
from emulation.pantheon.scenarios import run_scenarios
from emulation.pantheon.statistics import run_statistics
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath
from tests.emulation.pantheon.checkout import RUNS, make_checkout
from tests.emulation.real_links.test_real_links import below

EMULATOR = """\
name: tiny
source: Made for this test.
uplink: {rate_mbps: 6}
downlink: {rate_mbps: 6}
delay_ms: 20
queue_pkts: 50
"""


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CCATUNE_SCHEMES", str(tmp_path / "schemes"))
    path = tmp_path / "tiny.yaml"
    path.write_text(EMULATOR)
    return path


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(ccatune.cli, ["pantheon", *map(str, words)])


def test_a_crash_is_the_reason_also_if_the_other_end_ended_before() -> None:
    empty = np.zeros(0)
    nothing = TunnelLog(0.0, Events(empty, empty), FlowEvents(empty, empty, empty), Departures(*[empty] * 4))
    ends = [
        {"role": "receiver", "flow": 1, "ended_s": 1.0, "status": 0, "output": ""},
        {"role": "sender", "flow": 1, "ended_s": 1.1, "status": 3, "output": "no luck"},
    ]
    found = judge(ends, nothing, flows=1)
    assert found == Verdict("crashed", "the sender of flow 1 ended after 1.1 s with status 3: no luck")


def test_errors_in_the_options_are_found_before_anything_is_written(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.up", tmp_path / "bad.up"
    good.write_text("1\n")
    bad.write_text("5\n3\n")
    words = ("test", "--schemes", "cubic", "--downlink-trace", good, "--data-dir", tmp_path / "data")
    for given in (("--uplink-trace", bad), ("--uplink-trace", good, "--prepend-mm-cmds", "mm-delay '5")):
        assert isinstance(call(*words, *given).exception, EmulationError)
        assert not (tmp_path / "data").exists()


@pytest.mark.pantheon
def test_each_scheme_of_a_checkout_is_judged_by_what_it_did(tmp_path: Path, emulator: Path) -> None:
    checkout, data_dir = make_checkout(tmp_path / "checkout"), tmp_path / "data"
    before = below(os.getpid())
    result = call("test", "--all", "--pantheon", checkout, "--emulator", emulator, "--data-dir", data_dir,
                  "--runtime", "4", "--jobs", "5", "--json")  # fmt: skip
    assert result.exit_code == 1, result.output
    rows = {row["scheme"]: row for row in json.loads(result.stdout)}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "receiver_first": "ok",
        "sender_first": "ok",
        "crashing": "crashed",
        "hanging": "sent nothing",
        "after_reboot": "ok",
    }
    assert "out of luck" in rows["crashing"]["reason"]
    assert (data_dir / "outputs" / "crashing_sender1_run1.log").read_text() == "out of luck\n"
    assert below(os.getpid()) == before
    assert [path.name for path in data_dir.glob(".*")] == [".lock"], "no working folder is left"
    for name in ("receiver_first", "sender_first", "after_reboot"):
        found = run_statistics(read_log(data_dir / f"{name}_datalink_run1.log"))
        # 1228 bytes of IP each 3.2 ms, on a busy machine later, and 20 ms of delay with up to 2 ms of Mahimahi's clock,
        # or more where its shells are late.
        assert 1 < found.total.throughput_mbps < 3.1
        assert found.total.throughput_mbps == pytest.approx(found.total.ingress_mbps, rel=0.05)
        assert 19 < found.total.delay_median_ms < 35
        assert found.capacity_mbps == pytest.approx(6, rel=0.02)
    assert set(read_metadata(data_dir).cc_schemes) == set(RUNS)


@pytest.mark.pantheon
def test_flows_have_delays_of_their_own_and_a_test_is_resumed(tmp_path: Path, emulator: Path) -> None:
    words = ("test", "--schemes", "cubic", "--emulator", emulator, "--data-dir", tmp_path / "data", "--runtime", "6",
             "--flows", "2", "--interval", "2")  # fmt: skip
    result = call(*words)
    assert result.exit_code == 0, result.output
    log = read_log(tmp_path / "data" / "cubic_datalink_run1.log")
    found = run_statistics(log)
    assert log.flows == (1, 2)
    # A busy machine starts a flow later, but never before its time.
    assert 2000 <= log.left.times_ms[log.left.flow == 2].min() < 4000
    # The link is full, and its queue of 50 packets takes 100 ms. On a busy machine the queue may run empty at times.
    assert 0.8 * 6 < found.total.throughput_mbps < 1.05 * 6
    assert 80 < found.total.delay_p95_ms < 150
    assert found.total.loss is not None
    assert call(*words).exit_code == 2
    kept = (tmp_path / "data" / "cubic_datalink_run1.log").stat().st_mtime_ns
    assert call(*words, "--resume").exit_code == 0
    assert (tmp_path / "data" / "cubic_datalink_run1.log").stat().st_mtime_ns == kept
    other = call(*words[:-2], "--interval", "3", "--resume")
    assert "expected a test with interval 2" in str(other.exception or other.output)


@pytest.mark.pantheon
def test_acks_reach_the_sender_in_the_bursts_of_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    def log_of_acks(folder: Path, *, scheme: str, run: int, kind: str) -> Path:
        return log_path(folder, scheme=scheme, run=run, kind=kind.replace("data", "ack"))

    monkeypatch.setattr("emulation.pantheon.scenarios.log_path", log_of_acks)
    link = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=100, acks=AckPath(interval_ms=40))
    asked = Scenario(name="it", link=link, flows=(FlowSpec(cca="cubic"),), duration_s=4)
    found: list[TunnelLog | EmulationError] = []
    run_scenarios([asked], lambda _, log: found.append(log))
    (log,) = found
    assert isinstance(log, TunnelLog)
    assert len(log.left) > 1000
    # Captured at the sender, behind the shell that forwards a burst when it wakes up, on a busy machine some ms later.
    # Evenly spaced ACKs would be late by 30 ms in the 75th percentile.
    assert np.percentile((log.left.times_ms + 1) % 40, 75) < 15
