# SPDX-License-Identifier: MIT
"""One deadline for a connection of httpx: for all addresses of the host and the TLS handshake together.

httpx would give each address and the handshake the whole time. It has no setting for this, so the connections' backend
is replaced in its place.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx
from httpcore._backends.sync import SyncStream

from serving.agent.connection import connect, remaining_s


def limit_connecting(client: httpx.Client) -> None:
    """Let each connection of the client have one deadline, which is the time for connecting in its settings."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Backend()


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if timeout is None or local_address is not None:
            return super().connect_tcp(host, port, timeout, local_address, socket_options)
        deadline_s = time.monotonic() + timeout
        try:
            raw = connect(host, port, deadline_s=deadline_s, clock=time.monotonic, options=socket_options or ())
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(raw, deadline_s)


class _Stream(SyncStream):
    def __init__(self, raw: Any, deadline_s: float) -> None:
        super().__init__(raw)
        self._deadline_s = deadline_s

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        del timeout
        try:
            left_s = remaining_s(self._deadline_s, time.monotonic)
        except TimeoutError as error:
            self.close()
            raise httpcore.ConnectTimeout(str(error)) from error
        return super().start_tls(ssl_context, server_hostname, left_s)
