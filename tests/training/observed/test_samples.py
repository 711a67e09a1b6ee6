# SPDX-License-Identifier: MIT
"""Flows from `ccatune observe` and from logs of ss: of real connections on this machine, and of made texts."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kmod.errors import CcatuneError
from kmod.observation_writer import ObservationWriter
from kmod.observations import NAMES, Ends, Facts
from training.observed.flow import Flow, Limit
from training.observed.samples import is_samples, read_samples
from training.observed.ss_logs import read_ss

REPOSITORY = Path(__file__).resolve().parents[3]
SECONDS = 3.0
PACED_BYTES_PER_S = 2_000_000
needs_ss = pytest.mark.skipif(shutil.which("ss") is None, reason="not installed: ss")


@dataclass
class Server:
    """Connections on loopback, whose server's ends send. port: of the server. kinds: by the peer's port."""

    port: int
    kinds: dict[int, str] = field(default_factory=dict)


def _discard(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while client.recv(1 << 16):
            pass


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _repeat(server: socket.socket, size_bytes: int, pause_s: float) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.sendall(bytes(size_bytes))
            time.sleep(pause_s)


def _paced(server: socket.socket) -> None:
    server.setsockopt(socket.SOL_SOCKET, 47, PACED_BYTES_PER_S)  # SO_MAX_PACING_RATE
    _repeat(server, 65536, 0)


SENDERS: dict[str, Callable[[socket.socket], None]] = {
    "paced": _paced,
    "application": lambda server: _repeat(server, 10_000, 0.03),
    "bursts": lambda server: _repeat(server, 1_000_000, 0.7),
    "receiver": lambda server: _repeat(server, 1_000_000, 0),
}


@contextlib.contextmanager
def serving(host: str = "127.0.0.1") -> Iterator[Server]:
    """One connection of each kind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, 0), family=family))
        found = Server(listener.getsockname()[1])
        for kind, send in SENDERS.items():
            client = stack.enter_context(socket.create_connection((host, found.port)))
            server = stack.enter_context(listener.accept()[0])
            found.kinds[client.getsockname()[1]] = kind
            for one in (client, server):
                stack.callback(_end, one)
            if kind != "receiver":
                threading.Thread(target=_discard, args=(client,), daemon=True).start()
            threading.Thread(target=send, args=(server,), daemon=True).start()
        yield found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Server, dict[str, Path]]:
    """The same seconds of the same connections, as `observe` and a loop of ss saw them."""
    folder = tmp_path_factory.mktemp("recorded")
    log = folder / "connections.log"
    observe = [
        sys.executable, "-m", "ccatune", "observe", "--folder", str(folder / "observed"), "--share", "1", "--loopback",
        "--every-ms", "100", "--peer-ports", "--seconds", str(SECONDS),
    ]  # fmt: skip
    with serving() as server:
        loop = f"while sleep 0.1; do date +%s.%N; ss -tin 'sport = :{server.port}'; done"
        with log.open("wb") as file, subprocess.Popen(["bash", "-c", loop], stdout=file) as shell:
            subprocess.run([*observe, "--port", str(server.port)], cwd=REPOSITORY, check=True, capture_output=True)
            shell.kill()
    return server, {"observe": folder / "observed", "ss": log}


def by_kind(server: Server, flows: list[Flow]) -> dict[str, Flow]:
    """The flows by the kinds of their senders."""
    ports = [int(flow.name.split(" #")[0].rpartition(":")[2]) for flow in flows]
    return {server.kinds[port]: flow for port, flow in zip(ports, flows, strict=True)}


