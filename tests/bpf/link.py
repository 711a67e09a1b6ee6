# SPDX-License-Identifier: MIT
"""Two network namespaces with a link of 20 Mbit/s between them, and flows over it.

The programs of the flows have real-time priority, so that other programs on the machine do not delay them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

MOST_S = 3600.0
SENDER_ADDRESS, RECEIVER_ADDRESS, PORT = "10.9.0.1", "10.9.0.2", 5001

# Begins a program that other programs on the machine are not to delay.
GO_FIRST = """
import contextlib, os
with contextlib.suppress(OSError):
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
"""
_RECEIVE = """
import select, socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), reuse_port=True)
print("ready", flush=True)
sockets = [listener.accept()[0] for _ in range(int(sys.argv[3]))]
total, end = 0, time.monotonic() + float(sys.argv[4])
while sockets and time.monotonic() < end:
    for one in select.select(sockets, [], [], 0.1)[0]:
        try:
            data = one.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        total += len(data)
        if not data:
            sockets.remove(one)
print(total, flush=True)
"""
_SEND = """
import select, socket, struct, sys, time
sockets = []
for _ in range(int(sys.argv[4])):
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[3].encode())
    # However this program ends, its connections are reset, and what is unsent is dropped.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.connect((sys.argv[1], int(sys.argv[2])))
    one.setblocking(False)
    sockets.append(one)
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[5])
while time.monotonic() < end:
    for one in select.select([], sockets, [], 0.1)[1]:
        try:
            one.send(bytes(65536))
        except OSError:  # the receiver has ended
            sockets.remove(one)
"""


@dataclass(frozen=True)
class Link:
    """The names of its two namespaces."""

    sender: str
    receiver: str

    @contextmanager
    def flows(self, cca: str, *, seconds: float | None, count: int = 1) -> Iterator[list[float]]:
        """Send for so long, while the body runs. The list has the throughput in Mbit/s after it.

        seconds: None sends until the body ends, and measures nothing.
        """
        lasts_s = str(MOST_S if seconds is None else seconds)
        arguments = [RECEIVER_ADDRESS, str(PORT)]
        receiver = _started(self.receiver, _RECEIVE, [*arguments, str(count), lasts_s])
        sender = None
        mbps: list[float] = []
        try:
            sender = _started(self.sender, _SEND, [*arguments, cca, str(count), lasts_s])
            yield mbps
            if seconds is None:
                return
            total, _ = receiver.communicate(timeout=seconds + 30)
            sender.wait(timeout=10)  # so that it resets its connections
            mbps.append(int(total) * 8e-6 / seconds)
        finally:
            for process in (receiver, sender):
                if process:
                    process.kill()
                    process.communicate()

    def received_bytes(self) -> int:
        """The number of bytes that have come out of the link."""
        command = ["ip", "-json", "-stats", "-n", self.receiver, "link", "show", "vb"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(json.loads(shown)[0]["stats64"]["rx"]["bytes"])

    def police(self, *, bytes_per_s: int, bucket_bytes: int) -> None:
        """Drop what the receiver gets beyond a token bucket. Packets are single segments from then on."""
        _run(f"ip -n {self.sender} link set va gso_max_segs 1")
        limit = f"limit rate over {bytes_per_s} bytes/second burst {bucket_bytes} bytes drop"
        chain = f"type filter hook ingress device vb priority 0; ip protocol tcp {limit};"
        rules = f"table netdev police {{ chain in {{ {chain} }}; }}"
        subprocess.run(["ip", "netns", "exec", self.receiver, "nft", rules], check=True)


def _started(namespace: str, program: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """A program in a namespace, that has said that it is ready."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", GO_FIRST + program, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def _run(text: str) -> None:
    subprocess.run(text.split(), check=True)


@contextmanager
def link(apart: str = "", *, rate: str = "20mbit", queue_bytes: int = 1_000_000) -> Iterator[Link]:
    """The link: 20 Mbit/s towards the receiver with a queue, and hardly a round trip.

    apart: part of the names of its namespaces, which differs between links that exist at the same time.
    """
    made = Link(f"ccatune-a{apart}-{os.getpid()}", f"ccatune-b{apart}-{os.getpid()}")
    try:
        for name in (made.sender, made.receiver):
            _run(f"ip netns add {name}")
        _run(f"ip link add va netns {made.sender} type veth peer name vb netns {made.receiver}")
        for name, device, address in ((made.sender, "va", SENDER_ADDRESS), (made.receiver, "vb", RECEIVER_ADDRESS)):
            _run(f"ip -n {name} addr add {address}/24 dev {device}")
            _run(f"ip -n {name} link set {device} up")
        _run(f"tc -n {made.sender} qdisc add dev va root tbf rate {rate} burst 15k limit {queue_bytes}")
        yield made
    finally:
        for name in (made.sender, made.receiver):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
