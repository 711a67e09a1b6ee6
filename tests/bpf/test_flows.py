# SPDX-License-Identifier: MIT
"""Real flows of this machine's kernel, under algorithms in BPF that follow a table."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from kmod.bpf_host import BPF_CCAS, BpfHost
from serving.agent.kernel import BpfTree
from serving.agent.prefixes import read_prefixes
from tests.bpf.link import link
from tests.contract.replaying import replay
from tests.vm import cases
from tests.vm.subjects import RTCP_BBR, RTCP_BBR3, SIRA, SUBJECTS, Subject

SECONDS = 5.0
LINK_MBPS = 20.0
# The rate at which SIRA starts: at least the link's.
X_OF_THE_LINK = "initial_bytes_per_s 3000000\n"


def flows_of(host: BpfHost, cca: str) -> list[dict[str, str]]:
    """The lines of `flows` by name."""
    lines = host.read(cca, "flows").splitlines()
    return [dict(word.split("=", 1) for word in line.split()[2:]) for line in lines]


def is_row_of(subject: Subject, flow: dict[str, str], *, base: int) -> bool:
    """Whether a flow is on a row of the table with that base (tests/vm/cases.py)."""
    rows = 2 * 4 * subject.second_levels
    return 0 <= int(flow[subject.marker]) - base * subject.unit < rows


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=lambda subject: subject.cca)
def test_running_flows_follow_a_new_table_and_replay_in_user_space(
    host: BpfHost, replayer: Path, tmp_path: Path, subject: Subject
) -> None:
    cca = subject.cca
    host.load(cca)
    if subject is SIRA:
        host.write(cca, "parameters", X_OF_THE_LINK)
    host.write(cca, "recording", "start 60000\n")
    host.write(cca, "ensemble", cases.text(subject, 1, epoch_ms=300))
    with link() as path, path.flows(subject.name, seconds=SECONDS) as mbps:
        time.sleep(SECONDS / 2)
        [before] = flows_of(host, cca)
        host.write(cca, "ensemble", cases.urgent(cases.text(subject, 2, base=40, epoch_ms=500)))
        time.sleep(0.5)
        [after] = flows_of(host, cca)
    host.write(cca, "recording", "stop\n")
    assert is_row_of(subject, before, base=20)
    assert is_row_of(subject, after, base=40)
    assert mbps[0] >= 0.9 * LINK_MBPS
    rows = [line for line in host.read(cca, "status").splitlines() if line.startswith("row ")]
    assert rows
    assert "delay class=" in host.read(cca, "status")
    recording = tmp_path / "recording"
    recording.write_bytes(host.read_bytes(cca, "recording"))
    found = replay(replayer, recording, folder=tmp_path)
    assert found["differing"] == 0
    # BBR sends larger bursts than the others, and gets fewer ACKs.
    assert found["replayed"] >= 1_000
    assert found["tables"] == 2
    assert found["recall"] >= 1


# Not over CUBIC: with the link's short round trip its window of a few packets does not converge (tests/vm shows it).
@pytest.mark.skipif(shutil.which("nft") is None, reason="nft, which makes the policer, is not installed")
@pytest.mark.parametrize("subject", [RTCP_BBR, RTCP_BBR3], ids=lambda subject: subject.cca)
def test_rtcp_over_bbr_finds_a_policer_and_caps_its_pacing(host: BpfHost, subject: Subject) -> None:
    limit_bytes_per_s, flow = 625_000, {"mode": ""}

    def is_found() -> bool:
        """The first estimate of R may be above R by a tenth or more; it is refined while the flow is capped."""
        near = flow["mode"] == "capped" and abs(int(flow["limit_bytes_per_s"]) / limit_bytes_per_s - 1) <= 0.1
        return near and flow["cap_pkts"] != "-"

    host.load(subject.cca)
    with link() as path:
        path.police(bytes_per_s=limit_bytes_per_s, bucket_bytes=500_000)
        deadline = time.monotonic() + 20
        with path.flows(subject.cca, seconds=None):
            while not is_found() and time.monotonic() < deadline:
                time.sleep(0.1)
                [flow] = flows_of(host, subject.cca)
            by_prefix = read_prefixes(BpfTree(lambda: host), [subject.cca], bits=(24, 56))
    assert is_found(), flow
    [its] = by_prefix["prefixes"]
    assert (by_prefix["unit"], its["clients"], its["limited_clients"]) == ("connections", 1, 1)
    assert its["prefix"].endswith(".0/24")
    assert its["limit_bytes_per_s"][1] == pytest.approx(limit_bytes_per_s, rel=0.1)
    assert 0 < its["limited_segments"] < its["segments"]
    assert (flow["limiter"], flow["shared"]) == ("limited", "0"), flow
    assert 0 < int(flow["pacing_bytes_per_s"]) <= int(flow["limit_bytes_per_s"])


def test_gr_keeps_the_queue_near_its_target_at_the_rate_of_the_link(host: BpfHost) -> None:
    host.load("gr")
    host.write("gr", "parameters", "delay_threshold_us 40000\n")
    delays_us = []
    with link() as path, path.flows("gr", seconds=6) as mbps:
        for _ in range(20):
            time.sleep(0.25)
            [flow] = flows_of(host, "gr")
            delays_us.append(int(flow["queueing_delay_us"]))
    assert mbps[0] >= 0.9 * LINK_MBPS
    assert 20_000 < sorted(delays_us)[10] < 60_000


def test_cubic_is_as_fast_as_the_kernels_own(host: BpfHost) -> None:
    host.load("cubic")
    with link() as path, path.flows(BPF_CCAS["cubic"], seconds=4) as ours:
        pass
    with link() as path, path.flows("cubic", seconds=4) as theirs:
        pass
    assert ours[0] >= 0.95 * theirs[0]


def test_vegas_fills_the_link_with_a_queue_of_a_few_packets(host: BpfHost) -> None:
    host.load("vegas")
    host.write("vegas", "parameters", "alpha_pkts 20\nbeta_pkts 30\n")
    rtts_us = []
    with link() as path, path.flows(BPF_CCAS["vegas"], seconds=6) as mbps:
        for _ in range(20):
            time.sleep(0.25)
            [flow] = flows_of(host, "vegas")
            rtts_us.append(int(flow["rtt_us"]))
    assert mbps[0] >= 0.9 * LINK_MBPS
    # A packet takes 0.6 ms, and a queue that is full 400 ms.
    assert 6_000 < sorted(rtts_us)[10] < 60_000


def test_a_socket_beyond_max_flows_runs_the_kernels_cubic(host: BpfHost) -> None:
    host.load("gr")
    host.write("gr", "settings", "max_flows 0\n")
    with link() as path, path.flows("gr", seconds=1) as mbps:
        time.sleep(0.5)
        assert flows_of(host, "gr") == []
    assert mbps[0] > 1
    assert "\nallocation_fallbacks 1\n" in host.read("gr", "status")