@needs_ss
@pytest.mark.parametrize("source", ["observe", "ss"])
def test_what_limited_a_real_sender_is_recognised(recorded: tuple[Server, dict[str, Path]], source: str) -> None:
    server, paths = recorded
    assert is_samples(paths[source])
    flows = by_kind(server, read_samples(paths[source]))
    wanted = {"paced": Limit.NETWORK, "application": Limit.APPLICATION, "bursts": Limit.APPLICATION,
              "receiver": Limit.RECEIVER}  # fmt: skip
    assert set(flows) == set(wanted)
    for kind, limit in wanted.items():
        limits = Counter(flows[kind].steps["limit"][1:].tolist())
        assert limits[limit] >= 0.8 * limits.total(), (kind, limits)
        assert flows[kind].algorithm
        assert flows[kind].min_rtt_us > 0


@needs_ss
@pytest.mark.parametrize("source", ["observe", "ss"])
def test_rates_and_transfers_are_those_of_the_senders(recorded: tuple[Server, dict[str, Path]], source: str) -> None:
    server, paths = recorded
    flows = by_kind(server, read_samples(paths[source]))
    paced = flows["paced"]
    assert paced.steps["delivered_bytes"][-1] / paced.duration_s == pytest.approx(PACED_BYTES_PER_S, rel=0.1)
    bursts = flows["bursts"]
    assert len(bursts.transfers_us) == pytest.approx(bursts.duration_s / 0.7, abs=1.5)
    for segment in bursts.segments():
        assert segment.steps["delivered_bytes"][-1] - segment.steps["delivered_bytes"][0] <= 1_000_000 + 3 * 65_483


@needs_ss
def test_options_of_ss_change_nothing_that_is_read() -> None:
    with serving("::1") as server:
        time.sleep(0.1)
        options = ["-tin", "-tinO", "-tinoe", "-tinm", "-tinmoepO", "-tinaH", "-tuin"]
        where = f"sport = :{server.port}"
        stuck = next(port for port, kind in server.kinds.items() if kind == "receiver")
        found = {}
        for one in options:
            text = subprocess.run(["ss", one, where], capture_output=True, check=True).stdout
            flows = read_ss(b"1700000000.5\n" + text, source=one)
            assert len(flows) == len(SENDERS), one
            (flow,) = (flow for flow in flows if flow.name.endswith(f":{stuck}"))
            found[one] = (flow.name, flow.algorithm, flow.rows[0]["bytes_acked"], flow.rows[0]["snd_mss_bytes"])
        assert len(set(found.values())) == 1, found


HEAD = "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
ENDS = "ESTAB 0 0 192.0.2.1:443 198.51.100.7:50000\n"


def details(acked: int, *, more: str = "") -> str:
    """The second line of a connection."""
    return (
        f"\t cubic wscale:7,7 rto:204 rtt:20.5/2 mss:1000 cwnd:10 bytes_acked:{acked} delivery_rate 8000bps "
        f"busy:1ms notsent:1 {more}\n"
    )


def log_of(*lists: str, at_s: float = 1_700_000_000.0) -> str:
    """A log with a list each 0.2 s."""
    return "".join(f"{at_s + 0.2 * number:.9f}\n{HEAD}{one}" for number, one in enumerate(lists))


GOOD = log_of(ENDS + details(1000), ENDS + details(3000), ENDS + details(4000))


def test_clocks_of_the_kernel_decide_what_limited_an_interval(tmp_path: Path) -> None:
    # busy, receiver and send buffer in ms, and other signs, at the end of each interval of 200 ms.
    rows = [
        (0, 0, 0, "notsent:5", None),
        (200, 0, 0, "notsent:5", Limit.NETWORK),
        (390, 0, 0, "notsent:5 app_limited", Limit.NETWORK),
        (540, 0, 0, "notsent:5", Limit.NETWORK),
        (590, 0, 0, "notsent:5", Limit.APPLICATION),
        (790, 150, 0, "notsent:5", Limit.RECEIVER),
        (990, 150, 120, "notsent:5", Limit.SEND_BUFFER),
        (1190, 150, 120, "app_limited", Limit.APPLICATION),
        (1390, 150, 120, "unacked:10", Limit.NETWORK),
        (1540, 150, 120, "unacked:10", Limit.APPLICATION),
        (1740, 150, 120, "unacked:9", Limit.NETWORK),
        (1940, 150, 120, "unacked:9", Limit.APPLICATION),
    ]
    lists = [
        f"{ENDS}\t cubic rto:204 rtt:20/2 mss:1000 cwnd:10 bytes_acked:{1000 * number + 1} busy:{busy}ms "
        f"rwnd_limited:{receiver}ms(1.0%) sndbuf_limited:{buffer}ms(2.0%) {signs}\n"
        for number, (busy, receiver, buffer, signs, _) in enumerate(rows)
    ]
    path = tmp_path / "log"
    path.write_text(log_of(*lists), encoding="ascii")
    (flow,) = read_samples(path)
    assert [Limit(limit) for limit in flow.steps["limit"][1:]] == [row[4] for row in rows[1:]]


