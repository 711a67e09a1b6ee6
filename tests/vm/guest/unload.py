# SPDX-License-Identifier: MIT
"""A module unloaded while sockets come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import Counter
from typing import Any

import life
import tree


def main(job: dict[str, Any]) -> dict[str, int]:
    """A process opens connections under the algorithm, as long as there is one; the module is unloaded in between."""
    tree.must("ensemble", job["storm_tables"][0])
    child = os.fork()
    if not child:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            while True:
                client = socket.socket()
                with contextlib.suppress(OSError):  # it is not there, or on its way
                    life.choose(client, job["name"])
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
