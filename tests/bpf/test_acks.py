# SPDX-License-Identifier: MIT
"""`ccatune observe --acks` on this machine's kernel."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kmod.observations import NAMES, files_in, read_observations
from serving.agent.observe.acks import Acks
from serving.agent.observe.diag import Diag
from serving.agent.observe.sampler import row_of
from tests.bpf.conftest import kernel_objects
from tests.bpf.link import link
from tests.bpf.sole import sole_user
from training.observed.links import rebuild
from training.observed.samples import read_samples

REPOSITORY = Path(__file__).resolve().parents[2]
LINK_MBPS = 20.0


@pytest.fixture(autouse=True)
def sole(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program is there, and no other test of the tier counts the kernel's objects meanwhile."""
    monkeypatch.setenv("CCATUNE_BPF", str(program))
    with sole_user():
        yield


@contextlib.contextmanager
def pair(host: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection: the server's first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listener,
        socket.create_connection(listener.getsockname()[:2]) as client,
        listener.accept()[0] as server,
    ):
        yield server, client


@contextlib.contextmanager
def running(*, share: float = 1.0, most_per_s: int = 100_000, ports: list[int]) -> Iterator[Acks]:
    """Samples of ACKs of connections with these local ports."""
    with contextlib.closing(Acks(share=share, most_per_s=most_per_s, every_s=0.2, ports=ports)) as acks:
        yield acks


def exchange(server: socket.socket, client: socket.socket, *, times: int) -> None:
    """Send 30 kB so many times, each after the one before has arrived, and let a last segment show the last ACK."""
    for _ in range(times):
        server.sendall(bytes(30_000))
        client.recv(30_000, socket.MSG_WAITALL)
    deadline_s = time.monotonic() + 10
    client.sendall(b"1")
    server.recv(1)
    while int.from_bytes(server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)[24:], sys.byteorder):
        assert time.monotonic() < deadline_s
    client.sendall(b"1")
    server.recv(1)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_sample_of_the_last_ack_has_the_figures_and_the_ends_of_sock_diag(host: str) -> None:
    with pair(host) as (server, client), contextlib.closing(Diag(ports=[server.getsockname()[1]])) as diag:
        with running(ports=[server.getsockname()[1]]) as acks:
            begun_us = time.monotonic_ns() // 1000
            exchange(server, client, times=50)
            found = acks.drain()
        _, (one,) = diag.dump()
        (looked,) = diag.look([one])
        assert looked is not None
        assert dict(zip(NAMES, found[-1].columns, strict=False)) == dict(
            zip(NAMES[:22], row_of(looked)[:22], strict=True)
        )
        assert (found[-1].found, found[-1].algorithm) == (one, looked.algorithm)
        assert 40 <= len(found) <= 60
        assert begun_us <= found[0].time_us <= found[-1].time_us <= time.monotonic_ns() // 1000
        assert all(0 < ack.last_rtt_us < 10_000_000 for ack in found[1:])


def test_only_the_senders_of_the_share_are_sampled_up_to_the_limit_and_until_they_are_refused() -> None:
    with pair("127.0.0.1") as (server, client):
        ports = [server.getsockname()[1], client.getsockname()[1]]
        with running(ports=ports) as acks, running(ports=[1]) as others, running(share=1e-15, ports=ports) as none:
            exchange(server, client, times=20)
            found = acks.drain()
            senders = [ack for ack in found if ack.found.ports[0] == ports[0]]
            # The client sent two bytes.
            assert len(senders) >= 15
            assert len(found) - len(senders) <= 4
            assert [others.drain(), none.drain()] == [[], []]
            for cookie in {ack.cookie for ack in found}:
                acks.refuse(cookie)
            exchange(server, client, times=5)
            assert [ack for ack in acks.drain() if ack.found.ports[0] == ports[0]] == []
            assert (acks.over_limit, acks.lost) == (0, 0)
        with running(most_per_s=20, ports=ports) as acks:
            exchange(server, client, times=30)
            taken = len(acks.drain())
            assert acks.over_limit >= 10
            assert 2 <= taken <= 20


