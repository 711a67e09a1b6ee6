# SPDX-License-Identifier: MIT
"""Sends a packet each ms through delay-shell, and prints what came back. It uses only the standard library.

probe.py SHELL TRACE SECONDS    answers packets, and runs itself in the shell
probe.py SECONDS                inside: sends packets to MAHIMAHI_BASE
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

PORT = 5202
WAIT_S = 1.0


def answer(server: socket.socket) -> None:
    while True:
        data, sender = server.recvfrom(2048)
        server.sendto(data, sender)


def outside(shell: str, trace: str, seconds: str) -> int:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", PORT))
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    return subprocess.run([shell, trace, sys.executable, "-I", "-S", __file__, seconds], check=False).returncode


def inside(seconds: float) -> None:
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((os.environ["MAHIMAHI_BASE"], PORT))
    begin_s = time.monotonic()
    sent_s: list[float] = []
    answered: list[int] = []
    came_s: list[float] = []
    while (now_s := time.monotonic()) < begin_s + seconds + WAIT_S:
        if now_s >= begin_s + len(sent_s) * 1e-3 and now_s < begin_s + seconds:
            sent_s.append(now_s)
            client.send(struct.pack("<I", len(sent_s) - 1))
        client.settimeout(0.0005)
        try:
            answered.append(struct.unpack("<I", client.recv(2048))[0])
            came_s.append(time.monotonic())
        except TimeoutError:
            continue
    rtt_ms = [(at_s - sent_s[number]) * 1000 for number, at_s in zip(answered, came_s, strict=True)]
    told = {"sent": len(sent_s), "answered": answered, "rtt_ms": rtt_ms, "answered_at_ms": [s * 1000 for s in came_s]}
    print(json.dumps(told))  # noqa: T201 (its result)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(outside(*sys.argv[1:]))
    inside(float(sys.argv[1]))
