# SPDX-License-Identifier: MIT
"""Accepts the connections of a listener in an event loop, and gives each a protocol.

The loop's own server would accept in the loop's C code, past the bounds of `BoundedListener`. It also accepts the
whole backlog before it does anything else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from serving.http.idle import IdleConnections
from serving.http.limits import BoundedListener

__all__ = ["Acceptor"]

_log = logging.getLogger(__name__)


class Acceptor:
    """The accepting part of a server. All methods belong to the event loop."""

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
