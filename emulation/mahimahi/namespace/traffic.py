# SPDX-License-Identifier: MIT
"""Sends and receives bulk flows over TCP and reports their tcp_info: python traffic.py receive|fetch|send ...

`send` sets congestion control (TCP_CONGESTION), priority and mark by socket options. It sends for a time or a number of
bytes, and prints a JSON line per sample and one at the end of each flow. `receive` accepts any number of flows and
discards their data. Inside Mahimahi's address translation only the receiver can open connections. There `send --listen`
waits for flow n on port + n, and `fetch` connects. The program uses only the standard library, so it starts fast in a
guest.

    {"flow": 0, "at_s": 1.0, "acked_bytes": ..., "rtt_us": ..., "min_rtt_us": ..., "cwnd_pkts": ..., ...}
    {"flow": 0, "end": true, "seconds": ..., "acked_bytes": ..., "mbps": ...}

tcp_info is read by the offsets of include/uapi/linux/tcp.h, to which new fields are only appended. Fields that a kernel
does not have are 0 (`timeouts` before Linux 6.7). segments_in and segments_out count segments with data, including
retransmitted ones.
"""

from __future__ import annotations

import argparse
import errno
import json
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass

_CHUNK = b"\0" * 65536
_INFO_BYTES = 248
_SO_PRIORITY = 12
_SO_MARK = 36

# name: (struct format, offset)
INFO_FIELDS = {
    "retransmits": ("B", 2),
    "unacked_pkts": ("I", 24),
    "lost_pkts": ("I", 32),
    "rtt_us": ("I", 68),
    "ssthresh_pkts": ("I", 76),
    "cwnd_pkts": ("I", 80),
    "total_retrans_pkts": ("I", 100),
    "pacing_bytes_per_s": ("Q", 104),
    "acked_bytes": ("Q", 120),
    "received_bytes": ("Q", 128),
    "min_rtt_us": ("I", 148),
    "segments_in": ("I", 152),
    "segments_out": ("I", 156),
    "delivery_bytes_per_s": ("Q", 160),
    "rwnd_limited_us": ("Q", 176),
    "sndbuf_limited_us": ("Q", 184),
    "timeouts": ("H", 240),
}


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """Return the fields of INFO_FIELDS for a connection."""
    return info_of(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES))


def info_of(raw: bytes) -> dict[str, int]:
    """Return the fields of INFO_FIELDS in the kernel's struct tcp_info."""
    raw += b"\0" * (_INFO_BYTES - len(raw))
    return {name: struct.unpack_from("=" + kind, raw, offset)[0] for name, (kind, offset) in INFO_FIELDS.items()}


@dataclass(frozen=True)
class Plan:
    """The options of `send`. A flow ends after `seconds` or `total_bytes`, whichever comes first; 0 is no limit."""

    host: str
    port: int
    cca: str
    flows: int
    seconds: float
    total_bytes: int
    sample_s: float
    priorities: list[int]
    mark: int
    listen: bool


class Flow:
    """One sending connection."""

    def __init__(self, number: int, plan: Plan) -> None:
        self.number = number
        self.plan = plan
        self.sent_bytes = 0
        self.connection = self._accept() if plan.listen else self._connect()
        self.connection.settimeout(0.0)
        self.begin()

    def begin(self) -> None:
        """Set the beginning of the flow's time to now."""
        self.start_s = time.monotonic()
        self.next_sample_s = self.start_s + self.plan.sample_s

    def _connect(self) -> socket.socket:
        connection = socket.socket(family_of(self.plan.host), socket.SOCK_STREAM)
        self._choose(connection)
        connection.connect((self.plan.host, self.plan.port))
        return connection

    def _accept(self) -> socket.socket:
        """Wait for the connection of this flow.

        The connection inherits the listener's algorithm, and thus has it from its first packet on. Priority and mark
        are set on the connection itself, because it does not inherit the priority.
        """
        address = (self.plan.host, self.plan.port + self.number)
        with socket.create_server(address, family=family_of(self.plan.host)) as listener:
            self._choose(listener)
            print_line({"listening": address[1]})
            connection = listener.accept()[0]
            self._choose(connection, with_cca=False)
            return connection

    def _choose(self, chosen: socket.socket, *, with_cca: bool = True) -> None:
        plan = self.plan
        if plan.cca and with_cca:
            chosen.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, plan.cca.encode())
        if plan.priorities:
            chosen.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, plan.priorities[self.number % len(plan.priorities)])
        if plan.mark:
            chosen.setsockopt(socket.SOL_SOCKET, _SO_MARK, plan.mark)

    def push(self) -> bool:
        """Write as much data as the socket accepts now; False if all bytes of the flow are written."""
        left = self.plan.total_bytes - self.sent_bytes if self.plan.total_bytes else len(_CHUNK)
        if left <= 0:
            return False
        try:
            self.sent_bytes += self.connection.send(_CHUNK[:left])
        except BlockingIOError:
            return True
        return not self.plan.total_bytes or self.sent_bytes < self.plan.total_bytes

    def sample(self, now_s: float, *, end: bool = False) -> dict[str, object]:
        """Return the JSON line for the present state of the flow. end: whether it is the flow's last line."""
        info = tcp_info(self.connection)
        seconds = now_s - self.start_s
        line: dict[str, object] = {"flow": self.number, "at_s": round(seconds, 3), **info}
        if end:
            line |= {"end": True, "mbps": round(info["acked_bytes"] * 8e-6 / seconds, 3) if seconds else 0.0}
            line["local_port"] = self.connection.getsockname()[1]
        return line