@pytest.mark.parametrize(("busy_share", "notsent_bytes", "limit"), [
    (1.0, 5, Limit.NETWORK), (0.5, 0, Limit.APPLICATION), (0.6, 5, Limit.NETWORK), (0.25, 5, Limit.APPLICATION),
])  # fmt: skip
def test_samples_of_acks_have_their_own_rtts_and_clocks_of_tenths_of_a_second(
    tmp_path: Path, busy_share: float, notsent_bytes: int, limit: Limit
) -> None:
    facts = Facts(every_ms=200, find_s=5, share=1, addresses="cut", acks_per_s=1000)
    writer = ObservationWriter(tmp_path, facts=facts)
    row = dict.fromkeys(NAMES, 0) | {
        "snd_mss_bytes": 1000, "rtt_us": 20_000, "snd_cwnd_pkts": 10, "unacked_pkts": 10, "min_rtt_us": 15_000,
        "notsent_bytes": notsent_bytes,
    }  # fmt: skip
    writer.tick(0)
    writer.flow(1, Ends(local="192.0.2.0/24", local_port=443, peer="198.51.100.0/24", algorithm="cubic", is_new=True))
    for number in range(200):
        # An ACK each 5 ms. The clocks advance by jiffies of 4 ms.
        writer.tick(5000 * number)
        busy_us = int(5000 * number * busy_share) // 4000 * 4000
        row |= {"bytes_acked": 1000 * number, "busy_us": busy_us, "last_rtt_us": 16_000 + number}
        writer.row(1, tuple(row.values()))
    writer.finish()
    (flow,) = read_samples(tmp_path)
    assert (flow.kind, flow.has_each_ack, flow.remarks) == ("acks", True, ())
    assert flow.steps["rtt_us"][1:].tolist() == [16_000 + number for number in range(1, 200)]
    # The first rows have no tenth of a second before them.
    assert Counter(flow.steps["limit"][30:].tolist()) == {limit: 170}


def test_losses_and_packets_in_flight_follow_the_kernels_counters(tmp_path: Path) -> None:
    lists = [
        ENDS + details(1000, more="unacked:10"),
        ENDS + details(3000, more="unacked:10 sacked:4 lost:3 retrans:1/1"),
        ENDS + details(7000, more="unacked:5 retrans:0/3 minrtt:15.25"),
    ]
    path = tmp_path / "log"
    path.write_text(log_of(*lists), encoding="ascii")
    (flow,) = read_samples(path)
    assert flow.steps["delivered_bytes"].tolist() == [0, 6000, 6000]
    assert flow.steps["lost_pkts"].tolist() == [0, 3, 3]
    assert flow.steps["inflight_bytes"].tolist() == [10_000, 4000, 5000]
    assert (flow.mss_bytes, flow.algorithm, flow.start_s) == (1000, "cubic", pytest.approx(1.7e9))


