# SPDX-License-Identifier: MIT
"""Agents of the load generator. One event loop runs thousands of them, so each request costs little.

An agent has no task. It is a state machine of two clients, which answer by callbacks:

    poller     long poll -> offer -> long poll -> ...
    reporter   report -> pause of 30 s, or of at most `delay_s` after a new offer -> report -> ...

A client has at most one connection and one request. It keeps the connection for its next request, unless `reuse` is
off. The registry may close a kept connection at any time. A request that such a connection does not answer is
retransmitted once on a new one, which counts as no error.

Limits: an answer's body has a Content-Length, and nothing but the status, ETag and length of an answer is read.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from serving.agent.sums import Deployed, Row, delta_json

CHANNEL = "/v1/channels/gr/champion"
POLL_S = 30
REPORT_S = 30.0
RETRY_S = 1.0
# The agents connect from several loopback addresses, so that ports do not run out.
AGENTS_PER_ADDRESS = 2000
# From linux/in.h; the module `socket` has no name for it.
_IP_BIND_ADDRESS_NO_PORT = 24

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_ETAG = re.compile(rb"\r\netag: *([^\r]*)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


@dataclass
class Counts:
    """What all agents have seen."""

    polls: int = 0
    reports: int = 0
    connections: int = 0
    errors: int = 0
    first_errors: list[str] = field(default_factory=list)

    def failed(self, words: str) -> None:
        """Count an error."""
        self.errors += 1
        if len(self.first_errors) < 5:
            self.first_errors.append(words)


@dataclass(frozen=True)
class Place:
    """Where a process of the registry listens, and the header lines that each request needs there."""

    host: str
    port: int
    headers: str = "Host: 127.0.0.1\r\n"


OnAnswer = Callable[[int, str], None]
OnFailure = Callable[[str], None]


class _Wire(asyncio.Protocol):
    """One connection of a client. A connection that the client has given up is ignored."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport, but are no instances of it.
        self.transport = cast("asyncio.Transport", transport)
        self._client.connected(self, self.transport)

    def data_received(self, data: bytes) -> None:
        self._client.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.lost(self, exc)


class Client:
    """Sends one request at a time. `on_answer` receives the status and the ETag, `on_failure` the cause in words."""

    def __init__(self, place: Place, *, source: str, reuse: bool, counts: Counts) -> None:
        self._place = place
        self._source = source
        self._reuse = reuse
        self._counts = counts
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_kept = False
        self._request = b""
        self._received = b""
        self._on_answer: OnAnswer | None = None
        self._on_failure: OnFailure = counts.failed

    def send(self, request: bytes, *, on_answer: OnAnswer, on_failure: OnFailure) -> None:
        """Send a request: its lines with the line ends, a blank line and the body."""
        if not self._reuse:
            request = request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        self._request, self._on_answer, self._on_failure = request, on_answer, on_failure
        self._received = b""
        self._is_kept = self._wire is not None
        if self._wire is None or self._wire.transport is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self._wire.transport.write(request)

    def close(self) -> None:
        """Close the connection, and wait for no answer."""
        self._on_answer = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.abort()

    async def _connect(self) -> None:
        self._counts.connections += 1
        self._wire = wire = _Wire(self)
        loop = asyncio.get_running_loop()
        sock = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # Without this option `bind` would search for a port that no other connection of the address uses.
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((self._source, 0))
            await loop.sock_connect(sock, (self._place.host, self._place.port))
            await loop.create_connection(lambda: wire, sock=sock)
        except OSError as error:
            sock.close()
            self.lost(wire, error)

    def connected(self, wire: _Wire, transport: asyncio.Transport) -> None:
        """Send the request that waits for the connection."""
        if self._wire is wire:
            transport.write(self._request)

    def received(self, wire: _Wire, data: bytes) -> None:
        """Collect the answer."""
        on_answer = self._on_answer
        if self._wire is not wire or on_answer is None:
            return
        self._received = received = self._received + data if self._received else data
        head_end = received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = received[:head_end]
        length = _LENGTH.search(head)
        if len(received) < head_end + 4 + (0 if length is None else int(length[1])):
            return
        self._on_answer = None
        if (not self._reuse or _CLOSE.search(head) is not None) and wire.transport is not None:
            wire.transport.close()
            self._wire = None
        etag = _ETAG.search(head)
        on_answer(int(head[9:12]), "" if etag is None else etag[1].decode())

    def lost(self, wire: _Wire, cause: Exception | None) -> None:
        """Retransmit the request if a kept connection did not answer it. Otherwise the request has failed."""
        if self._wire is not wire:
            return
        self._wire = None
        if self._on_answer is None:
            return
        if self._is_kept and not self._received:
            self._is_kept = False
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        self._on_answer = None
        self._on_failure(str(cause or "the connection ended before the answer"))


