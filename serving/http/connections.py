# SPDX-License-Identifier: MIT
"""Accepts connections, and keeps their number below the number of descriptors that the process may open.

    connections = min(max_connections, descriptors - 64 - 4 * database_connections)

A SQLite connection holds three descriptors, and one more is kept in reserve. Without a bound, `accept` would fail
with EMFILE. asyncio then logs one error for each entry of the backlog, and the database cannot open its files.
A connection over the bound is answered 503 and closed, so that its client tries again later. With TLS it is only
closed, because an answer would need a handshake.

Kept connections that wait for their next request are closed in the order in which they became idle:

    idle for `timeout_s`                                closed by the next sweep, one every second
    almost as many connections as the listener allows   the oldest one is closed for each new connection

A client that finds its kept connection closed opens a new one. It loses nothing, whereas a client whose connection is
refused has to wait. All methods of the classes belong to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from serving.errors import SettingsError
from serving.http.counted_log import CountedLog

_OWN_DESCRIPTORS = 64
_DESCRIPTORS_PER_DATABASE_CONNECTION = 4
_FEWEST_CONNECTIONS = 16
_LOG_INTERVAL_S = 60.0
_SWEEP_S = 1.0
# Connections that one turn of the event loop accepts. asyncio itself would accept the whole backlog first. Each poll
# that a move ends causes two requests. A much smaller number would let the backlog overflow after a move.
_ACCEPTS_PER_TURN = 256
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)  # fmt: skip

_log = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """Raise RLIMIT_NOFILE to its hard limit. The soft limit is often 1024, for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems have an infinite hard limit, but refuse to set it. The soft limit then stays.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connection_bound(*, max_connections: int, database_connections: int) -> int:
    """Return how many connections the process may hold at once.

    Raises:
        SettingsError: the limit of descriptors leaves too few connections.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return max_connections
    reserved = _OWN_DESCRIPTORS + _DESCRIPTORS_PER_DATABASE_CONNECTION * database_connections
    if descriptors < reserved + _FEWEST_CONNECTIONS:
        raise SettingsError(
            f"database_connections: expected at least {reserved + _FEWEST_CONNECTIONS} descriptors for "
            f"{database_connections} of them, got {descriptors}; raise the limit (ulimit -n) or lower the setting"
        )
    return min(max_connections, descriptors - reserved)


class _Counted(socket.socket):
    """An accepted connection. It reports its end to the listener that accepted it."""

    _listener: BoundedListener | None = None

    def close(self) -> None:
        """Close the connection, and free its place."""
        self._free_place()
        super().close()

    def detach(self) -> int:
        """Free the place of the connection. uvloop detaches the descriptor when it closes the connection."""
        self._free_place()
        return super().detach()

    def _free_place(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.n_connections -= 1


class BoundedListener(socket.socket):
    """A listening socket that holds at most `max_connections` accepted connections, and refuses further ones.

    One event loop accepts and closes all connections, so the count needs no lock.
    """

    def __init__(self, family: int, kind: int, proto: int, *, max_connections: int, is_plain_http: bool = True) -> None:
        super().__init__(family, kind, proto)
        self.n_connections = 0
        self._family, self._kind, self._proto = family, kind, proto
        self._max_connections = max_connections
        self._refusal = _REFUSAL if is_plain_http else b""
        self._n_accepted_in_turn = 0
        self._refusals = CountedLog(_log, interval_s=_LOG_INTERVAL_S)
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def is_almost_full(self) -> bool:
        """Whether more than seven eighths of the connections are open."""
        return self.n_connections > self._max_connections - self._max_connections // 8

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises BlockingIOError where none is pending, the pending one was refused, or this turn has accepted enough.
        """
        self._n_accepted_in_turn += 1
        if self._n_accepted_in_turn > _ACCEPTS_PER_TURN:
            self._n_accepted_in_turn = 0
            raise BlockingIOError("the next turn of the event loop accepts further connections")
        try:
            # `socket.accept` would make a plain socket first.
            descriptor, address = self._accept()  # type: ignore[attr-defined]
        except OSError as error:
            self._n_accepted_in_turn = 0
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            self._refuse_with_spare()
            raise BlockingIOError("no descriptor is left for a connection") from error
        counted = _Counted(self._family, self._kind, self._proto, fileno=descriptor)
        if self.n_connections >= self._max_connections:
            self._refuse(counted)
            raise BlockingIOError("the bound on connections is reached")
        counted._listener = self
        self.n_connections += 1
        return counted, address

    def close(self) -> None:
        """Close the socket and the spare descriptor."""
        spare, self._spare = self._spare, None
        if spare is not None:
            os.close(spare)
        super().close()

    def _refuse_with_spare(self) -> None:
        # The pending connection would otherwise wake the event loop for ever. The spare descriptor makes it possible
        # to accept the connection and close it.
        if self._spare is None:
            return
        os.close(self._spare)
        self._spare = None
        with contextlib.suppress(OSError):
            self._refuse(super().accept()[0])
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _refuse(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0)
            connection.send(self._refusal)
        self._refusals.warning(
            "refused %d connections so far: %d are open, of at most %d; raise max_connections and ulimit -n",
            self.n_connections,
            self._max_connections,
        )


class Idle(Protocol):
    """An idle connection."""

    def close_idle(self) -> None:
        """Close the connection, because it is idle."""


class IdleConnections:
    """The idle connections of one server, in the order in which they became idle."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # Each connection with the time from which on it is idle. A plain dictionary would search for its first entry
        # past all that were removed.
        self._since_s: OrderedDict[Idle, float] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since_s)

    def add(self, connection: Idle) -> None:
        """Add a connection that is idle now. One that was idle before remains so since then."""
        loop = asyncio.get_running_loop()
        self._since_s.setdefault(connection, loop.time())
        if self._sweep is None:
            self._sweep = loop.call_later(_SWEEP_S, self._close_old)

    def discard(self, connection: Idle) -> None:
        """Remove a connection that is not idle, or no more."""
        self._since_s.pop(connection, None)

    def close_oldest(self) -> None:
        """Close the connection that has been idle for the longest time, if there is one."""
        if self._since_s:
            oldest, _ = self._since_s.popitem(last=False)
            oldest.close_idle()

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() - self._timeout_s
        while self._since_s and next(iter(self._since_s.values())) <= until_s:
            self.close_oldest()
        self._sweep = loop.call_later(_SWEEP_S, self._close_old) if self._since_s else None


class Acceptor:
    """Gives each accepted connection a protocol.

    The loop's own server would accept in the loop's C code, past the bounds of `BoundedListener`. It also accepts the
    whole backlog before it does anything else.
    """

    def __init__(
        self,
        listener: BoundedListener,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        *,
        idle: IdleConnections,
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._idle = idle
        self._tls = tls
        self._handshake_timeout_s = None if tls is None else handshake_timeout_s
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Accept connections from now on."""
        self._listener.settimeout(0)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept_pending)

    def close(self) -> None:
        """Accept no further connection."""
        asyncio.get_running_loop().remove_reader(self._listener.fileno())

    def _accept_pending(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection = self._listener.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            connection.settimeout(0)
            if self._listener.is_almost_full:
                self._idle.close_oldest()
            task = loop.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._make_protocol, connection, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout_s
            )
        except (OSError, ssl.SSLError) as error:
            # The client has gone already, or its TLS handshake failed.
            _log.debug("a connection could not be served: %s", error)
            connection.close()
