# SPDX-License-Identifier: MIT
"""Real flows of this machine's kernel, under algorithms in BPF that follow a table.

A throughput is compared with that of the kernel's own CUBIC over a link beside, at the same time: a busy machine
disturbs both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kmod.bpf_host import BPF_CCAS, BpfHost
from serving.agent.kernel import BpfTree
from serving.agent.prefixes import read_prefixes
from tests.bpf.link import Link, link
from tests.contract.replaying import replay
from tests.vm import cases
from tests.vm.subjects import RTCP_BBR, RTCP_BBR3, SIRA, SUBJECTS, Subject

LINK_BYTES_PER_S = 2_500_000
# So that a flow has ended its slow start.
START_S = 2.0
# The rate at which SIRA starts: at least the link's.
X_OF_THE_LINK = "initial_bytes_per_s 3000000\n"
GROUPS = [list(SUBJECTS)[at::2] for at in range(2)]


@dataclass
class Beside:
    """Links of 20 Mbit/s with a flow each, of an algorithm in BPF, and one with a flow of the kernel's own CUBIC."""

    links: Mapping[str, Link]
    own: Link

    @contextmanager
    def measured(self, shares: dict[str, float]) -> Iterator[None]:
        """Put into `shares` what each link carries during the body, as a share of what the kernel's CUBIC does."""
        links = {"": self.own, **self.links}
        before, begun_s = {cca: path.received_bytes() for cca, path in links.items()}, time.monotonic()
        yield
        carried = {cca: path.received_bytes() - before[cca] for cca, path in links.items()}
        assert carried[""] >= 0.3 * LINK_BYTES_PER_S * (time.monotonic() - begun_s)
        shares |= {cca: carried[cca] / carried[""] for cca in self.links}


@contextmanager
def side_by_side(ccas: Sequence[str]) -> Iterator[Beside]:
    """Links with a flow of each of these algorithms, START_S after the last one started. They end with the body."""
    with ExitStack() as stack:
        links = {}
        for cca, name in [("own", "cubic"), *((cca, BPF_CCAS[cca]) for cca in ccas)]:
            links[cca] = stack.enter_context(link(cca))
            stack.enter_context(links[cca].flows(name, seconds=None))
        time.sleep(START_S)
        yield Beside(own=links.pop("own"), links=links)


def flows_of(host: BpfHost, cca: str) -> list[dict[str, str]]:
    """The lines of `flows` by name."""
    lines = host.read(cca, "flows").splitlines()
    return [dict(word.split("=", 1) for word in line.split()[2:]) for line in lines]


def is_row_of(subject: Subject, flow: dict[str, str], *, base: int) -> bool:
    """Whether a flow is on a row of the table with that base (tests/vm/cases.py)."""
    rows = 2 * 4 * subject.second_levels
    return 0 <= int(flow[subject.marker]) - base * subject.unit < rows


@pytest.mark.parametrize("ccas", GROUPS, ids=" ".join)
def test_running_flows_follow_a_new_table_and_replay_in_user_space(
    host: BpfHost, replayer: Path, tmp_path: Path, ccas: Sequence[str]
) -> None:
    subjects = [SUBJECTS[cca] for cca in ccas]
    shares: dict[str, float] = {}
    for subject in subjects:
        host.load(subject.cca)
        if subject is SIRA:
            host.write(subject.cca, "parameters", X_OF_THE_LINK)
        host.write(subject.cca, "recording", "start 60000\n")
        host.write(subject.cca, "ensemble", cases.text(subject, 1, epoch_ms=300))
    with side_by_side(ccas) as beside, beside.measured(shares):
        before = [flows_of(host, cca) for cca in ccas]
        time.sleep(1)
        for subject in subjects:
            host.write(subject.cca, "ensemble", cases.urgent(cases.text(subject, 2, base=40, epoch_ms=500)))
        time.sleep(0.5)
        after = [flows_of(host, cca) for cca in ccas]
    for subject, [flow], [later] in zip(subjects, before, after, strict=True):
        host.write(subject.cca, "recording", "stop\n")
        assert is_row_of(subject, flow, base=20), subject.cca
        assert is_row_of(subject, later, base=40), subject.cca
        assert shares[subject.cca] >= 0.9, subject.cca
        require_replay(host, replayer, tmp_path, subject.cca)


def require_replay(host: BpfHost, replayer: Path, folder: Path, cca: str) -> None:
    """Require that the core decides in user space as the recording of this algorithm says."""
    status = host.read(cca, "status")
    assert "\nrow " in status, cca
    assert "delay class=" in status, cca
    recording = folder / cca
    recording.write_bytes(host.read_bytes(cca, "recording"))
    found = replay(replayer, recording, folder=folder)
    assert found["differing"] == 0, cca
    # BBR sends larger bursts than the others, and gets fewer ACKs.
    assert found["replayed"] >= 500, cca
    assert found["tables"] == 2, cca
    assert found["recall"] >= 1, cca


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


def test_a_socket_beyond_max_flows_runs_the_kernels_cubic(host: BpfHost) -> None:
    host.load("gr")
    host.write("gr", "settings", "max_flows 0\n")
    with link() as path, path.flows("gr", seconds=1) as mbps:
        time.sleep(0.5)
        assert flows_of(host, "gr") == []
    assert mbps[0] > 1
    assert "\nallocation_fallbacks 1\n" in host.read("gr", "status")