def send(plan: Plan) -> None:
    """Run all flows to their end in one thread, and print their JSON lines."""
    selector = selectors.DefaultSelector()
    flows = [Flow(number, plan) for number in range(plan.flows)]
    for flow in flows:
        flow.begin()
        selector.register(flow.connection, selectors.EVENT_WRITE, flow)
    alive = set(range(plan.flows))
    end_s = time.monotonic() + plan.seconds if plan.seconds else float("inf")
    while alive and time.monotonic() < end_s:
        for key, _ in selector.select(timeout=min(plan.sample_s, 0.1)):
            flow = key.data
            if not flow.push():
                selector.unregister(flow.connection)
                drain(flow, end_s)
                print_line(flow.sample(time.monotonic(), end=True))
                alive.discard(flow.number)
        now_s = time.monotonic()
        for number in sorted(alive):
            flow = flows[number]
            if now_s >= flow.next_sample_s:
                flow.next_sample_s += plan.sample_s * (1 + (now_s - flow.next_sample_s) // plan.sample_s)
                print_line(flow.sample(now_s))
    for number in sorted(alive):
        print_line(flows[number].sample(time.monotonic(), end=True))
    for flow in flows:
        # Close with a reset. Data that is still in flight at the end is of no interest.
        flow.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        flow.connection.close()


def drain(flow: Flow, end_s: float) -> None:
    """Wait until all sent data is acknowledged, at most until end_s."""
    while time.monotonic() < end_s and tcp_info(flow.connection)["acked_bytes"] < flow.sent_bytes:
        time.sleep(0.002)


def print_line(line: dict[str, object]) -> None:
    """Print a JSON line and flush it."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def receive(host: str, port: int, seconds: float) -> None:
    """Accept flows and discard their data for `seconds`. Prints `listening` when it is ready."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server((host, port), family=family_of(host), backlog=1024)
    listener.settimeout(0.0)
    selector.register(listener, selectors.EVENT_READ)
    print_line({"listening": listener.getsockname()[1]})
    buffer = bytearray(1 << 20)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for key, _ in selector.select(timeout=0.2):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.settimeout(0.0)
                selector.register(connection, selectors.EVENT_READ)
            else:
                take(selector, key.fileobj, buffer)


def fetch(host: str, port: int, flows: int, seconds: float) -> None:
    """Connect the flows to `send --listen` and discard their data until they end, at most for `seconds`."""
    selector = selectors.DefaultSelector()
    buffer = bytearray(1 << 20)
    end_s = time.monotonic() + seconds
    for number in range(flows):
        connection = connect_patiently(host, port + number, end_s)
        selector.register(connection, selectors.EVENT_READ)
    while selector.get_map() and time.monotonic() < end_s:
        for key, _ in selector.select(timeout=0.2):
            take(selector, key.fileobj, buffer)


def connect_patiently(host: str, port: int, end_s: float) -> socket.socket:
    """Connect, and retry until the port is open. Raises ConnectionRefusedError if it is still closed at end_s."""
    while True:
        connection = socket.socket(family_of(host), socket.SOCK_STREAM)
        try:
            connection.connect((host, port))
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() >= end_s:
                raise
            time.sleep(0.02)
        else:
            connection.settimeout(0.0)
            return connection


def family_of(host: str) -> socket.AddressFamily:
    """Return AF_INET6 for an IPv6 address, otherwise AF_INET."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def take(selector: selectors.BaseSelector, connection: object, buffer: bytearray) -> None:
    """Read once from a connection and discard the data. Close the connection if it has ended."""
    if not isinstance(connection, socket.socket):
        raise TypeError(f"expected a socket, got {connection!r}")
    try:
        taken_bytes = connection.recv_into(buffer)
    except BlockingIOError:
        return
    except OSError as error:
        if error.errno not in {errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE}:
            raise
        taken_bytes = 0
    if not taken_bytes:
        selector.unregister(connection)
        connection.close()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Bulk flows over TCP that say what they met.")
    commands = parser.add_subparsers(dest="command", required=True)
    receiver = commands.add_parser("receive", help="take flows")
    receiver.add_argument("--host", default="127.0.0.1")
    receiver.add_argument("--port", type=int, required=True)
    receiver.add_argument("--seconds", type=float, default=3600.0)
    fetcher = commands.add_parser("fetch", help="take flows from `send --listen`")
    fetcher.add_argument("--host", required=True)
    fetcher.add_argument("--port", type=int, required=True)
    fetcher.add_argument("--flows", type=int, default=1)
    fetcher.add_argument("--seconds", type=float, default=3600.0)
    sender = commands.add_parser("send", help="send flows")
    sender.add_argument("--host", default="127.0.0.1")
    sender.add_argument("--port", type=int, required=True)
    sender.add_argument("--cca", default="", help="congestion control; the system's own without it")
    sender.add_argument("--flows", type=int, default=1)
    sender.add_argument("--seconds", type=float, default=0.0)
    sender.add_argument("--bytes", type=int, default=0, dest="total_bytes")
    sender.add_argument("--sample", type=float, default=0.25, dest="sample_s", help="seconds between two lines")
    sender.add_argument("--priority", type=int, action="append", default=[], dest="priorities", help="in turn")
    sender.add_argument("--mark", type=int, default=0)
    sender.add_argument("--listen", action="store_true", help="wait for `fetch` on PORT, PORT + 1 ...")
    values = vars(parser.parse_args())
    command = values.pop("command")
    if command != "send":
        (receive if command == "receive" else fetch)(**values)
        return
    if not values["seconds"] and not values["total_bytes"]:
        parser.error("expected --seconds or --bytes, got neither")
    send(Plan(**values))


if __name__ == "__main__":
    main()
