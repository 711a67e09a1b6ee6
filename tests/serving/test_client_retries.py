# SPDX-License-Identifier: MIT
"""A move whose answer is lost is made once: a real registry behind a connection that breaks."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from serving.client import RegistryClient
from serving.database import open_database
from serving.errors import RegistryClientError
from serving.settings import ServingSettings
from tests.serving.api import make_ensemble
from tests.serving.running import Running
from tests.serving.threads import served

LIMIT_S = 20.0
DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Running]:
    database = open_database(ServingSettings.model_validate({"database_url": f"sqlite:///{tmp_path}/registry.db"}))
    with Running(database) as running:
        yield running
    database.close()


@contextmanager
def breaking(registry: Running, method: bytes) -> Iterator[str]:
    """The address of a proxy that takes the answer to the first request of this method, and closes the connection."""
    address = ("127.0.0.1", int(registry.url.rpartition(":")[2]))
    breaks_left = [1]

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(address) as server:
            is_breaking = False
            for _ in range(1000):
                for source in select.select([client, server], [], [], LIMIT_S)[0]:
                    data = source.recv(65536)
                    if source is client and data.startswith(method) and breaks_left[0]:
                        breaks_left[0] -= 1
                        is_breaking = True
                    if not data or (source is server and is_breaking):
                        return
                    (server if source is client else client).sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            threads = []
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    break
                threads.append(threading.Thread(target=serve, args=(client,), daemon=True))
                threads[-1].start()
            for thread in threads:
                thread.join(LIMIT_S)

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join(LIMIT_S)
    assert breaks_left == [0]


def serials(registry: Running) -> list[int]:
    with RegistryClient(registry.url) as client:
        return [row["serial"] for row in client.history("gr", "champion")]


def test_move_whose_answer_is_lost_is_made_once(registry: Running) -> None:
    pauses_s: list[float] = []
    with breaking(registry, b"PUT") as url, RegistryClient(url, sleep=pauses_s.append) as client:
        digest = client.publish(make_ensemble())["digest"]
        assert client.move("gr", "champion", digest=digest)["serial"] == 1
    assert serials(registry) == [1]
    assert pauses_s == [1.0]


def test_roll_back_whose_answer_is_lost_goes_back_once(registry: Running) -> None:
    with RegistryClient(registry.url) as client:
        digests = [client.publish(make_ensemble(number))["digest"] for number in range(3)]
        for digest in digests:
            client.move("gr", "champion", digest=digest)
    with breaking(registry, b"POST") as url, RegistryClient(url, sleep=lambda _: None) as client:
        assert client.roll_back("gr", "champion")["digest"] == digests[1]
    assert serials(registry) == [4, 3, 2, 1]


class _Busy(BaseHTTPRequestHandler):
    """Answers 503, with Retry-After if one is set."""

    retry_after: ClassVar[str | None] = None
    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Idempotency-Key"])
        self.send_response(503)
        if self.retry_after is not None:
            self.send_header("Retry-After", self.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.mark.parametrize(
    ("retry_after", "pauses_s"), [(None, []), ("2", [2.0]), ("3600", [10.0]), ("Wed, 21 Oct 2026", []), ("²", [])]
)
def test_busy_registry_is_asked_once_more_where_it_says_when(
    retry_after: str | None, pauses_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Busy, "retry_after", retry_after)
    monkeypatch.setattr(_Busy, "keys", [])
    slept_s: list[float] = []
    with (
        served(HTTPServer(("127.0.0.1", 0), _Busy)) as url,
        RegistryClient(url, sleep=slept_s.append) as client,
        pytest.raises(RegistryClientError, match="got 503"),
    ):
        client.roll_back("gr", "champion")
    assert slept_s == pauses_s
    assert len(_Busy.keys) == 1 + len(pauses_s)
    assert len(set(_Busy.keys)) == 1


def test_keys_of_two_moves_differ(registry: Running) -> None:
    with RegistryClient(registry.url) as client:
        digest = client.publish(make_ensemble())["digest"]
        moved = [client.move("gr", "champion", digest=digest)["serial"] for _ in range(2)]
    assert moved == [1, 2]


def test_registry_that_is_not_there_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    slept_s: list[float] = []
    with (
        RegistryClient(f"http://127.0.0.1:{port}", sleep=slept_s.append) as client,
        pytest.raises(RegistryClientError, match="is `ccatune serve` running there"),
    ):
        client.move("gr", "champion", digest=DIGEST)
    assert slept_s == []
