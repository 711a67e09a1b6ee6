# SPDX-License-Identifier: MIT
"""Runs the registry as a process: it binds the port, reports the URL, and finishes running requests after SIGTERM.

The socket is bound here and passed to uvicorn, so that the port is known before the first request even if the
settings say port 0. When the server stops, it answers the long polls first. Otherwise the stop would take as long
as the longest poll. With TLS, SIGHUP or a changed file makes it load the certificate again (serving/http/tls.py).
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
import uvloop

from serving.access.first import check_accounts
from serving.context import Context
from serving.database import Database, open_database
from serving.errors import SettingsError
from serving.http.connections import (
    Acceptor,
    BoundedListener,
    IdleConnections,
    connection_bound,
    raise_descriptor_limit,
)
from serving.http.log import configure_log
from serving.http.protocol import TimeLimits, timed_protocol
from serving.http.tls import RegistryTls, tls_of
from serving.registry.app import create_app
from serving.settings import ServingSettings

_BACKLOG = 2048
# A request that still runs this long after the stop is aborted. A write takes only milliseconds.
_STOP_TIMEOUT_S = 5
_GC_THRESHOLDS = (10_000, 20, 20)
# A TLS client that is idle does not answer the end of its connection. A stop waits this long for the other clients.
_TLS_STOP_S = 1.0
# How often the files of the certificate are looked at.
_RELOAD_CHECK_S = 10

Listening = Callable[[str, Context], None]


class RegistryServer(uvicorn.Server):
    """A uvicorn server that starts and stops what the context keeps. An orderly stop gives the exit status 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: BoundedListener,
        *,
        context: Context,
        idle: IdleConnections,
        tls: RegistryTls | None,
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._idle = idle
        self.tls = tls
        self._acceptor: Acceptor | None = None
        self._context = context

    def run_until_stopped(self) -> None:
        """Answer requests until SIGINT or SIGTERM arrives (in the main thread) or `should_exit` is set."""
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal again after the stop. The process then ends with the status 0.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self.serve(sockets=[self._listener]))
        finally:
            self._context.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn itself accepts from no socket: see `Acceptor`.
        del sockets
        await super().startup([])
        if self.started:
            self._acceptor = Acceptor(
                self._listener,
                self._make_protocol,
                idle=self._idle,
                tls=None if self.tls is None else self.tls.context,
                handshake_timeout_s=self._context.settings.head_timeout_s,
            )
            self._acceptor.start()
            if self.tls is not None and threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.tls.reload)
            for step in self._context.on_start:
                step()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for step in self._context.on_stop:
            step()
        if self.tls is not None:
            asyncio.get_running_loop().call_later(_TLS_STOP_S, self._abort_idle)
        await super().shutdown(sockets)

    def _abort_idle(self) -> None:
        connection: Any
        for connection in list(self.server_state.connections):
            is_answered = connection.cycle is None or connection.cycle.response_complete
            if is_answered and connection.transport.get_write_buffer_size() == 0:
                connection.transport.abort()

    def _make_protocol(self) -> asyncio.Protocol:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def bind(settings: ServingSettings) -> BoundedListener:
    """Bind the socket for the host and port of the settings.

    Raises:
        SettingsError: the address does not belong to this machine, or is in use, or others reach it although neither
            TLS nor `insecure_bind` is set.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"host: expected an address of this machine, got {settings.host!r} ({error})") from error
    family, _, _, _, address = found[0]
    is_private = ipaddress.ip_address(str(address[0]).split("%")[0]).is_loopback
    if settings.open and not is_private:
        raise SettingsError(
            f"host: expected a loopback address, got {settings.host!r}; an open registry (--open) has no accounts, "
            "so it answers this machine alone"
        )
    if not (is_private or settings.has_tls or settings.insecure_bind):
        raise SettingsError(
            f"host: expected a loopback address, or TLS, got {settings.host!r} without TLS; tokens would cross the "
            "network in plain text: set --tls-cert-file and --tls-key-file, or say "
            "--insecure-bind-anyway where a proxy ends TLS"
        )
    try:
        return _bound(family, address[:2], settings)
    except OSError as error:
        raise SettingsError(
            f"expected {settings.host} port {settings.port} to be free, got {error.strerror or error}; "
            "choose another --port (0 takes a free one)"
        ) from error


def _bound(family: int, address: tuple[object, ...], settings: ServingSettings) -> BoundedListener:
    # asyncio sets TCP_NODELAY only on sockets whose protocol is IPPROTO_TCP, and socket.create_server leaves the
    # protocol 0. With Nagle's algorithm the body of an answer would wait 40 ms for the delayed ACK of its head.
    max_connections = connection_bound(
        max_connections=settings.max_connections, database_connections=settings.database_connections
    )
    listener = BoundedListener(
        family,
        socket.SOCK_STREAM,
        socket.IPPROTO_TCP,
        max_connections=max_connections,
        is_plain_http=not settings.has_tls,
    )
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def listen(
    database: Database, settings: ServingSettings, listener: BoundedListener, *, on_listening: Listening
) -> RegistryServer:
    """Make the server for an open database and a bound socket. The caller starts it with `run_until_stopped`.

    on_listening: called with the URL and the registry's context when the server begins to answer requests.

    Raises:
        SettingsError, DatabaseError: see `create_app` and `RegistryTls`.
    """
    tls = tls_of(settings)
    app = create_app(database, settings)
    context: Context = app.state.context
    limits = TimeLimits(
        head_s=settings.head_timeout_s, body_s=settings.body_timeout_s, answer_s=settings.answer_timeout_s
    )
    idle = IdleConnections(timeout_s=settings.keep_alive_s)
    config = uvicorn.Config(
        app,
        http=timed_protocol(limits, idle),
        interface="asgi3",
        ws="none",
        # The process's own log has uvicorn's lines, too.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # By default uvicorn would let every client on this machine name any address as its own.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        lifespan="off",
        timeout_graceful_shutdown=_STOP_TIMEOUT_S,
        timeout_notify=_RELOAD_CHECK_S,
        callback_notify=tls.reload_if_changed if tls is not None else None,
    )
    url = _url_of(listener, scheme="http" if tls is None else "https")

    context.on_start.append(lambda: on_listening(url, context))
    return RegistryServer(
        config,
        listener,
        context=context,
        idle=idle,
        tls=tls,
    )


def serve_until_stopped(
    settings: ServingSettings, *, on_listening: Listening, on_bound: Callable[[], None] = lambda: None
) -> None:
    """Bind, call `on_bound`, open the database, listen, call `on_listening`, and return after SIGTERM or SIGINT.

    Raises:
        SettingsError, DatabaseError: the registry cannot start.
    """
    configure_log(settings.log)
    raise_descriptor_limit()
    # The TLS files are checked and the port is bound first, so that a start that fails for them changes no database.
    tls_of(settings)
    with bind(settings) as listener:
        on_bound()
        database = open_database(settings)
        try:
            check_accounts(database, settings)
            server = listen(database, settings, listener, on_listening=on_listening)
            _tune_garbage_collection()
            server.run_until_stopped()
        finally:
            database.close()


def _tune_garbage_collection() -> None:
    """Let the garbage collector run rarely, and without the objects that live as long as the process.

    Each held poll is some 30 objects, and few objects of a request form cycles. With Python's own thresholds most of
    the time of a poll would be spent in the collector, which stops all answers meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _url_of(listener: BoundedListener, *, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
