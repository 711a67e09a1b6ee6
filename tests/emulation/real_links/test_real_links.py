# SPDX-License-Identifier: MIT
"""Real TCP over real links of this machine: figures that theory gives, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ccatune
from emulation.errors import EmulationError
from emulation.mahimahi.arrays import link_arrays
from emulation.mahimahi.measure import to_qos
from emulation.mahimahi.runner import cores_of, emulate_many, host_runner, side_by_side
from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath
from tests.emulation.real_links.quiet import Runs, least_disturbed

LINK = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=100)


def scenario(*flows: FlowSpec, link: LinkSpec = LINK, duration_s: float = 8, warmup_s: float = 3) -> Scenario:
    return Scenario(name="it", link=link, flows=flows, duration_s=duration_s, warmup_s=warmup_s)


@pytest.fixture(scope="module")
def cubic() -> Runs:
    """Cubic over the link that theory is asked about, with its series."""
    return least_disturbed(scenario(FlowSpec(cca="cubic"), duration_s=12, warmup_s=2), series_every_s=0.1)


@pytest.mark.mahimahi
def test_cubic_fills_the_link_and_its_queue(cubic: Runs) -> None:
    (qos,) = cubic.qos
    assert 12 - cubic.slack <= qos.throughput_mbps <= 12.01
    # A full queue: 100 x 1504 x 8 / 12e6 = 100 ms.
    assert qos.queueing_delay.percentile_ms(95) == pytest.approx(100, abs=12 * cubic.slack)
    assert qos.capacity_mbps == pytest.approx(12, rel=0.005)
    assert qos.dropped > 0
    assert 0 < qos.retransmission_rate < 0.05


@pytest.mark.mahimahi
def test_packets_of_a_real_run_are_all_accounted_for(cubic: Runs) -> None:
    (qos,) = cubic.qos
    assert qos.sent == qos.simulated_packets + qos.dropped + qos.queued
    assert qos.queued <= 101
    assert sum(flow.throughput_mbps for flow in qos.flows) == pytest.approx(qos.throughput_mbps, rel=0.02)
    # Headers of 52 bytes in 1500.
    assert qos.goodput_mbps == pytest.approx(qos.throughput_mbps * 1448 / 1500, rel=0.03)


@pytest.mark.mahimahi
def test_rtt_is_propagation_and_queue(cubic: Runs) -> None:
    (qos,) = cubic.qos
    rtt_ms, queue_ms = qos.series["rtt_ms"][20:], qos.series["queueing_delay_ms"][20:]
    assert (rtt_ms - queue_ms).mean() == pytest.approx(40, abs=6 * cubic.slack)


@pytest.mark.mahimahi
def test_random_loss_and_sizes_and_times_side_by_side() -> None:
    lossy = scenario(FlowSpec(cca="cubic"), link=LINK.model_copy(update={"loss": 0.02, "buffer_pkts": 2000}))
    two = scenario(FlowSpec(cca="cubic"), FlowSpec(cca="cubic", start_s=2, stop_s=5), warmup_s=0)
    sized = scenario(FlowSpec(cca="cubic", size_bytes=1_000_000), warmup_s=0)
    of_lossy, of_two, of_sized = emulate_many([lossy, two, sized], series_every_s=0.1)
    # Every loss is retransmitted. The queue loses nothing: such a flow cannot fill it, not even in slow start.
    assert of_lossy.lost_at_random == pytest.approx(0.02 * of_lossy.simulated_packets, rel=0.6)
    assert of_lossy.dropped == 0
    assert of_lossy.utilization < 0.9
    assert [flow.throughput_mbps > 0.5 for flow in of_two.flows] == [True, True]
    late = of_two.series["rate_mbps"][of_two.series["flow"] == 1]
    assert late[:20].max() == 0
    assert late[20:50].mean() > 1
    assert late[60:].max() == 0
    # 1 MB at 12 Mbit/s with a slow start: above 0.69 s.
    assert of_sized.flows[0].complete_s is not None
    assert 0.69 < of_sized.flows[0].complete_s < 3
    assert of_sized.flows[0].goodput_mbps == pytest.approx(1.0, rel=0.01)


@pytest.mark.mahimahi
def test_several_runs_tell_median_and_spread(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    file = repository / "configs" / "scenarios" / "reno-20mbps.yaml"
    out, plot = tmp_path / "out.json", tmp_path / "run.png"
    words = ["emulate", str(file), "--runs", "2", "--duration", "4", "--warmup", "1", "--json"]
    assert ccatune.run([*words, "--out", str(out), "--plot", str(plot)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(out.read_text())
    assert told["runner"] == "mahimahi"
    assert len(told["runs"]) == 2
    spread = told["spread"]["throughput_mbps"]
    assert spread["least"] <= spread["median"] <= spread["most"] <= 20.01
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.mahimahi
def test_acks_in_bursts_leave_at_the_multiples_and_none_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[dict[str, Any]] = []

    def keep_and_judge(scenario: Scenario, result: dict[str, Any], **how: Any) -> QoS:
        results.append(result)
        return to_qos(scenario, result, **how)

    monkeypatch.setattr("emulation.mahimahi.runner.to_qos", keep_and_judge)
    link = LINK.model_copy(update={"acks": AckPath(interval_ms=40)})
    asked = scenario(FlowSpec(cca="cubic"), link=link, duration_s=6, warmup_s=2)
    runs = least_disturbed(asked)
    (qos,) = runs.qos
    for result in results:
        assert not (link_arrays(asked, result, of_acks=True).departures_ms % 40).any()
    assert 12 - runs.slack <= qos.throughput_mbps <= 12.01
    assert qos.acks is not None
    # One for a packet or for two. Each waits for at most an interval, half of it in the middle.
    assert 0.45 * qos.simulated_packets < qos.acks.entered < 1.01 * qos.simulated_packets
    assert qos.acks.inside <= 40
    assert qos.acks.delay.percentile_ms(99.9) <= 41
    assert qos.acks.delay.percentile_ms(50) == pytest.approx(20, abs=3)


def below(parent: int) -> set[int]:
    """All processes that descend from this one."""
    parents = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it is gone
    found = {parent}
    while more := {child for child, its in parents.items() if its in found} - found:
        found |= more
    return found - {parent}


def state_of_the_machine() -> dict[str, object]:
    """What a run could leave: mounts, rules, settings, network devices, files.

    Of mounts it has those at the places that runs use. Other programs on the machine may mount something elsewhere.
    """
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    places = sorted(words[4] for words in mounts if words[4].startswith(("/run", "/etc", "/usr")))
    rules = subprocess.run(["iptables-save", "-t", "nat"], capture_output=True, text=True, check=False).stdout
    return {
        "mounts": [place for place in places if not place.startswith("/run/netns")],
        "rules": [line for line in rules.splitlines() if "-A" in line],
        "ip_forward": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "tcp_wmem": Path("/proc/sys/net/ipv4/tcp_wmem").read_text(),
        "devices": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "files": sorted(path.name for path in Path("/run").iterdir() if path.name != "netns"),
    }


def namespaces_of(pids: set[int]) -> set[str]:
    """Their network namespaces, but this process's own."""
    found = set()
    for pid in pids:
        try:
            found.add(str(Path(f"/proc/{pid}/ns/net").readlink()))
        except OSError:
            continue
    return found - {str(Path("/proc/self/ns/net").readlink())}


