# SPDX-License-Identifier: MIT
"""What happens to sockets in mid-life: other algorithms, a smaller path MTU, repair, queues, namespaces that end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import inside
import tree

_RECORD = struct.Struct("<8BIIQQ24I")
_HEADER_BYTES = 32
_EVENT, _TIMEOUT, _TOLD, _LOST_WORD, _MSS_WORD = 6, 2, 7, 2, 8
_WITH_MSS = (4, 5, 6, 7)  # starts, ACKs, events, ACKs of window mode
_TCP_REPAIR, _TCP_REPAIR_QUEUE, _TCP_QUEUE_SEQ = 19, 20, 21
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_BYTES = b"\0" * 16384


def choose(connection: socket.socket, name: str) -> None:
    """Change the algorithm of a socket."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


@contextlib.contextmanager
def listening(*, backlog: int = 64, cca: str = "") -> Iterator[socket.socket]:
    """A listener on loopback whose connections inherit the algorithm, by default the one that was chosen."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
        choose(listener, cca or tree.NAME)
        yield listener


def connected(listener: socket.socket, cca: str = "") -> socket.socket:
    """A client of it."""
    client = socket.socket()
    choose(client, cca or tree.NAME)
    client.connect(listener.getsockname())
    return client


def close_at_once(connection: socket.socket) -> None:
    """With a reset, so that nothing lingers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def flow_of(connection: socket.socket) -> dict[str, str]:
    """Its line in `flows`; {} without one."""
    local = "{}:{}".format(*connection.getsockname())
    return next((flow for flow in tree.flows() if flow["local"] == local), {})


def change_over(job: dict[str, Any]) -> dict[str, Any]:
    """One connection under every algorithm in turn while it sends; each byte has to arrive."""
    other = next(its["name"] for its in job["subjects"].values() if its["name"] != tree.NAME)
    names = (tree.NAME, "cubic", other, tree.NAME, "reno", other)
    with listening() as listener:
        client = connected(listener)
        server = listener.accept()[0]
        sent = received = 0
        for number in range(job["changes"]):
            choose(client, names[number % len(names)])
            sent += client.send(_BYTES)
            received += len(server.recv(1 << 20))
        choose(client, tree.NAME)
        lines = len(tree.flows())
        while received < sent:
            received += len(server.recv(1 << 20))
        # Behind a disconnect it is nobody's, and a connection anew is one of its own.
        disconnect(client)
        server.close()
        between = flow_of(client)
        client.connect(listener.getsockname())
        again = flow_of(client).get("epoch")
        close_at_once(client)
    return {"lost": sent - received, "lines": lines, "disconnected": between, "epoch anew": again}


def disconnect(connection: socket.socket) -> None:
    """connect() to AF_UNSPEC, for which the library has no words."""
    address = struct.pack("H14x", socket.AF_UNSPEC)
    if ctypes.CDLL(None, use_errno=True).connect(connection.fileno(), address, len(address)):
        raise OSError(ctypes.get_errno(), "connect to AF_UNSPEC")


def reset_by_its_peer() -> dict[str, bool]:
    """Whether a connection has a line before, and behind a reset that its program has heard of and not closed it."""
    with listening() as listener:
        client = connected(listener)
        server = listener.accept()[0]
        local = "{}:{}".format(*client.getsockname())
        before = bool(flow_of(client))
        close_at_once(server)
        with contextlib.suppress(ConnectionResetError):
            client.recv(1)
        behind = any(flow["local"] == local for flow in tree.flows())
        client.close()
    return {"before": before, "behind": behind}


def queued(count: int) -> list[int]:
    """Flows while connections wait to be accepted, and when the listener has gone with them."""
    with listening(backlog=count) as listener:
        clients = [connected(listener, "cubic") for _ in range(count)]
        seen = [len(tree.flows())]
    for client in clients:
        client.close()
    inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the queue's end")
    return [*seen, len(tree.flows())]


def beyond_the_limit() -> dict[str, Any]:
    """Sockets for which there is no place are plain; one that asks again, when there is, gets one."""
    before = int(tree.status()["allocation_fallbacks"])
    tree.must("settings", "max_flows 1\n")
    try:
        with listening(cca="cubic") as listener:
            one, two = connected(listener), connected(listener)
            name = two.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            two.send(_BYTES)
            one.close()
            inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the first one's end")
            choose(two, tree.NAME)
            seen = {"name": name, "again": bool(flow_of(two))}
            close_at_once(two)
    finally:
        tree.must("settings", "max_flows 1048576\n")
    return {**seen, "fallbacks": int(tree.status()["allocation_fallbacks"]) - before}


