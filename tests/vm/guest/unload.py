# SPDX-License-Identifier: MIT
"""Modules unloaded with a hundred flows open and clients in the table, and while sockets come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import Counter
from typing import Any

import inside
import life
import record
import tree


def clients() -> int:
    """Lines of `clients`; 0 where the algorithm has none."""
    return len(tree.read("clients").splitlines()) if (tree.here() / "clients").exists() else 0


def opened(stack: contextlib.ExitStack, cca: str, *, far: int, near: int) -> list[socket.socket]:
    """Connections over the chain, and to as many addresses of loopback: a client each."""
    listener = stack.enter_context(socket.create_server(("", 0), backlog=near))
    port = listener.getsockname()[1]
    found = []
    for address in [(inside.FAR, 5201)] * far + [(f"127.0.0.{1 + n}", port) for n in range(near)]:
        connection = stack.enter_context(socket.socket())
        life.choose(connection, cca)
        connection.settimeout(300)
        connection.connect(address)
        found.append(connection)
    receivers = [stack.enter_context(listener.accept()[0]) for _ in range(near)]
    for receiver in receivers:
        # What it is sent fits, unread.
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return found


def under_many(job: dict[str, Any]) -> dict[str, Any]:
    """Refused while they are open; they finish; then all modules go, whatever the table of clients holds."""
    told = job["unload"]
    half = b"\0" * (told["bytes"] // 2)
    refused: Counter[str] = Counter()
    with inside.chain(rate="50mbit", queue_bytes=500_000, delay_ms=20), inside.receiver():
        with contextlib.ExitStack() as stack:
            flows = opened(stack, job["cca"], far=told["flows"] - told["clients"], near=told["clients"])
            for flow in flows:
                flow.sendall(half)
            known, seen = clients(), len(tree.flows())
            for _ in range(told["attempts"]):
                for name in (job["module"], "ccatune", *(["tcp_rtcp"] if known else [])):
                    refused[tree.rmmod(name)] += 1
            for flow in flows:
                flow.sendall(half)
            for flow in flows:
                inside.wait_for(lambda flow=flow: not record.unsent(flow), timeout_s=300, what="a flow's end")
            behind = len(tree.flows())
        left = clients()
        inside.wait_for(lambda: tree.status()["flows"] == "0", timeout_s=60, what="the sockets' end")
        tree.unload_modules(job)
        tree.load_modules(job)
    return {
        "clients": known,
        "flows": seen,
        "refused": refused,
        "flows behind it": behind,
        "clients left": left,
        "clients of the next": clients(),
    }


def while_sockets_come_and_go(job: dict[str, Any]) -> dict[str, int]:
    """A process opens connections under the algorithm, as long as there is one; the module is unloaded in between."""
    child = os.fork()
    if not child:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            while True:
                client = socket.socket()
                with contextlib.suppress(OSError):  # it is not there, or on its way
                    life.choose(client, job["cca"])
                client.connect(listener.getsockname())
                server = listener.accept()[0]
                client.send(b"x" * 4000)
                life.close_at_once(client)
                life.close_at_once(server)
    found: Counter[str] = Counter()
    try:
        for _ in range(job["unload"]["rounds"]):
            for _ in range(500):
                answer = tree.rmmod(job["module"])
                if not answer:
                    break
                found["refused"] += "in use" in answer or "unavailable" in answer
            found["unloaded"] += not answer
            tree.load_modules(job)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return dict(found)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Both."""
    tree.must("ensemble", job["storm_tables"][0])
    return {"many": under_many(job), "coming and going": while_sockets_come_and_go(job)}
