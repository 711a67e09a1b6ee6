# SPDX-License-Identifier: MIT
"""The kept connection of the agent: when it is used again, and when not. The server counts its connections."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from serving.agent import connection as connection_module
from serving.agent.connection import Answer, Connection, Request, connect

ASK = Request("GET", "/", {}, None)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 304 Not Modified\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
LIMIT_S = 20.0
OPEN = Path("/proc/self/fd")


@dataclass
class Script:
    """A server that answers the requests of each connection with the given bytes, and closes it after the last.

    used: how many requests each connection had.
    """

    port: int = 0
    used: list[int] = field(default_factory=list)
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


@contextmanager
def server(*connections: Sequence[bytes]) -> Iterator[Script]:
    """A server that accepts as many connections as it has scripts."""
    script = Script()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        script.port = listener.getsockname()[1]
        done = threading.Event()

        def serve() -> None:
            for answers in connections:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                with accepted:
                    accepted.settimeout(LIMIT_S)
                    script.used.append(0)
                    for answer in answers:
                        if not accepted.recv(65536):
                            break
                        script.used[-1] += 1
                        accepted.sendall(answer)
                script.closed.release()
            done.wait(LIMIT_S)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            done.set()
            # Ends an accept that no connection came for.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(LIMIT_S)


@contextmanager
def connection_to(script: Script, *, clock: Callable[[], float] | None = None) -> Iterator[Connection]:
    """A connection that is closed at the end."""
    url = urlsplit(f"http://127.0.0.1:{script.port}")
    made = Connection(url, tls=None) if clock is None else Connection(url, tls=None, clock=clock)
    try:
        yield made
    finally:
        made.close()


def ask(connection: Connection) -> Answer:
    return connection.run(ASK, timeout_s=LIMIT_S, max_body_bytes=100)


@pytest.mark.parametrize("answer", [WHOLE, EMPTY, CHUNKED], ids=["length", "none", "chunked"])
def test_whole_answers_come_over_one_connection(answer: bytes) -> None:
    with server([answer] * 5) as script, connection_to(script) as connection:
        assert len({ask(connection).status for _ in range(5)}) == 1
    assert script.used == [5]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        WHOLE + b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + b" " * 300,
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
    ],
    ids=["close", "1.0", "5xx", "bytes after it", "over the bound", "1xx"],
)
def test_any_other_answer_ends_its_connection(answer: bytes) -> None:
    with server([answer, WHOLE], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        assert ask(connection).body == b"ok"
    assert script.used == [1, 1]


def test_connection_after_an_error_is_a_new_one() -> None:
    with server([b"no HTTP\r\n\r\n", WHOLE], [WHOLE]) as script, connection_to(script) as connection:
        with pytest.raises(Exception, match="no HTTP"):
            ask(connection)
        assert ask(connection).body == b"ok"
    assert script.used == [1, 1]


def test_connection_that_the_server_closed_meanwhile_is_replaced_before_the_request() -> None:
    with server([WHOLE], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        assert script.closed.acquire(timeout=LIMIT_S)
        assert ask(connection).body == b"ok"
    assert script.used == [1, 1]


def test_request_that_meets_a_closing_connection_is_sent_once_more() -> None:
    # The server takes the second request and closes: the race of its time limit with the request.
    with server([WHOLE, b""], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        assert ask(connection).body == b"ok"
    assert script.used == [2, 1]


def test_request_on_a_new_connection_that_closes_is_not_sent_again() -> None:
    with server([b""], [WHOLE]) as script, connection_to(script) as connection, pytest.raises(ConnectionError):
        ask(connection)
    assert script.used == [1]


def test_second_closed_connection_ends_the_attempt() -> None:
    with server([WHOLE, b""], [b""], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        with pytest.raises(ConnectionError):
            ask(connection)
    assert script.used == [2, 1]


def test_answer_that_breaks_off_is_not_asked_for_again() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nha"
    with server([WHOLE, half], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        with pytest.raises(http.client.IncompleteRead):
            ask(connection)
    assert script.used == [2]


@pytest.mark.parametrize("step_s", [connection_module.MAX_IDLE_S, connection_module.MAX_IDLE_S + 1.0])
def test_connection_that_was_idle_too_long_is_replaced(step_s: float) -> None:
    now_s = 0.0
    with server([WHOLE] * 2, [WHOLE]) as script, connection_to(script, clock=lambda: now_s) as connection:
        ask(connection)
        now_s += step_s
        ask(connection)
    assert script.used == ([2] if step_s == connection_module.MAX_IDLE_S else [1, 1])


def test_connection_is_not_used_for_ever() -> None:
    now_s = 0.0
    n_asked = int(connection_module.MAX_AGE_S / connection_module.MAX_IDLE_S) + 2
    with server([WHOLE] * n_asked, [WHOLE]) as script, connection_to(script, clock=lambda: now_s) as connection:
        for _ in range(n_asked):
            ask(connection)
            now_s += connection_module.MAX_IDLE_S
    assert len(script.used) == 2
    assert sum(script.used) == n_asked


def test_aborted_connection_sends_nothing_again() -> None:
    with server([WHOLE, b""], [WHOLE]) as script, connection_to(script) as connection:
        ask(connection)
        connection.abort()
        with pytest.raises(OSError, match=r"ended by the agent|closed"):
            ask(connection)
    assert script.used == [1]


def test_connection_sends_small_packets_at_once_and_closes_a_socket_without_its_options() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        deadline_s = time.monotonic() + 60
        with connect(host, port, deadline_s=deadline_s, clock=time.monotonic) as raw:
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        n_open = len(list(OPEN.iterdir()))
        with pytest.raises(OSError, match="Protocol not available"):
            connect(host, port, deadline_s=deadline_s, clock=time.monotonic, options=[(socket.SOL_SOCKET, 9999, 1)])
        assert len(list(OPEN.iterdir())) == n_open
