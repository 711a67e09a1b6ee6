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
import tree


def clients() -> int:
    """Lines of `clients`; 0 where the algorithm has none."""
    return len(tree.read("clients").splitlines()) if (tree.here() / "clients").exists() else 0


def under_many(job: dict[str, Any]) -> dict[str, Any]:
    """Refused while they run; the flows finish; then all modules go, whatever the table of clients holds."""
    told = job["unload"]
    words = ("--cca", job["cca"], "--flows", str(told["flows"]), "--bytes", str(told["bytes"]), "--seconds", "900")
    refused: Counter[str] = Counter()
    with inside.chain(rate="50mbit", queue_bytes=500_000, delay_ms=20), inside.receiver():
        with inside.sending(*words, "--sample", "1000") as sender:
            inside.wait_for(lambda: len(tree.flows()) == told["flows"], timeout_s=120, what="all flows")
            known = clients()
            for _ in range(told["attempts"]):
                for path in reversed(job["modules"]):
                    name = path.rpartition("/")[2].removesuffix(".ko")
                    if name in {job["module"], "ccatune"} or (known and name == "tcp_rtcp"):
                        refused[tree.rmmod(name)] += 1
            during = len(tree.flows())
            lines = sender.stdout.read().splitlines() if sender.stdout else []
        ends = inside.ends([inside.json.loads(line) for line in lines])
        left = clients()
        inside.wait_for(lambda: tree.status()["flows"] == "0", timeout_s=60, what="the flows' end")
        tree.unload_modules(job)
        tree.load_modules(job)
    return {
        "clients": known,
        "refused": refused,
        "flows behind it": during,
        "finished": sum(int(str(end["acked_bytes"])) >= told["bytes"] for end in ends),
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