def repaired() -> dict[str, str]:
    """A flow whose connection was never made but put there (TCP_REPAIR): the clock of its epochs begins then."""
    # An epoch of 30 s that began with the machine instead is over.
    time.sleep(max(0, 31 - time.clock_gettime(time.CLOCK_BOOTTIME)))
    ends = [socket.socket() for _ in range(2)]
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(("127.0.0.1", 0))
    names = [end.getsockname() for end in ends]
    for end, sequences, other in zip(ends, ((1000, 2000), (2000, 1000)), reversed(names), strict=True):
        choose(end, tree.NAME)
        # The queue to send is number 2, the one to receive number 1.
        for queue, sequence in zip((2, 1), sequences, strict=True):
            end.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR_QUEUE, queue)
            end.setsockopt(socket.IPPROTO_TCP, _TCP_QUEUE_SEQ, sequence)
        end.connect(other)
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 0)
    ends[0].send(b"once")
    seen = {"received": ends[1].recv(16).decode(), "epoch": flow_of(ends[0]).get("epoch", "no flow")}
    for end in ends:
        close_at_once(end)
    return seen


def records(data: bytes) -> list[tuple[int, ...]]:
    """The records of a recording: kind, event, ... and from place 12 on its words."""
    body = data[_HEADER_BYTES:]
    return [_RECORD.unpack_from(body, at) for at in range(0, len(body) - _RECORD.size + 1, _RECORD.size)]


def smaller_mtu(job: dict[str, Any]) -> dict[str, Any]:
    """The path's MTU shrinks under a flow behind slow start: it goes on in smaller packets, without timeout or loss."""
    with inside.chain(rate="20mbit", queue_bytes=100_000, delay_ms=20), inside.receiver():
        tree.must("recording", "start 60000\n")
        with inside.sending("--cca", tree.NAME, "--seconds", "60", "--sample", "1000") as sender:
            inside.wait_for(
                lambda: any(flow["mode"] in job["steady_modes"] for flow in tree.flows()),
                timeout_s=20,
                what="a flow after slow start",
                of=sender,
            )
            inside.run(*inside.within("router", "ip", "link", "set", "ccat2", "mtu", "1000"))
            acked = int(tree.flows()[0]["bytes_acked"])
            inside.wait_for(
                lambda: any(int(flow["bytes_acked"]) > acked + 500_000 for flow in tree.flows()),
                timeout_s=20,
                what="the flow going on",
                of=sender,
            )
        found = records(tree.take_recording(f"smaller-mtu-{tree.CCA}.recording"))
        # Without its path the socket would outlive this by minutes.
        inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the flow's end")
    sizes = [record[12 + _MSS_WORD] for record in found if record[0] in _WITH_MSS]
    return {
        "timeouts": sum(record[0] == _EVENT and record[1] == _TIMEOUT for record in found),
        "mss": [max(sizes), min(sizes)],
        "lost": [r[12 + _LOST_WORD] for r in found if r[0] == _TOLD and r[12 + _MSS_WORD] < max(sizes)][:1],
    }


def live_in_a_namespace(text: str) -> None:
    """In a child: a namespace of its own with a table and flows, which ends with the process, sockets open."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    inside.run("ip", "link", "set", "lo", "up")
    here = tree.OWN_PLACE / tree.CCA
    with listening() as listener:
        for _ in range(3):
            clients = [connected(listener) for _ in range(8)]
            tree.must("ensemble", text, here)
            for client in clients:
                client.send(_BYTES)
            if len(tree.flows(here)) < len(clients):
                raise AssertionError("expected the flows in the namespace's own tree")
            tree.must("ensemble", "clear\n", here)
        os.kill(os.getpid(), signal.SIGKILL)


def namespaces(job: dict[str, Any]) -> dict[str, Any]:
    """Namespaces that come and go with flows and tables in them, while the initial table changes."""
    texts = job["storm_tables"]
    ended = []
    for number in range(job["namespaces"]):
        child = os.fork()
        if not child:
            try:
                live_in_a_namespace(texts[number % len(texts)])
            finally:
                os._exit(1)
        for text in texts:
            tree.must("ensemble", text)
            tree.must("ensemble", "clear\n")
            tree.read("flows")
        ended.append(os.waitpid(child, 0)[1])
    flows = tree.status()["flows"]
    # The kernel says so in its log where a cache that goes is not empty: flows whose memory nobody freed.
    tree.unload_modules(job)
    tree.load_modules(job)
    return {"ended": ended, "flows": flows}


def churn(job: dict[str, Any]) -> int:
    """Connections that come and go while `flows` is read; the lines that were not a flow's."""
    child = os.fork()
    if not child:
        with listening() as listener:
            while True:
                client = connected(listener)
                server = listener.accept()[0]
                client.send(b"x")
                close_at_once(client)
                close_at_once(server)
    strange = 0
    end_s = time.monotonic() + job["churn_s"]
    try:
        while time.monotonic() < end_s:
            for flow in tree.flows():
                good = flow["local"].startswith("127.0.0.1:") and flow["remote"].startswith("127.0.0.1:")
                strange += not (good and flow["mode"] in job["modes"])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return strange


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it."""
    return {
        "changed over": change_over(job),
        "reset by its peer": reset_by_its_peer(),
        "queued": queued(20),
        "beyond the limit": beyond_the_limit(),
        "smaller mtu": smaller_mtu(job),
        "namespaces": namespaces(job),
        "strange lines": churn(job),
        "repaired": repaired(),
    }
