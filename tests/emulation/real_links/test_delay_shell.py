# SPDX-License-Identifier: MIT
"""The shell whose delay changes over time: packets through it by themselves, and TCP over a whole link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emulation.mahimahi.translate import DELAY_SHELL
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from tests.emulation.real_links.quiet import least_disturbed

PROBE = Path(__file__).with_name("probe.py")
PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S")
END_S = 60


def through(trace: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the shell, in a network namespace that ends with it."""
    words = ["unshare", "--net", "--", str(DELAY_SHELL), str(trace), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n5 x\n", "line 2: expected `time_ms delay_ms` with ascending times from 0, got '5 x'"),
        ("1 1\n", "line 1: expected"),
        ("0 1\n0 2\n", "line 2: expected"),
        ("0 1\n5\n6 1\n", "line 3: expected"),
        ("0 0\n", "line 1: expected"),
        ("", "expected lines of `time_ms delay_ms`, got none"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "a.delays"
    trace.write_text(text)
    done = subprocess.run([str(DELAY_SHELL), str(trace), "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"delay-shell: {trace}: {message}" in done.stderr


def test_without_a_command_it_says_how_it_is_used() -> None:
    done = subprocess.run([str(DELAY_SHELL), "a.delays"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: delay-shell [--begin FIFO] TRACE COMMAND [ARGUMENT...]\n")


@pytest.mark.mahimahi
def test_its_exit_status_is_that_of_the_command(tmp_path: Path) -> None:
    trace = tmp_path / "a.delays"
    trace.write_text("0 1\n")
    assert through(trace, "sh", "-c", "exit 7").returncode == 7
    assert through(trace, "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert through(trace, "no-such-program").returncode == 127


@pytest.mark.mahimahi
def test_packets_have_the_delay_in_force_when_they_enter_and_stay_in_order(tmp_path: Path) -> None:
    trace = tmp_path / "a.delays"
    trace.write_text("0 40\n1000 10\n2000\n")
    # The probe answers packets outside of the shell, and sends one each ms from inside for 4 s.
    words = ["unshare", "--net", "--", *PYTHON, str(PROBE), str(DELAY_SHELL), str(trace), "4"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answered"] == sorted(seen["answered"])
    assert len(seen["answered"]) > 0.5 * seen["sent"]
    # Half of the packets have the short delay on both ways, the others the long one. No packet is faster than its
    # delays. A busy machine delays some packets further, so the longest round trips are not judged.
    rtt_ms = np.asarray(seen["rtt_ms"])
    assert rtt_ms.min() >= 20
    assert np.quantile(rtt_ms, 0.1) < 50
    assert np.quantile(rtt_ms, 0.7) >= 80
    # Packets that entered in the last 30 ms before the fall, or just after it, leave together.
    assert (np.diff(seen["answered_at_ms"]) < 0.2).sum() >= 30


@pytest.mark.mahimahi
def test_round_trips_of_a_real_flow_follow_the_delays() -> None:
    delays = BaseDelay(steps=(DelayStep(at_s=0, rtt_ms=25), DelayStep(at_s=3, rtt_ms=60)), period_s=6)
    link = LinkSpec(rate_mbps=12, delays=delays, buffer_pkts=100)
    asked = Scenario(name="it", link=link, flows=(FlowSpec(cca="cubic"),), duration_s=9)
    runs = least_disturbed(asked, series_every_s=0.1)
    (qos,) = runs.qos
    base_ms = qos.series["rtt_ms"] - qos.series["queueing_delay_ms"]
    at_s = qos.series["time_s"]
    # Smoothed round trips and the queue are both averages, so the first second of each phase does not count.
    for start_s, expected_ms in ((1, 25), (4, 60), (7, 25)):
        phase = (at_s > start_s) & (at_s <= start_s + 1.9)
        assert np.median(base_ms[phase]) == pytest.approx(expected_ms, abs=6 * runs.slack)
    assert qos.throughput_mbps > 12 - 1.5 * runs.slack
