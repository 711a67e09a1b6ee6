# SPDX-License-Identifier: MIT
"""Real flows of this machine's kernel, under algorithms in BPF that follow a table.

A throughput is compared with that of the kernel's own CUBIC over a link beside, at the same time: a busy machine
disturbs both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kmod.bpf_host import BPF_CCAS, BpfHost
from tests.bpf.link import link
from tests.contract.replaying import replay
from tests.vm import cases
from tests.vm.subjects import RTCP_BBR, RTCP_BBR3, SIRA, SUBJECTS, Subject

SECONDS = 4.0
LINK_MBPS = 20.0
# The rate at which SIRA starts: at least the link's.
X_OF_THE_LINK = "initial_bytes_per_s 3000000\n"


@contextmanager
def reference(*, seconds: float) -> Iterator[list[float]]:
    """The kernel's own CUBIC over a link of its own. The list has the throughput in Mbit/s after the body."""
    with link("r") as path, path.flows("cubic", seconds=seconds) as mbps:
        yield mbps
    assert mbps[0] > 0.5 * LINK_MBPS


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
    with reference(seconds=SECONDS) as kernels, link() as path, path.flows(subject.name, seconds=SECONDS) as mbps:
        time.sleep(SECONDS / 2)
        [before] = flows_of(host, cca)
        host.write(cca, "ensemble", cases.urgent(cases.text(subject, 2, base=40, epoch_ms=500)))
        time.sleep(0.5)
        [after] = flows_of(host, cca)
    host.write(cca, "recording", "stop\n")
    assert is_row_of(subject, before, base=20)
    assert is_row_of(subject, after, base=40)
    assert mbps[0] >= 0.9 * kernels[0]
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
    assert is_found(), flow
    assert (flow["limiter"], flow["shared"]) == ("limited", "0"), flow
    assert 0 < int(flow["pacing_bytes_per_s"]) <= int(flow["limit_bytes_per_s"])


def test_gr_and_vegas_fill_the_link_with_the_queues_of_their_parameters(host: BpfHost) -> None:
    for cca, text in (("gr", "delay_threshold_us 40000\n"), ("vegas", "alpha_pkts 40\nbeta_pkts 60\n")):
        host.load(cca)
        host.write(cca, "parameters", text)
    delays_us, rtts_us = list[int](), list[int]()
    with (
        reference(seconds=6) as kernels, link("g") as one, link("v") as other,
        one.flows(BPF_CCAS["gr"], seconds=6) as of_gr, other.flows(BPF_CCAS["vegas"], seconds=6) as of_vegas,
    ):  # fmt: skip
        for _ in range(20):
            time.sleep(0.25)
            [flow], [of_other] = flows_of(host, "gr"), flows_of(host, "vegas")
            delays_us.append(int(flow["queueing_delay_us"]))
            rtts_us.append(int(of_other["rtt_us"]))
    assert min(*of_gr, *of_vegas) >= 0.9 * kernels[0]
    assert 20_000 < sorted(delays_us)[10] < 60_000
    # A packet takes 0.6 ms, and a queue that is full 400 ms.
    assert 12_000 < sorted(rtts_us)[10] < 100_000


def test_a_socket_beyond_max_flows_runs_the_kernels_cubic(host: BpfHost) -> None:
    host.load("gr")
    host.write("gr", "settings", "max_flows 0\n")
    with link() as path, path.flows("gr", seconds=1) as mbps:
        time.sleep(0.5)
        assert flows_of(host, "gr") == []
    assert mbps[0] > 1
    assert "\nallocation_fallbacks 1\n" in host.read("gr", "status")
