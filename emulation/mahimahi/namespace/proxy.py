# SPDX-License-Identifier: MIT
"""The proxy of a scenario's flows, in a namespace between servers and clients: proxy.py PLAN RESULT SERVERS.

HAProxy in TCP mode listens on the port of each flow and connects to the same port of the address SERVERS. The flow's
algorithm is that of its route to the clients (`ip route ... congctl`), which its port selects. The connection has it
from its first packet on.

    buffer   of each connection, the receive buffer (tcp_rmem) and the send buffer (tcp_wmem) have a fixed size.
             HAProxy itself holds up to 16 KiB between the two

The connections belong to HAProxy, so their tcp_info is read by sock_diag. The program prints `ready` when all of them
exist, and then reads the time of the beginning, as the ends do (flows.py). It writes into RESULT, as JSON:

    {"sent": the samples of the connections to the clients, "received": those of the connections to the servers}

A flow with a size is complete when the client has acknowledged it. Its time is as exact as the samples.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import flows, shells, traffic
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import flows
    import shells
    import traffic

CONFIGURATION = """\
global
    nbthread 1
defaults
    mode tcp
    timeout connect 60s
    timeout client 1d
    timeout server 1d
"""
_SECTION = """\
listen flow-{number}
    bind 0.0.0.0:{port}
    server server {servers}:{port}
"""
# Linux counts the memory of packets, not their data.
_MEMORY_PER_BYTE = 1.4
# The receive buffer has to be larger than what is under way from the server, the send buffer than what is under way to
# the client.
_RECEIVE_SHARE = 0.25
_FIRST_TABLE = 1000
_READY_S = 30.0
_LOOK_S = 0.02
# The kernel gives up the data that is left after so many retransmissions when HAProxy has ended.
_ORPHAN_RETRIES = 1

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_DUMP_REQUEST = 0x301
_NLMSG_DONE = 3
_INET_DIAG_INFO = 2
_ESTABLISHED = 1 << 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ATTRIBUTE = struct.Struct("=HH")
_MESSAGE_BYTES = 72
_PORTS = struct.Struct("!HH")
_PORTS_AT = 4

Infos = dict[int, dict[str, int]]


def established() -> dict[tuple[int, int], dict[str, int]]:
    """Return tcp_info of the namespace's established connections (IPv4), by their own port and the other end's."""
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _ESTABLISHED)
    found: dict[tuple[int, int], dict[str, int]] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diag:
        diag.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP_REQUEST, 0, 0) + request)
        while True:
            data = diag.recv(1 << 18)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind == _NLMSG_DONE:
                    return found
                if kind != _SOCK_DIAG_BY_FAMILY:
                    raise shells.ShellError(f"sock_diag: expected connections, got a message of type {kind}")
                message, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
                found[_PORTS.unpack_from(message, _PORTS_AT)] = traffic.info_of(_attribute(message, _INET_DIAG_INFO))


def _attribute(message: bytes, wanted: int) -> bytes:
    at = _MESSAGE_BYTES
    while at < len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == wanted:
            return message[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return b""


def infos_of(first_port: int, count: int) -> tuple[Infos, Infos]:
    """Return tcp_info of the flows' connections to the clients and to the servers, by the flows' numbers."""
    numbers = {first_port + number: number for number in range(count)}
    found = established()
    to_clients = {numbers[own]: info for (own, _), info in found.items() if own in numbers}
    return to_clients, {numbers[far]: info for (_, far), info in found.items() if far in numbers}


def choose_algorithms(algorithms: list[str], first_port: int) -> None:
    """Give each flow a route to the clients with its algorithm, which a rule for its port selects."""
    routes = shells.call("ip", "route", "show").splitlines()
    (to_servers,) = (route.split(" dev ")[1].split()[0] for route in routes if route.startswith("default "))
    to_clients = [route.split() for route in routes if f" dev {to_servers} " not in f"{route} "]
    for number, algorithm in enumerate(algorithms):
        table = str(_FIRST_TABLE + number)
        for route in to_clients:
            shells.call("ip", "route", "add", *route, "table", table, "congctl", algorithm)
        port = str(first_port + number)
        shells.call("ip", "rule", "add", "ipproto", "tcp", "sport", port, "lookup", table)


def prepare(plan: dict[str, Any], servers: str, configuration: Path) -> None:
    """Set the namespace up, and write HAProxy's configuration."""
    proxy = plan["proxy"]
    for name, share in (("tcp_rmem", _RECEIVE_SHARE), ("tcp_wmem", 1 - _RECEIVE_SHARE)):
        size_bytes = round(proxy["buffer_bytes"] * _MEMORY_PER_BYTE * share)
        shells.call("sysctl", "-qw", f"net.ipv4.{name}=4096 {size_bytes} {size_bytes}")
    for setting in (f"tcp_orphan_retries={_ORPHAN_RETRIES}", "tcp_no_metrics_save=1"):
        shells.call("sysctl", "-qw", f"net.ipv4.{setting}")
    for path, text in proxy["writes"]:
        with Path(path).open("w", encoding="utf-8") as file:
            file.write(text)
    choose_algorithms(proxy["algorithms"], plan["port"])
    sections = (
        _SECTION.format(number=number, port=plan["port"] + number, servers=servers)
        for number in range(len(proxy["algorithms"]))
    )
    configuration.write_text(CONFIGURATION + "".join(sections), encoding="utf-8")