def observe(folder: Path, *options: str, within: str = "") -> subprocess.Popen[str]:
    """Start the command, in a network namespace if one is named."""
    space = ["ip", "netns", "exec", within] if within else []
    command = [*space, sys.executable, "-m", "serving.agent", "observe", "--folder", str(folder), "--share", "1",
               "--find-s", "0.3", "--json", *options]  # fmt: skip
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_files(folder: Path) -> None:
    """Wait until the samples have begun."""
    deadline_s = time.monotonic() + 30
    while not files_in(folder) if folder.exists() else True:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_flow_is_the_same_by_ack_and_by_sample_but_finer(tmp_path: Path) -> None:
    with link() as path:
        names = ("acks", "samples")
        with path.flows("cubic", seconds=None):
            started = [observe(tmp_path / name, *options, within=path.sender)
                       for name, options in zip(names, (["--acks"], []), strict=True)]  # fmt: skip
            for name in names:
                wait_for_files(tmp_path / name)
        for process in started:
            process.send_signal(signal.SIGTERM)
        counts = [json.loads(process.communicate(timeout=20)[0]) for process in started]
    assert counts[0]["acks"] >= 1_000
    assert counts[1]["acks"] == 0
    (one,), (other,) = (read_observations(files_in(tmp_path / name)).flows for name in names)
    assert one.missing == other.missing - {"last_rtt_us"}
    times_us, acked = (np.array(values) for values in (one.times_us, [row[0] for row in one.rows]))
    assert (np.diff(acked) >= 0).all()
    # Of the other program's samples, whose clock has another zero.
    at_us = np.array(other.times_us) + round((other.start_s - one.start_s) * 1e6)
    inner = (at_us > times_us[0]) & (at_us < times_us[-1])
    differences = np.interp(at_us, times_us, acked) - np.array([row[0] for row in other.rows])
    # Both clocks were set while the machine did other things. Besides, a packet takes 0.6 ms, and an ACK acknowledges a
    # few of them.
    shift = np.median(differences[inner])
    assert abs(shift) <= 0.2 * LINK_MBPS * 1e6 / 8
    assert np.median(np.abs(differences[inner] - shift)) <= 10 * 1448
    finer, coarser = (rebuild(read_samples(tmp_path / name)[0]) for name in names)
    assert finer.resolution_ms < 10
    assert coarser.resolution_ms > 150
    rate_mbps = float((finer.capacity_bytes * finer.known).sum() * 8e-6 / finer.known_s)
    assert rate_mbps == pytest.approx(LINK_MBPS, rel=0.05)


def objects_of(pid: int) -> set[tuple[str, int]]:
    """The BPF objects that a process's child holds: kind and number."""
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        for path in Path(f"/proc/{child}/fdinfo").iterdir():
            text = path.read_text(encoding="ascii")
            found |= {(kind, int(number)) for kind, number in re.findall(r"^(map|prog)_id:\s*([0-9]+)$", text, re.M)}
    return found


def loaded_by(process: subprocess.Popen[str]) -> set[tuple[str, int]]:
    """Wait until the command has loaded its program, and return the objects."""
    loaded: set[tuple[str, int]] = set()
    deadline_s = time.monotonic() + 60
    while {kind for kind, _ in loaded} != {"map", "prog"}:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
        with contextlib.suppress(FileNotFoundError):
            loaded = objects_of(process.pid)
    return loaded


def test_a_connection_between_two_listings_is_sampled_to_its_last_byte(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = ["--acks", "--loopback", "--find-s", "3600", "--port", str(listener.getsockname()[1])]
        with observe(tmp_path, *options) as process:
            loaded_by(process)
            # The only listing comes first.
            time.sleep(1)
            with socket.create_connection(listener.getsockname()) as client:
                with listener.accept()[0] as server:
                    server.sendall(bytes(200_000))
                client.recv(200_000, socket.MSG_WAITALL)
                time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            counts = json.loads(process.communicate(timeout=20)[0])
    (flow,) = read_observations(files_in(tmp_path)).flows
    # The kernel counts the FIN as a byte.
    assert (flow.ends.is_new, flow.ended, flow.last[0]) == (True, "closed", 200_001)
    assert (counts["flows"], counts["acks"] >= 1, counts["new"]) == (1, True, 0)


def test_a_kill_leaves_no_program_in_the_kernel(tmp_path: Path) -> None:
    with observe(tmp_path, "--acks") as process:
        loaded = loaded_by(process)
        assert loaded <= kernel_objects()
        process.kill()
    deadline_s = time.monotonic() + 10
    while kernel_objects() & loaded and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert not kernel_objects() & loaded


def as_nobody(capabilities: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command for a second as a user without rights but these capabilities, as its unit does."""
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    command = [
        "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", f"-all{capabilities}",
        "--inh-caps", f"-all{capabilities}", "--ambient-caps", f"-all{capabilities}", sys.executable, "-m",
        "serving.agent", "observe", "--acks", "--folder", str(folder), "--seconds", "1", "--json",
    ]  # fmt: skip
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_two_capabilities_are_enough_and_without_them_the_way_without_bpf_is_named() -> None:
    # Not below the folder of the tests, which is root's alone.
    with tempfile.TemporaryDirectory(prefix="ccatune-acks-") as folder:
        Path(folder).chmod(0o711)
        done = as_nobody(",+bpf,+perfmon", Path(folder) / "enough")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["acks_lost"] == 0
        done = as_nobody(",+bpf", Path(folder) / "less")
        assert done.returncode == 2
        assert "expected CAP_BPF and CAP_PERFMON" in done.stderr
        assert "without --acks" in done.stderr