OLD = """State      Recv-Q Send-Q Local Address:Port               Peer Address:Port
ESTAB      0      0      192.0.2.1:443                198.51.100.7:50000
\t ts sack cubic wscale:7,7 rto:204 rtt:20.5/2 ato:40 mss:1000 cwnd:10 ssthresh:7 bytes_acked:{} segs_out:9 \
send 3.9Mbps lastsnd:4 pacing_rate 4.7Mbps unacked:2 retrans:0/1 rcv_space:29200
"""
ODD = {
    "iproute2 4.9, without busy times": log_of(OLD.format(1000), OLD.format(4000)).replace(HEAD, ""),
    "ISO 8601 times": GOOD.replace("1700000000.000000000", "2023-11-14T22:13:20,000000000+00:00")
                          .replace("1700000000.200000048", "2023-11-14T22:13:20,200000048+00:00"),
    "lines that end as on Windows": GOOD.replace("\n", "\r\n"),
    "a list before the first time": HEAD + ENDS + details(1) + GOOD,
    "the last line is cut": GOOD + f"1700000001\n{HEAD}{ENDS}" + details(9_000_000)[:-30],
    "no column with the state": GOOD.replace("State ", "").replace("ESTAB ", ""),
    "listening sockets": GOOD.replace(HEAD, f"{HEAD}LISTEN 0 5 0.0.0.0:443 0.0.0.0:*\n\t cubic cwnd:10\n"),
}  # fmt: skip


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_log_gives_the_same_flow(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(text.encode("ascii"))
    (flow,) = read_samples(path)
    assert flow.steps["delivered_bytes"][-1] == 3000
    assert flow.steps["rtt_us"][-1] == 20_500


DAMAGED = {
    "nothing in it": ("", "got an empty file"),
    "a binary file": ("\x7fELF\0\0", "got a binary file"),
    "another text": ("hello\n", "line 1: expected a time, a heading or a connection"),
    "no times": (HEAD + ENDS + details(1) + HEAD + ENDS + details(2), "expected a time before each list"),
    "times of whole seconds": (GOOD.replace(".200000048", "").replace(".000000000", ""), "line 5: expected a later"),
    "a time that goes back": (GOOD + log_of(ENDS + details(5000), at_s=1.6e9), "line 13: expected a later time"),
    "no details": (log_of(ENDS, ENDS), "expected the details of connections, which `ss -i` prints"),
    "no bytes acknowledged": (GOOD.replace("bytes_acked", "bytes_received"), "expected bytes_acked"),
    "a number that is none": (GOOD.replace("bytes_acked:3000", "bytes_acked:3O00"), "line 7: expected a number of byt"),
    "a number below 0": (GOOD.replace("mss:1000", "mss:-1"), "line 3: expected a number of mss"),
    "an impossible number": (GOOD.replace("mss:1000", "mss:9000000000"), "expected snd_mss_bytes from 0 to 131071"),
    "a year that no clock has": (GOOD.replace("1700000000", "0001-01-01T00:00:00", 1), "line 1: expected a time"),
    "retransmissions without a sum": (log_of(ENDS + details(1, more="retrans:4")), "expected a number of retrans"),
    "a connection that is still": (log_of(*3 * [ENDS + details(1000).replace("notsent:1", "")]), "sent data between"),
    "one list alone": (log_of(ENDS + details(1000)), "sent data between two samples"),
    "no TCP": (log_of("LISTEN 0 5 0.0.0.0:443 0.0.0.0:*\n"), "expected the details of connections"),
    "a cut gzip file": ("\x1f\x8b\x08\x00", "damaged gzip file"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_log_is_refused_by_a_clear_word(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CcatuneError) as raised:
        read_samples(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_later_connection_with_the_same_addresses_is_another_flow(tmp_path: Path) -> None:
    path = tmp_path / "log"
    counts = (1000, 3000, 500, 4500)
    path.write_text(log_of(*(ENDS + details(count) for count in counts)), encoding="ascii")
    assert [flow.steps["delivered_bytes"][-1] for flow in read_samples(path)] == [2000, 4000]
