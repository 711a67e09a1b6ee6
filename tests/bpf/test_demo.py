# SPDX-License-Identifier: MIT
"""The demo on this machine's own kernel, with a study of seconds, and what is left of it afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulation.mahimahi.in_bpf import available_ccas
from serving.commands.demo_kernel import opened
from tests.bpf.conftest import kernel_objects
from tests.bpf.sole import mounted_host, no_emulation, sole_user
from tests.emulation.mahimahi.test_in_bpf import has_receiver, state_of_the_machine, state_once_free
from tests.emulation.real_links.test_real_links import below, command_of

pytestmark = pytest.mark.mahimahi

FLOW_S = 7
LINK_MBPS = 6.0
STUDY = """
schema: ccatune-study/2
cca: gr
axes: {throughput: {count: 2, step_kbps: 4000}}
workload: {kind: epochs, minimum: 1, maximum: 1}
objective:
  kind: delay
  classes:
    - {percentile: 95, queueing_delay_ms: 50}
    - {percentile: 95, queueing_delay_ms: 100}
    - {percentile: 95, queueing_delay_ms: 200}
search: {kind: dds, intervals: 12, steps: 2}
"""
DEMO = """
import sys
from pathlib import Path
from serving.commands import demo, demo_kernel
demo.STUDY = Path(sys.argv.pop(1))
demo_kernel.FLOW_S = float(sys.argv.pop(1))
demo_kernel.WAIT_S = 300
import ccatune
ccatune.main()
"""


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A link of 6 Mbit/s, with an opportunity every 2 ms."""
    path = tmp_path / "links" / "constant.down"
    path.parent.mkdir()
    path.write_text("".join(f"{at_ms}\n" for at_ms in range(2, 120_001, 2)))
    return path.parent


@contextmanager
def demo(folder: Path, link: Path, program: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the demo. Its messages are in the file `said`."""
    study = folder / "study.yaml"
    study.write_text(STUDY)
    arguments = ["demo", "--traces", link, "--out", folder / "out", "--no-keep", "--json"]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", DEMO, study, str(FLOW_S), *arguments],
            stdout=subprocess.PIPE, stderr=said, text=True, env={**os.environ, "CCATUNE_BPF": str(program)},
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the body leaves neither an algorithm nor a file system nor a program or map of BPF."""
    with sole_user():
        with no_emulation():
            before, objects = state_once_free(), kernel_objects()
        assert before[0] == [], "GR or ROCCET is in use on this machine, outside these tests"
        yield
        with no_emulation():
            end_s = time.monotonic() + 30  # the kernel frees programs and maps a while later
            while (state_of_the_machine() != before or kernel_objects() - objects) and time.monotonic() < end_s:
                time.sleep(0.1)
            assert state_of_the_machine() == before
            assert kernel_objects() - objects == set()


def test_demo_sends_a_flow_of_this_kernel_under_the_ensemble(program: Path, link: Path, tmp_path: Path) -> None:
    with nothing_left(), demo(tmp_path, link, program) as running:
        answer, _ = running.communicate(timeout=300)
        assert running.returncode == 0, (tmp_path / "said").read_text()
    figures = json.loads(answer)
    assert figures["applied"].startswith("GR runs in BPF on this machine's kernel")
    flow, ensemble = figures["flow"], json.loads((tmp_path / "out" / "gr.json").read_text())
    # Level 1 has 4 Mbit/s and more, which a busy machine may not reach in most epochs.
    assert flow["level"] in {0, 1}
    assert list(flow["parameters"].values()) == ensemble["rows"][flow["level"] * 3 + 1]
    # A machine that is busy for some seconds delays the timers of the link, which then carries about half of its rate.
    assert flow["throughput_mbps"] > 0.4 * LINK_MBPS
    assert 0 < flow["queueing_delay_ms"] < 3 * flow["target_ms"]
    assert (tmp_path / "out" / "flow.png").read_bytes().startswith(b"\x89PNG")


def test_demo_that_is_ended_by_a_signal_leaves_nothing(program: Path, link: Path, tmp_path: Path) -> None:
    with nothing_left(), demo(tmp_path, link, program) as running:
        end_s = time.monotonic() + 200
        while not has_receiver(running.pid) and running.poll() is None and time.monotonic() < end_s:
            time.sleep(0.05)
        time.sleep(2.5)  # the flow sends by then, and a connection with unsent data would keep GR
        assert "gr" in available_ccas(), (tmp_path / "said").read_text()
        started = below(running.pid)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 128 + signal.SIGTERM
        while (alive := {pid for pid in started if command_of(pid)}) and time.monotonic() < end_s:
            time.sleep(0.05)
        assert alive == set()


def test_demo_leaves_a_gr_alone_that_is_loaded_already(program: Path, tmp_path: Path) -> None:
    with sole_user(), mounted_host(program, tmp_path / "bpffs") as host:
        state_once_free()
        host.load("gr")
        with opened(tmp_path / "out") as target:
            assert target.bpf is None
            assert "stand-in, not to this machine's kernel: GR is loaded in it already" in target.what
        assert host.loaded() == ["gr"]
        assert "\ngeneration 0\n" in host.read("gr", "status")