def await_connections(plan: dict[str, Any], haproxy: subprocess.Popen[bytes]) -> tuple[Infos, Infos]:
    """Wait until all connections exist, and return their tcp_info. Raises ShellError if they do not."""
    count, end_s = len(plan["proxy"]["algorithms"]), time.monotonic() + _READY_S
    while time.monotonic() < end_s and haproxy.poll() is None:
        infos = infos_of(plan["port"], count)
        if all(len(side) == count for side in infos):
            return infos
        time.sleep(_LOOK_S)
    raise shells.ShellError(f"haproxy: expected {count} connections on each side within {_READY_S:g} s, got fewer")


def transfers_of(plan: dict[str, Any], at_start: Infos, rows: list[list[float]]) -> dict[str, list[list[float | None]]]:
    """Return [start, completion or null] in s of each flow that has a size, by its number."""
    column = 2 + flows.FIELDS.index("acked_bytes")
    transfers: dict[str, list[list[float | None]]] = {}
    for number, flow in enumerate(plan["flows"]):
        if flow["transfers"]:
            end_bytes = at_start[number]["acked_bytes"] + flow["transfers"][0][0]
            times_s = (row[1] for row in rows if row[0] == number and row[column] >= end_bytes)
            transfers[str(number)] = [[flow["start_s"], next(times_s, None)]]
    return transfers


def sample(plan: dict[str, Any], at_start: Infos) -> dict[str, object]:
    """Sample all connections until the end of the scenario, and return the result."""
    sent, received = flows.Samples(plan["sample_s"]), flows.Samples(plan["sample_s"])
    clock = flows.await_beginning()
    while (now_s := clock.now_s()) < plan["duration_s"]:
        if now_s >= sent.next_s:
            for side, infos in zip((sent, received), infos_of(plan["port"], len(at_start)), strict=True):
                side.add(now_s, infos)
        time.sleep(max(0.0, min(sent.next_s, plan["duration_s"]) - clock.now_s()))
    transfers = transfers_of(plan, at_start, sent.rows)
    return {
        "sent": {"fields": flows.FIELDS, "rows": sent.rows, "transfers": transfers, "late_s": 0.0},
        "received": {"fields": flows.FIELDS, "rows": received.rows, "transfers": {}, "late_s": 0.0},
    }


def main() -> None:
    """Run with the arguments PLAN RESULT SERVERS."""
    plan_file, result_file, servers = sys.argv[1:]
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    configuration = Path(result_file).with_suffix(".cfg")
    prepare(plan, servers, configuration)
    words = ["setpriv", "--pdeathsig", "KILL", "--", plan["proxy"]["program"], "-db", "-f", str(configuration)]
    haproxy = subprocess.Popen(words, stdout=sys.stderr)
    try:
        to_clients, _ = await_connections(plan, haproxy)
        result = sample(plan, to_clients)
    finally:
        haproxy.kill()
        haproxy.wait()
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
