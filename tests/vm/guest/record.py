# SPDX-License-Identifier: MIT
"""Recordings of what the kernel's algorithms were told and decided, with everything in them that can happen to a flow.

Slow start, loss, a timeout (the path dark for a while), undo (packets late and not lost), idle times, epochs and a
table moved under the flow. Then a flow that pauses between transfers: the kernel notifies a congestion control when a
flow that has nothing in flight sends again. Pauses are shorter than a retransmission timeout (a transfer starts) and
longer (an idle restart). The recordings are left in the shared folder, for a replay on the host.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import inside
import tree

_CHUNK = b"\0" * 65536
TRANSFER = b"\0" * 30_000
_SEGS_IN = 140  # offset of tcpi_segs_in, include/uapi/linux/tcp.h
_MOST_S = 900
_NETEM = ("tc", "qdisc", "replace", "dev", "ccat3", "root", "netem", "limit", "100000")


def connect(name: str) -> socket.socket:
    """A connection under this congestion control."""
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    connection.connect((inside.FAR, 5201))
    connection.settimeout(0.2)
    return connection


def push(connection: socket.socket | Sequence[socket.socket], seconds: float) -> None:
    """Send as fast as the kernel takes it, on one connection or on several at once."""
    connections = [connection] if isinstance(connection, socket.socket) else connection
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for one in select.select([], connections, [], 0.2)[1]:
            with contextlib.suppress(TimeoutError):
                one.send(_CHUNK)


def push_until(connection: socket.socket | Sequence[socket.socket], acks: int) -> None:
    """Send until so many ACKs have come on each: a busy machine takes longer for them, and records as many."""
    connections = [connection] if isinstance(connection, socket.socket) else connection
    end_s = time.monotonic() + _MOST_S
    while time.monotonic() < end_s:
        push(connections, 0.5)
        if min(map(acks_of, connections)) >= acks:
            return


def acks_of(connection: socket.socket) -> int:
    """The segments that came."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SEGS_IN + 4)
    return int(struct.unpack_from("I", info, _SEGS_IN)[0])


def back(*words: str) -> None:
    """Change what happens to ACKs on their way back."""
    inside.run(*inside.within("far", *_NETEM, *words))


def forth(*words: str) -> None:
    """Change what happens to packets before the bottleneck."""
    inside.run(*inside.within("router", "tc", "qdisc", "replace", "dev", "ccat2", "root", "netem", *words))


def live_through(connection: socket.socket, job: dict[str, Any], *, move: Callable[[], object]) -> None:
    """Everything that can happen to a flow, in turn. move: writes another table while the flow runs."""
    push(connection, 2)
    forth("rate", "60mbit", "limit", "100", "loss", "1%")
    push(connection, 2)
    move()
    # Late, not lost: the RTO fires, the ACKs come, and the timestamps tell that it was for nothing.
    for _ in range(job["spurious"]):
        back("delay", "900ms")
        push(connection, 0.5)
        back("delay", "20ms")
        push(connection, 1)
    # Out of order: a recovery that the duplicates' reports undo.
    forth("rate", "60mbit", "limit", "200", "delay", "15ms", "reorder", "98%", "gap", "40")
    push(connection, 1.5)
    forth("rate", "60mbit", "limit", "100", "loss", "100%")
    push(connection, 1)
    forth("rate", "60mbit", "limit", "100")
    push(connection, 2.5)
    for pause_s in job["pauses_s"]:
        inside.wait_for(lambda: not unsent(connection), timeout_s=60, what="everything sent")
        time.sleep(pause_s)
        push(connection, 0.3)
    push_until(connection, job["record_acks"])


def live_briefly(
    connection: socket.socket | Sequence[socket.socket], job: dict[str, Any], *, move: Callable[[], object]
) -> None:
    """Slow start, losses, and as many ACKs as a brief recording needs."""
    push(connection, 1)
    forth("rate", "60mbit", "limit", "100", "loss", "1%")
    move()
    push_until(connection, job["brief_acks"])


def with_pauses(names: Sequence[str], job: dict[str, Any]) -> None:
    """A flow of each of transfers with pauses in between, each of them acknowledged."""
    forth("rate", "60mbit", "limit", "100")
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(name)) for name in names]
        for pause_s in (0, *job["transfer_pauses_s"]):
            time.sleep(pause_s)
            for connection in connections:
                connection.settimeout(60)
                connection.sendall(TRANSFER)
            inside.wait_for(lambda: not any(map(unsent, connections)), timeout_s=60, what="everything acknowledged")


def unsent(connection: socket.socket) -> int:
    """Bytes that are not acknowledged yet (SIOCOUTQ)."""
    import fcntl

    return int(struct.unpack("i", fcntl.ioctl(connection, 0x5411, b"\0\0\0\0"))[0])


def record(ccas: Sequence[str], job: dict[str, Any], *, without_table: str = "", brief: bool) -> dict[str, int]:
    """A recording of each, of flows at once, and its bytes. Only one flow at a time is not brief."""
    subjects = {cca: job["subjects"][cca] for cca in ccas}
    followers = [cca for cca in ccas if cca != without_table]
    names = [its["name"] for its in subjects.values()]

    def put(table: str) -> None:
        for cca in followers:
            tree.must("ensemble", subjects[cca]["tables"][table], tree.PLACE / cca)

    def epochs() -> list[int]:
        return [int(tree.flows(tree.PLACE / cca)[0]["epoch"]) for cca in followers]

    def move() -> None:
        put("moved_levels")
        before = epochs()

        def have_taken_it() -> bool:
            push(connections, 0.2)
            return all(now > then for now, then in zip(epochs(), before, strict=True))

        inside.wait_for(have_taken_it, timeout_s=30, what="the flows' next epochs")

    put("levels")
    back("delay", "20ms")
    forth("rate", "60mbit", "limit", "100")
    for cca in subjects:
        tree.must("recording", "start 200000\n", tree.PLACE / cca)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(name)) for name in names]
        if brief:
            live_briefly(connections, job, move=move)
        else:
            live_through(connections[0], job, move=move)
        with_pauses(names, job)
    for cca in subjects:
        tree.must("ensemble", "clear\n", tree.PLACE / cca)
    return {cca: len(tree.take_recording(f"{cca}.recording", tree.PLACE / cca)) for cca in subjects}


def main(job: dict[str, Any]) -> dict[str, int]:
    """The subject under a table, then other modules briefly and at once, the first of them without a table."""
    beside = [] if job["brief"] else job["recorded_beside"]
    with inside.chain(), inside.receiver():
        found = record([job["cca"]], job, brief=job["brief"])
        return found | (record(beside, job, without_table=beside[0], brief=True) if beside else {})
