# SPDX-License-Identifier: MIT
"""An HTTP request with one deadline for the whole exchange. Each request uses its own connection.

The standard library limits the time of each receive, not of the whole answer. A server that sends one byte per
second could hold such a client for ever. Here one deadline covers sending, headers and body: the timeout of each
socket operation is the time that is left.

- Redirects are not followed. They are returned like any other answer, and the caller refuses them.
- Proxies from environment variables are ignored.
- A body is read up to a bound.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import SplitResult

Clock = Callable[[], float]


@dataclass(frozen=True)
class Answer:
    """A server's answer. Header names are in lower case. `body` is at most one byte longer than the bound."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket. Each receive may take until the deadline, and then raises TimeoutError."""

    def __init__(self, raw: socket.socket, deadline_s: float, clock: Clock) -> None:
        self._raw = raw
        self._deadline_s = deadline_s
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.settimeout(remaining_s(self._deadline_s, self._clock))
        return self._raw.recv_into(buffer)


class _DeadlineSocket:
    """The part of a socket's interface that http.client uses. The owner of the real socket closes it."""

    def __init__(self, raw: socket.socket, deadline_s: float, clock: Clock) -> None:
        self._raw = raw
        self._deadline_s = deadline_s
        self._clock = clock

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._raw, self._deadline_s, self._clock))

    def sendall(self, data: Any) -> None:
        self._raw.settimeout(remaining_s(self._deadline_s, self._clock))
        self._raw.sendall(data)

    def close(self) -> None:
        """Do nothing: the response is still read after http.client closes its connection."""


def remaining_s(deadline_s: float, clock: Clock) -> float:
    """Return the seconds until the deadline. Raises TimeoutError where the deadline has passed."""
    left_s = deadline_s - clock()
    if left_s <= 0:
        raise TimeoutError("the answer took too long")
    return left_s


def _read_body(response: http.client.HTTPResponse, *, max_body_bytes: int) -> bytes:
    """Read the body, up to one byte over the bound. Raises IncompleteRead where the body is truncated."""
    body = response.read(max_body_bytes + 1)
    # A read() with a size does not raise for a truncated body. `length` is the number of bytes still expected.
    if len(body) <= max_body_bytes and response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


class Exchange:
    """One request and its answer. `abort`, called from another thread, makes `run` raise an OSError.

    Once connected, `run` does so immediately.
    """

    def __init__(self, url: SplitResult, *, tls: ssl.SSLContext | None, clock: Clock = time.monotonic) -> None:
        self._url = url
        self._tls = tls
        self._clock = clock
        self._raw: socket.socket | None = None
        self._aborted = False

    def run(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
        max_body_bytes: int,
    ) -> Answer:
        """Send the request and read the answer within `timeout_s`.

        Raises OSError (including TimeoutError), http.client.HTTPException or ValueError.
        """
        deadline_s = self._clock() + timeout_s
        host, port = self._url.hostname or "", self._url.port or (443 if self._tls is not None else 80)
        try:
            self._connect(host, port, deadline_s)
            connection = http.client.HTTPConnection(host, port)
            connection.sock = cast("socket.socket", _DeadlineSocket(self._live_socket(), deadline_s, self._clock))
            connection.request(method, path, body=body, headers={"Host": self._url.netloc, **headers})
            response = connection.getresponse()
            headers_lower = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers_lower, _read_body(response, max_body_bytes=max_body_bytes))
        finally:
            self._close()

    def abort(self) -> None:
        """End the exchange from another thread."""
        self._aborted = True
        raw = self._raw
        if raw is not None:
            try:
                raw.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _connect(self, host: str, port: int, deadline_s: float) -> None:
        plain = socket.create_connection((host, port), timeout=remaining_s(deadline_s, self._clock))
        self._raw = plain
        if self._tls is not None:
            plain.settimeout(remaining_s(deadline_s, self._clock))
            self._raw = self._tls.wrap_socket(plain, server_hostname=host)

    def _live_socket(self) -> socket.socket:
        if self._raw is None or self._aborted:
            raise ConnectionAbortedError("the exchange was ended by the agent")
        return self._raw

    def _close(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()
