# SPDX-License-Identifier: MIT
"""Bounds on connections, and on the time of their parts"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from serving.errors import SettingsError
from serving.http.connections import BoundedListener, connection_bound
from tests.serving.process import Process
from tests.serving.running import Running

pytestmark = pytest.mark.service

# Longer than any limit that a test sets. A read that takes this long fails the test.
PATIENCE_S = 20
HEAD = (
    b"POST /v1/ensembles HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)


def connect(url: str) -> socket.socket:
    """A connection to the registry that has sent nothing."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def rest_of(connection: socket.socket) -> bytes:
    """What the registry sends until it ends the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def send_often(connection: socket.socket, part: bytes, *, times: int) -> None:
    """Send the bytes again and again. Raises ConnectionError when the registry has closed the connection."""
    for _ in range(times):
        connection.sendall(part)


def test_more_idle_connections_than_descriptors_neither_stop_the_registry_nor_flood_its_log(tmp_path: Path):
    process = Process(tmp_path, descriptors=256)
    try:
        url = process.url
        with ExitStack() as idle:
            for _ in range(260):
                idle.enter_context(connect(url))
            assert httpx.get(f"{url}/healthz", timeout=PATIENCE_S).status_code == 503
        answers = (httpx.get(f"{url}/healthz", timeout=PATIENCE_S).status_code for _ in range(100))
        assert 200 in answers
        status, _, log = process.end()
    finally:
        process.end(signal.SIGKILL)
    assert (status, len(log.splitlines())) == (0, 1)
    assert "raise max_connections and ulimit -n" in log


@pytest.mark.parametrize("part", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127", HEAD, HEAD + b"{"])
def test_a_connection_that_never_ends_its_request_is_closed(api, part):
    with Running(api.database, head_timeout_s=0.2, body_timeout_s=0.2) as registry, connect(registry.url) as half:
        half.sendall(part)
        assert rest_of(half) == b""


def test_a_second_request_of_a_connection_has_the_same_limit(api):
    with Running(api.database, head_timeout_s=1) as registry, connect(registry.url) as kept:
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
        kept.sendall(b"GET /heal")
        assert b"HTTP" not in rest_of(kept)


def test_a_held_poll_outlives_the_limits_of_its_request(api):
    api.move(0)
    with Running(api.database, head_timeout_s=1, body_timeout_s=1) as registry:
        etag = registry.get(etag=None, wait=0).headers["etag"]
        assert registry.get(etag=etag, wait=1.5).status_code == 304


@pytest.mark.parametrize(
    "start",
    [
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"GET /healthz?",
        b"POST /v1/ensembles HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
def test_headers_and_trailers_without_end_are_refused(api, start):
    with Running(api.database) as registry, connect(registry.url) as endless:
        endless.sendall(start)
        with pytest.raises(ConnectionError):
            send_often(endless, b"x" * 1024, times=100_000)


def test_a_client_that_reads_no_answer_is_disconnected(api):
    api.publish(0)
    request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with Running(api.database, answer_timeout_s=0.2) as registry, connect(registry.url) as deaf:
        with pytest.raises(ConnectionError):
            send_often(deaf, request, times=10_000_000)
        assert httpx.get(f"{registry.url}/healthz", timeout=PATIENCE_S).status_code == 200


def test_the_oldest_idle_connections_make_room_for_new_ones(api):
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Running(api.database, max_connections=16) as registry, ExitStack() as stack:
        kept = [stack.enter_context(connect(registry.url)) for _ in range(14)]
        for connection in kept:
            connection.sendall(request)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(30):
            kept.append(stack.enter_context(connect(registry.url)))
            kept[-1].sendall(request)
            assert kept[-1].recv(65536).startswith(b"HTTP/1.1 200")
        rest_of(kept[0])
        kept[-1].sendall(request)
        assert kept[-1].recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("part", [b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_an_idle_connection_is_closed(api, part):
    with Running(api.database, keep_alive_s=1) as registry, connect(registry.url) as idle:
        idle.sendall(part)
        rest_of(idle)


def test_pipelined_requests_are_answered_in_order_up_to_a_bound(api):
    with Running(api.database) as registry, connect(registry.url) as eager, connect(registry.url) as greedy:
        paths = [f"/none-{number}" for number in range(30)]
        eager.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in paths))
        eager.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = rest_of(eager).decode()
        assert re.findall(r"/none-\d+", answers) == paths
        assert '"status":"ok"' in answers
        with pytest.raises(ConnectionError):
            send_often(greedy, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100, times=100_000)


def test_a_connection_over_the_bound_is_refused_and_an_ended_one_makes_room():
    with BoundedListener(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, max_connections=2) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        clients = [socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) for _ in range(3)]
        accepted = [listener.accept()[0] for _ in range(2)]
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert rest_of(clients[2]).startswith(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: ")
        # An event loop closes the connection, or takes its descriptor to close it.
        accepted[0].close()
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S), listener.accept()[0]:
            assert listener.n_connections == 2
        os.close(accepted[1].detach())
        for connection in clients:
            connection.close()
    assert listener.n_connections == 0


def test_the_bound_leaves_descriptors_for_the_database(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert connection_bound(max_connections=10_000, database_connections=16) == 1024 - 64 - 4 * 16
    assert connection_bound(max_connections=100, database_connections=16) == 100
    with pytest.raises(SettingsError, match="expected at least 4080 descriptors"):
        connection_bound(max_connections=100, database_connections=1000)
