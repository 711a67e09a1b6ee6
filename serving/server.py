# SPDX-License-Identifier: MIT
"""Runs the registry as a process: binds, says where it is, ends on SIGTERM with what it was doing done.

The socket is bound here and handed to uvicorn, so that port 0 gives a port that
is known before the first request. At the end held polls are sent home first:
otherwise an orderly stop would take as long as the longest poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from serving.app import create_app
from serving.context import Context
from serving.database import Database, open_database
from serving.errors import SettingsError
from serving.settings import ServingSettings

__all__ = ["Listening", "RegistryServer", "bind", "listen", "serve_until_stopped"]

_BACKLOG = 2048
# What is still running this long after the stop is cut off; a write takes milliseconds.
_STOP_TIMEOUT_S = 5

Listening = Callable[[str, Context], None]


class RegistryServer(uvicorn.Server):
    """uvicorn, with our word at its start and end, and an exit status of 0 for an orderly stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        *,
        on_start: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._on_start = on_start
        self._on_stop = on_stop

    def run_until_stopped(self) -> None:
        """Answer requests until a signal comes (in the main thread) or `should_exit` is set."""
        asyncio.run(self.serve(sockets=[self._listener]))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again at the end, and the process would die by it instead of exiting.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        stops = (signal.SIGINT, signal.SIGTERM)
        for number in stops:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in stops:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def bind(settings: ServingSettings) -> socket.socket:
    """Bind the socket of the settings.

    Raises:
        SettingsError: the address is not this machine's, is taken, or can be reached from elsewhere
            and `insecure_bind` does not say that this is meant.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"host: expected an address of this machine, got {settings.host!r} ({error})") from error
    family, _, _, _, address = found[0]
    if not ipaddress.ip_address(str(address[0]).split("%")[0]).is_loopback and not settings.insecure_bind:
        raise SettingsError(
            f"host: expected a loopback address, got {settings.host!r}; the API has no accounts yet, so whoever "
            "reaches it may publish and move channels: keep it on 127.0.0.1 behind a proxy that asks who calls, "
            "or say --insecure-bind-anyway"
        )
    try:
        return _bound(family, address[:2])
    except OSError as error:
        raise SettingsError(
            f"expected {settings.host} port {settings.port} to be free, got {error.strerror or error}; "
            "choose another --port (0 takes a free one)"
        ) from error


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    # asyncio turns Nagle's algorithm off only on sockets that name TCP as their protocol, which those of
    # socket.create_server do not; with it an answer's body waits 40 ms for the ACK of its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def listen(
    database: Database, settings: ServingSettings, listener: socket.socket, *, on_listening: Listening
) -> RegistryServer:
    """Make the server over an open database and a bound socket; it runs when it is told to.

    on_listening: called with the URL and the registry's context once requests are answered.

    Raises:
        SettingsError, DatabaseError: as `create_app`.
    """
    app = create_app(database, settings)
    context: Context = app.state.context
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_TIMEOUT_S,
    )
    url = _url_of(listener)
    return RegistryServer(config, listener, on_start=lambda: on_listening(url, context), on_stop=context.watch.close)


def serve_until_stopped(
    settings: ServingSettings, *, on_listening: Listening, on_bound: Callable[[], None] = lambda: None
) -> None:
    """Bind, call `on_bound`, open the database, listen, call `on_listening`, and return after SIGTERM or SIGINT.

    Raises:
        SettingsError, DatabaseError: it could not start.
    """
    # The port first: a second start on a taken one fails before it touches a database.
    with bind(settings) as listener:
        on_bound()
        database = open_database(settings)
        try:
            listen(database, settings, listener, on_listening=on_listening).run_until_stopped()
        finally:
            database.close()


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