def sums_of(sequence: int, *, serial: int, n_rows: int) -> dict[str, Any]:
    """A delta of one epoch for each row, in three classes, of flows that use the table and of ones that do not."""
    table = Deployed("local", "champion", serial)
    epoch = (1, 1, 30_000_000, 60_000_000, 42_000, 420, 9_000, 270_000_000, 8_500)
    rows = {(table, Row(bool(n % 2), n // 2 % 3, n // 6)): epoch for n in range(n_rows)}
    return delta_json("load", sequence, rows)


class Agent:
    """An agent that polls and reports from `start` until `stop`."""

    def __init__(
        self,
        number: int,
        place: Place,
        counts: Counts,
        *,
        reuse_poller: bool,
        reuse_reporter: bool,
        delay_s: float,
        rows: int,
    ) -> None:
        self.name = f"agent-{number}"
        self.serial = 0
        self.reported_serial = 0
        self.arrived_s: dict[int, float] = {}
        self.deltas_acknowledged = 0
        self._rows = rows
        self._counts = counts
        self._delay_s = delay_s
        self._random = random.Random(number)
        self._headers = place.headers
        source = f"127.0.0.{2 + number // AGENTS_PER_ADDRESS}"
        self._poller = Client(place, source=source, reuse=reuse_poller, counts=counts)
        self._reporter = Client(place, source=source, reuse=reuse_reporter, counts=counts)
        self._etag = ""
        # The serial of the report that has not been answered yet.
        self._reporting: int | None = None
        self._poll_timer: asyncio.TimerHandle | None = None
        self._report_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Poll now, and report within the interval, so that the reports of all agents are spread."""
        self._poll()
        self._report_in(self._random.uniform(0.0, REPORT_S))

    def stop(self) -> None:
        """End all requests."""
        for timer in (self._poll_timer, self._report_timer):
            if timer is not None:
                timer.cancel()
        self._poller.close()
        self._reporter.close()

    def _poll(self) -> None:
        known = f"If-None-Match: {self._etag}\r\n" if self._etag else ""
        request = f"GET {CHANNEL}?wait={POLL_S} HTTP/1.1\r\n{self._headers}{known}\r\n"
        self._poller.send(request.encode(), on_answer=self._polled, on_failure=self._poll_failed)

    def _polled(self, status: int, etag: str) -> None:
        self._counts.polls += 1
        if status not in {200, 304}:
            self._poll_failed(str(status))
            return
        if etag != self._etag:
            self._etag = etag
            self.serial = int(etag.split(":")[1])
            self.arrived_s[self.serial] = time.monotonic()
            if self._reporting is None:
                self._report_in(self._random.uniform(0.0, self._delay_s))
        self._poll()

    def _poll_failed(self, words: str) -> None:
        self._counts.failed(f"{self.name}: poll: {words}")
        self._poll_timer = asyncio.get_running_loop().call_later(RETRY_S, self._poll)

    def _report_in(self, pause_s: float) -> None:
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report_timer = asyncio.get_running_loop().call_later(pause_s, self._report)

    def _report(self) -> None:
        self._reporting = self.serial
        report = {"cca": "gr", "channel": "champion", "state": "InSync", "effective_serial": self.serial}
        if self._rows and self.serial:
            report["sums"] = sums_of(self.deltas_acknowledged + 1, serial=self.serial, n_rows=self._rows)
        body = json.dumps(report, separators=(",", ":")).encode()
        head = (
            f"POST /v1/agents/{self.name}/reports HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._reporter.send(head.encode() + body, on_answer=self._reported, on_failure=self._report_failed)

    def _reported(self, status: int, _etag: str) -> None:
        if status != 204 or self._reporting is None:
            self._report_failed(str(status))
            return
        self._counts.reports += 1
        self.deltas_acknowledged += bool(self._rows and self._reporting)
        self.reported_serial, self._reporting = self._reporting, None
        is_news = self.serial != self.reported_serial
        self._report_in(self._random.uniform(0.0, self._delay_s) if is_news else REPORT_S)

    def _report_failed(self, words: str) -> None:
        self._reporting = None
        self._counts.failed(f"{self.name}: report: {words}")
        self._report_in(RETRY_S)
