# SPDX-License-Identifier: MIT
"""The sending and the receiving end of a scenario's flows: flows.py serve|take PLAN RESULT [HOST].

Mahimahi's address translation lets only the receiving end, inside the shells, open connections. Therefore `serve`, the
sender, listens on a port for each flow. It sets the flow's algorithm on the listening socket. The connection inherits
it, and thus has it from its first packet on. `take`, the receiver, connects to HOST before the scenario begins.

Each end then prints `ready` and reads the time of the beginning (s since 1970). From this time on both follow the
plan. They write their samples as JSON into RESULT:

    {"fields": [names of tcp_info...], "rows": [[flow, s since the beginning, value...]...],
     "transfers": {flow: [[s when it began, s when it was complete or null]...]},
     "late_s": how long ago the beginning was when it was read}

The plan:

    {"port", "duration_s", "sample_s", "flows": [
     {"cca", "priority", "start_s", "stop_s", "transfers": [[bytes, s of the gap after it, count]...]}...]}

A flow without transfers has data without end. Transfers are timed as in the simulator
(emulation/cpp/simulation/application.hpp): a transfer begins when its data are written to the socket. It is complete
when all of it is acknowledged, which is checked every ms. The gap begins then. A flow that stops still sends the data
that it had written to its socket and not sent yet, at most _TAIL_BYTES, and retransmits lost segments.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import traffic
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import traffic

_CHUNK = b"\0" * 65536
_TCP_NOTSENT_LOWAT = 25
_TAIL_BYTES = 65536
_SO_PRIORITY = 12
_CONNECT_S = 60.0
# Interval at which a flow that waits for a transfer's last ACKs is checked.
_DRAIN_S = 0.001
FIELDS = tuple(traffic.INFO_FIELDS)


class Samples:
    """Samples tcp_info at regular times that begin at 0."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.next_s = 0.0
        self.rows: list[list[float]] = []

    def take(self, now_s: float, connections: dict[int, socket.socket]) -> None:
        """Sample every connection if a sample is due."""
        if now_s >= self.next_s:
            self.add(now_s, {number: traffic.tcp_info(connection) for number, connection in connections.items()})

    def add(self, now_s: float, infos: dict[int, dict[str, int]]) -> None:
        """Add a sample of each connection. Missed sampling times are skipped."""
        self.rows += [[number, round(now_s, 6), *info.values()] for number, info in infos.items()]
        self.next_s = (now_s // self.every_s + 1) * self.every_s


class Clock:
    """Counts seconds since the beginning, a time since 1970. Later changes of the system's time have no effect."""

    def __init__(self, begins_at_s: float) -> None:
        self._zero_s = time.monotonic() + begins_at_s - time.time()

    def now_s(self) -> float:
        """Return the seconds since the beginning; negative before it."""
        return time.monotonic() - self._zero_s


def await_beginning() -> Clock:
    """Print `ready`, read the time of the beginning, and return its clock."""
    traffic.print_line({"ready": True})
    return Clock(float(sys.stdin.readline()))


class Flow:
    """A sending connection with its data and times."""

    def __init__(self, plan: dict[str, object], connection: socket.socket) -> None:
        self.connection = connection
        self.stop_s = float("inf") if plan["stop_s"] is None else float(plan["stop_s"])  # type: ignore[arg-type]
        self.transfers_s: list[list[float | None]] = []
        # When the next data are due: the start of the flow, later the start of the next transfer.
        self.next_s = float(plan["start_s"])  # type: ignore[arg-type]
        self.left_bytes = 0.0
        self.is_sending = False
        self._sizes_and_gaps = _expanded(plan["transfers"])  # type: ignore[arg-type]
        self._gap_s = 0.0
        self._end_bytes = traffic.tcp_info(connection)["acked_bytes"]
        if plan["stop_s"] is not None:
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _TAIL_BYTES)

    def begin(self, now_s: float) -> None:
        """Begin the next transfer, or data without end. The transfer after it is due only when it is complete."""
        self.next_s = float("inf")
        size_bytes, self._gap_s = next(self._sizes_and_gaps, (None, 0.0))
        if size_bytes is not None:
            self.transfers_s.append([now_s, None])
            self._end_bytes += size_bytes
            self.left_bytes = size_bytes
        elif not self.transfers_s:
            self.left_bytes = float("inf")

    def push(self) -> bool:
        """Write as much data as the socket accepts now; False if none is left."""
        try:
            self.left_bytes -= self.connection.send(_CHUNK[: int(min(self.left_bytes, len(_CHUNK)))])
        except BlockingIOError:
            return True
        return self.left_bytes > 0

    @property
    def is_draining(self) -> bool:
        """Whether all data of a transfer was written, and some of it is not acknowledged yet."""
        return self.left_bytes <= 0 and bool(self.transfers_s) and self.transfers_s[-1][1] is None

    def look(self, now_s: float) -> None:
        """Check whether all data was acknowledged. If so, the transfer is complete and the gap begins."""
        if traffic.tcp_info(self.connection)["acked_bytes"] >= self._end_bytes:
            self.transfers_s[-1][1] = now_s
            self.next_s = now_s + self._gap_s