def processes() -> set[int]:
    """All processes that run now."""
    return {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()}


@pytest.mark.mahimahi
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_leaves_nothing_behind(sent: signal.Signals, repository: Path) -> None:
    before = state_of_the_machine()
    # With a policer, so that there are rules, too.
    file = repository / "configs" / "scenarios" / "policer-op1.yaml"
    code = "import ccatune; ccatune.main()"
    words = [sys.executable, "-c", code, "emulate", str(file), "--duration", "300"]
    owner = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end_s = time.monotonic() + 200
    started: set[int] = set()
    try:
        # Until the receiver runs in the innermost shell: shells are nested, rules and mounts are made.
        while time.monotonic() < end_s and not any("flows.py take" in command_of(pid) for pid in started):
            time.sleep(0.05)
            started = below(owner.pid)
        namespaces = namespaces_of(started)
        assert len(namespaces) == 3
        assert any("policer.py" in command_of(pid) for pid in started)
        earlier = processes()
        owner.send_signal(sent)
        owner.wait(timeout=100)
    finally:
        owner.kill()
        owner.wait()
    while time.monotonic() < end_s and any(command_of(pid) for pid in started):
        time.sleep(0.05)
    assert {pid: command_of(pid) for pid in started if command_of(pid)} == {}
    # A namespace that another test has made since may have the number of one that is gone.
    assert not namespaces & namespaces_of(earlier & processes())
    assert state_of_the_machine() == before


def command_of(pid: int) -> str:
    """The command line of a process; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.mahimahi
def test_a_run_that_fails_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, children = state_of_the_machine(), below(os.getpid())
    monkeypatch.setattr("emulation.mahimahi.runner.mahimahi_root", lambda: tmp_path)
    monkeypatch.setattr("emulation.mahimahi.runner._installed", lambda: False)
    with pytest.raises(EmulationError, match=r"it: .*mm-delay: No such file or directory"):
        emulate_many([scenario(FlowSpec(cca="reno"))])
    assert state_of_the_machine() == before
    assert below(os.getpid()) == children


def test_as_many_runs_side_by_side_as_their_estimate_allows() -> None:
    runs = [scenario(FlowSpec(cca="reno"))] * 20
    # 0.2 + 12 x 0.0025 = 0.23 of a processor each, of half of what there is.
    assert cores_of(runs[0]) == pytest.approx(0.23)
    assert [side_by_side(runs, processors) for processors in (1, 2, 8)] == [2, 4, 17]
    heavy = scenario(FlowSpec(cca="reno"), link=LinkSpec(rate_mbps=500, rtt_ms=40))
    assert side_by_side([heavy, heavy], 1) == 1


def test_who_is_not_root_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EmulationError, match=r"mahimahi: needs root, .*sudo"):
        host_runner()


def test_programs_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("emulation.mahimahi.runner.SYSTEM_PATH", "/nonexistent")
    with pytest.raises(EmulationError, match=r"mahimahi: not installed: iptables, .*; run `make setup`"):
        host_runner()


def test_mahimahi_that_was_not_fetched_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, **_: None if name.startswith("mm-") else name)
    monkeypatch.setattr(Path, "exists", lambda path: str(path).startswith("/dev"))
    monkeypatch.setenv("CCATUNE_CACHE", str(tmp_path))
    with pytest.raises(EmulationError, match=r"Mahimahi: expected it unpacked in .*make setup"):
        host_runner()
