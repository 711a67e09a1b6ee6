# SPDX-License-Identifier: MIT
"""`ccatune observe` on real connections of this machine."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.observations import NAMES, files_in, read_observations
from serving.agent import cli
from serving.agent.errors import ObserveError
from serving.agent.observe import diag as diag_module
from serving.agent.observe.addresses import cut, hashed, is_of_this_machine, salt_of
from serving.agent.observe.diag import Diag, Looked
from serving.agent.observe.sampler import missing_columns, row_of

REPOSITORY = Path(__file__).resolve().parents[4]
AT = {name: place for place, name in enumerate(NAMES)}


@contextlib.contextmanager
def pairs(number: int, host: str = "127.0.0.1") -> Iterator[tuple[int, list[tuple[socket.socket, socket.socket]]]]:
    """A port, and connections to it: the server's end and the client's."""
    with contextlib.ExitStack() as stack:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = stack.enter_context(socket.create_server((host, 0), family=family))
        found = []
        for _ in range(number):
            client = stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            found.append((stack.enter_context(listener.accept()[0]), client))
        yield listener.getsockname()[1], found


def observe(folder: Path, port: int, *options: str) -> subprocess.Popen[str]:
    """Start the command on all connections with a port."""
    command = [
        sys.executable, "-m", "serving.agent", "observe", "--folder", str(folder), "--share", "1", "--loopback",
        "--every-ms", "100", "--find-s", "0.3", "--port", str(port), *options,
    ]  # fmt: skip
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)


def wait_until_begun(folder: Path) -> None:
    """Wait until the first samples were taken."""
    deadline_s = time.monotonic() + 20
    while not (folder / "lock").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    time.sleep(0.5)


def run(folder: Path, port: int, *options: str) -> str:
    """Run it for half a second, and return its output."""
    with observe(folder, port, "--seconds", "0.5", "--json", *options) as process:
        output, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    return output


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_figures_are_those_that_the_socket_itself_gives(host: str) -> None:
    with pairs(3, host) as (port, found), contextlib.closing(Diag(ports=[port])) as diag:
        for number, (server, client) in enumerate(found):
            server.sendall(bytes(1000 * (number + 1)))
            client.recv(100_000)
        cookies, listed = diag.dump()
        assert len(cookies) == len(listed) == 3
        by_port = {one.ports[1]: (one, looked) for one, looked in zip(listed, diag.look(listed), strict=True)}
        for number, (server, client) in enumerate(found):
            one, looked = by_port[client.getsockname()[1]]
            assert looked is not None
            row = row_of(looked)
            assert one.ports[0] == port
            assert socket.inet_ntop(server.family, one.addresses[0]) == host
            assert all(map(is_of_this_machine, one.addresses))
            assert row[AT["bytes_acked"]] == 1000 * (number + 1)
            algorithm = server.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            assert looked.algorithm == algorithm
            info = server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
            own = row_of(Looked(1, info, algorithm, looked.vegas, looked.bbr))
            steady = ("bytes_acked", "bytes_sent", "snd_cwnd_pkts", "snd_mss_bytes", "rtt_us", "min_rtt_us", "busy_us")
            assert [row[AT[name]] for name in steady] == [own[AT[name]] for name in steady]


def test_a_connection_of_ipv4_to_a_socket_of_ipv6_has_an_ipv4_address() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), contextlib.closing(Diag(ports=[port])) as diag:
            _, (one,) = diag.dump()
            assert one.addresses == (bytes([127, 0, 0, 1]), bytes([127, 0, 0, 1]))
            assert diag.look([one])[0] is not None


def test_a_list_has_the_connections_of_its_ports_alone() -> None:
    with pairs(1) as (first, _), pairs(2) as (second, _), pairs(1) as (third, _):
        for ports, number in (
            ([first], 1),
            ([second, first], 3),
            ([1, first, 2], 1),
            ([1], 0),
            ([third, 9, second], 3),
        ):
            with contextlib.closing(Diag(ports=ports)) as diag:
                _, listed = diag.dump()
                assert sorted(one.ports[0] for one in listed) == sorted(
                    port for port, times in ((first, 1), (second, 2), (third, 1)) if port in ports for _ in range(times)
                )
                assert len(listed) == number


def test_a_share_has_the_same_members_each_time() -> None:
    with pairs(200) as (port, _), contextlib.closing(Diag(ports=[port])) as diag:
        _, some = diag.dump(share=0.1)
        _, more = diag.dump(share=0.2)
        assert 10 <= len(some) <= 30
        assert {one.cookie for one in some} <= {one.cookie for one in more}
        assert [one.cookie for one in diag.dump(share=0.1)[1]] == [one.cookie for one in some]


def test_a_closed_connection_is_found_closed_and_a_later_one_is_another(tmp_path: Path) -> None:
    with pairs(2) as (port, found), observe(tmp_path, port, "--json") as process:
        wait_until_begun(tmp_path)
        found[0][0].close()
        found[0][1].close()
        with pairs(0), socket.create_connection(("127.0.0.1", port)):
            time.sleep(0.8)
        process.send_signal(signal.SIGTERM)
        output, error = process.communicate(timeout=20)
        assert process.returncode == 0, error
    counts = json.loads(output)
    observed = read_observations(files_in(tmp_path))
    assert counts["flows"] == len(observed.flows) == 3
    assert sorted((one.ends.is_new, one.ended) for one in observed.flows[:2]) == [(False, ""), (False, "closed")]
    assert observed.flows[2].ends.is_new
    assert observed.found == counts["new"] == 1
    assert observed.opened == counts["opened"] >= 1


def test_times_of_day_are_right_where_the_first_connection_came_late(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with observe(tmp_path, listener.getsockname()[1]) as process:
            wait_until_begun(tmp_path)
            time.sleep(0.5)
            with socket.create_connection(listener.getsockname()) as client:
                client.sendall(bytes(1000))
                time.sleep(0.7)
                sampled_s = time.time()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        one = read_observations(files_in(tmp_path)).flows[0]
        assert one.start_s + one.times_us[-1] / 1e6 == pytest.approx(sampled_s, abs=0.25)


def test_a_killed_run_leaves_a_readable_file_and_the_next_one_finishes_it(tmp_path: Path) -> None:
    with pairs(1) as (port, found):
        with observe(tmp_path, port) as process:
            deadline_s = time.monotonic() + 30
            while not any(path.stat().st_size for path in files_in(tmp_path)) and time.monotonic() < deadline_s:
                found[0][0].sendall(bytes(1000))
                time.sleep(0.1)
            process.kill()
        (left,) = files_in(tmp_path)
        observed = read_observations([left])
        assert left.name.endswith(".part")
        assert observed.is_cut
        assert len(observed.flows[0].rows) > 20
        run(tmp_path, port)
    assert len(files_in(tmp_path)) == 2
    assert not any(path.name.endswith(".part") for path in files_in(tmp_path))


def test_only_connections_of_the_algorithm_are_sampled(tmp_path: Path) -> None:
    with pairs(2) as (port, found):
        found[0][0].setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        assert json.loads(run(tmp_path, port, "--only-algorithm", "reno"))["flows"] == 1
    (flow,) = read_observations(files_in(tmp_path)).flows
    assert (flow.ends.algorithm, flow.facts.algorithms) == ("reno", ["reno"])


def test_addresses_are_cut_or_hashed_and_ports_of_peers_left_out(tmp_path: Path) -> None:
    with pairs(1) as (port, _):
        run(tmp_path / "cut", port)
        for _ in range(2):
            run(tmp_path / "hash", port, "--hash")
    (flow,) = read_observations(files_in(tmp_path / "cut")).flows
    assert (flow.ends.local, flow.ends.peer, flow.ends.peer_port) == ("127.0.0.0/24", "127.0.0.0/24", 0)
    salt = tmp_path / "hash" / "salt"
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    expected = hashed(bytes([127, 0, 0, 1]), salt=salt.read_bytes())
    assert [one.ends.peer for one in read_observations(files_in(tmp_path / "hash")).flows] == [expected, expected]


def test_prefixes_and_hashes_of_addresses(tmp_path: Path) -> None:
    v4, v6 = bytes([192, 0, 2, 77]), socket.inet_pton(socket.AF_INET6, "2001:db8:1:2::3")
    assert cut(v4, bits_v4=24, bits_v6=48) == "192.0.2.0/24"
    assert cut(v4, bits_v4=0, bits_v6=48) == "0.0.0.0/0"
    assert cut(v6, bits_v4=24, bits_v6=48) == "2001:db8:1::/48"
    assert cut(v6, bits_v4=24, bits_v6=128) == "2001:db8:1:2::3/128"
    salt = salt_of(tmp_path)
    assert salt == salt_of(tmp_path)
    assert hashed(v4, salt=salt) != hashed(v4, salt=bytes(32))


def test_a_kernel_with_a_shorter_structure_lacks_columns_by_name() -> None:
    looked = Looked(1, bytes(range(104)), "cubic", b"", b"")
    missing = missing_columns(len(looked.info))
    assert "bytes_acked" in missing
    assert "rtt_us" not in missing
    assert row_of(looked)[AT["bytes_acked"]] == 0
    assert row_of(looked)[AT["rtt_us"]] == int.from_bytes(bytes(range(68, 72)), sys.byteorder)


def test_two_runs_cannot_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pairs(1) as (port, _), observe(tmp_path, port) as process:
        wait_until_begun(tmp_path)
        assert cli.run(["observe", "--folder", str(tmp_path)]) == 2
        process.terminate()
        process.communicate(timeout=20)
    assert "another `observe` uses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--share", "0"], "--share"),
        (["--share", "nan"], "a finite number, got nan"),
        (["--seconds", "1e300"], "--seconds"),
        (["--keep", "9"], "at least 64K"),
        (["--folder", "/proc/none"], "a folder to write to"),
        (["--to", "registry", "--url", "http://127.0.0.1:9"], "set --agent-id"),
        (["--to", "registry", "--agent-id", "a"], "url: expected"),
        ([one for port in range(1, 70) for one in ("--port", str(port))], "at most 64"),
    ],
)
def test_wrong_options_are_refused_by_a_clear_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert cli.run(["observe", "--folder", str(tmp_path), *options]) == 2
    assert words in capsys.readouterr().err


def test_samples_of_acks_without_the_program_are_refused_by_a_clear_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCATUNE_BPF", str(tmp_path / "none"))
    assert cli.run(["observe", "--acks", "--folder", str(tmp_path)]) == 2
    assert "expected the program ccatune-bpf" in capsys.readouterr().err
    # A program of another version answers with other records.
    other = tmp_path / "ccatune-bpf"
    other.write_text("#!/bin/sh\nhead -c 32 /dev/zero; cat\n", encoding="ascii")
    other.chmod(0o755)
    monkeypatch.setenv("CCATUNE_BPF", str(other))
    assert cli.run(["observe", "--acks", "--folder", str(tmp_path)]) == 2
    assert "got 0; install the version" in capsys.readouterr().err


def test_the_unit_has_the_rights_for_samples_of_acks_only_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    for options, rights in (["--unit"], 0), (["--unit", "--acks"], 1), (["--acks", "--unit"], 1):
        assert cli.run(["observe", *options]) == 0
        assert capsys.readouterr().out.count("\nAmbientCapabilities=CAP_BPF CAP_PERFMON\n") == rights


def test_a_settings_file_has_the_names_of_the_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "observe.toml"
    config.write_text('share = 1.0\nkeep = "1M"\nports = [1]\nloopback = true\n', encoding="ascii")
    options = ["--config", str(config), "--folder", str(tmp_path / "own"), "--seconds", "0.1", "--json"]
    assert cli.run(["observe", *options]) == 0
    assert json.loads(capsys.readouterr().out)["flows"] == 0
    config.write_text("shares = 1.0\n", encoding="ascii")
    assert cli.run(["observe", *options]) == 2
    assert "got the key 'shares'" in capsys.readouterr().err


def test_a_kernel_without_sock_diag_is_refused_by_a_clear_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))

    with monkeypatch.context() as patch:
        patch.setattr(diag_module.socket, "socket", refuse)
        with pytest.raises(ObserveError, match="CONFIG_INET_DIAG"):
            Diag()
    # A protocol of which the kernel cannot list sockets stands for a kernel without tcp_diag.
    monkeypatch.setattr(diag_module.socket, "IPPROTO_TCP", 200)
    with contextlib.closing(Diag()) as diag, pytest.raises(ObserveError, match="modprobe tcp_diag"):
        diag.dump()