def _expanded(transfers: list[tuple[int, float, int]]) -> Iterator[tuple[int, float]]:
    """Yield (bytes, gap after it in s) of each single transfer."""
    for size_bytes, gap_s, count in transfers:
        yield from repeat((size_bytes, gap_s), count)


def accept_all(plan: dict[str, object]) -> list[Flow]:
    """Listen for all flows, print that, and wait until all are connected."""
    listeners = []
    flows: list[dict[str, object]] = plan["flows"]  # type: ignore[assignment]
    for number, flow in enumerate(flows):
        listener = socket.create_server(("", int(plan["port"]) + number))  # type: ignore[call-overload]
        listener.settimeout(_CONNECT_S)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, str(flow["cca"]).encode())
        listeners.append(listener)
    traffic.print_line({"listening": len(listeners)})
    accepted = []
    for listener, flow in zip(listeners, flows, strict=True):
        connection = listener.accept()[0]
        listener.close()
        # The connection is closed with a reset, also when this process is killed. Otherwise the kernel would keep it,
        # its namespace and an algorithm in BPF for minutes, to send the data that are left.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.settimeout(0.0)
        if flow["priority"]:
            connection.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, int(flow["priority"]))  # type: ignore[call-overload]
        accepted.append(Flow(flow, connection))
    return accepted


def serve(plan: dict[str, object]) -> dict[str, object]:
    """Run the sending end of the plan and return its result."""
    flows = accept_all(plan)
    connections = {number: flow.connection for number, flow in enumerate(flows)}
    samples, duration_s = Samples(float(plan["sample_s"])), float(plan["duration_s"])  # type: ignore[arg-type]
    clock = await_beginning()
    late_s = max(0.0, clock.now_s())
    selector = selectors.DefaultSelector()
    while (now_s := clock.now_s()) < duration_s:
        due_s = [samples.next_s, duration_s]
        for flow in flows:
            follow(flow, now_s, selector)
            due_s += [moment for moment in (flow.next_s, flow.stop_s) if moment > now_s]
            due_s += [now_s + _DRAIN_S] if flow.is_draining else []
        if now_s >= 0:
            samples.take(now_s, connections)
        for key, _ in selector.select(timeout=max(0.0, min(due_s) - clock.now_s())):
            if not key.data.push():
                selector.unregister(key.fileobj)
                key.data.is_sending = False
    samples.next_s = 0.0
    samples.take(duration_s, connections)
    for flow in flows:
        flow.connection.close()
    transfers = {str(number): flow.transfers_s for number, flow in enumerate(flows)}
    return {"fields": FIELDS, "rows": samples.rows, "transfers": transfers, "late_s": late_s}


def follow(flow: Flow, now_s: float, selector: selectors.BaseSelector) -> None:
    """Start or stop sending if it is time, and complete a transfer if all of it is acknowledged."""
    if flow.is_draining:
        flow.look(now_s)
    if flow.next_s <= now_s < flow.stop_s:
        flow.begin(now_s)
    should_send = flow.left_bytes > 0 and now_s < flow.stop_s
    if should_send and not flow.is_sending:
        selector.register(flow.connection, selectors.EVENT_WRITE, flow)
    elif flow.is_sending and not should_send:
        selector.unregister(flow.connection)
    flow.is_sending = should_send


def take(plan: dict[str, object], host: str) -> dict[str, object]:
    """Run the receiving end of the plan: connect all flows, discard their data, and return the result."""
    selector, buffer = selectors.DefaultSelector(), bytearray(1 << 20)
    connections: dict[int, socket.socket] = {}
    end_s = time.monotonic() + _CONNECT_S
    for number in range(len(plan["flows"])):  # type: ignore[arg-type]
        port = int(plan["port"]) + number  # type: ignore[call-overload]
        connections[number] = traffic.connect_patiently(host, port, end_s)
        selector.register(connections[number], selectors.EVENT_READ)
    samples, duration_s = Samples(float(plan["sample_s"])), float(plan["duration_s"])  # type: ignore[arg-type]
    clock = await_beginning()
    while (now_s := clock.now_s()) < duration_s and selector.get_map():
        if now_s >= 0:
            samples.take(now_s, connections)
        for key, _ in selector.select(timeout=max(0.0, samples.next_s - clock.now_s())):
            traffic.take(selector, key.fileobj, buffer)
        connections = {number: connection for number, connection in connections.items() if connection.fileno() >= 0}
    samples.next_s = 0.0
    samples.take(duration_s, connections)
    return {"fields": FIELDS, "rows": samples.rows, "transfers": {}, "late_s": 0.0}


def main() -> None:
    """Run with the arguments `serve PLAN RESULT` or `take PLAN RESULT HOST`."""
    what, plan_file, result_file, *host = sys.argv[1:]
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    result = serve(plan) if what == "serve" else take(plan, host[0])
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
