# SPDX-License-Identifier: MIT
"""Attacks on the HTTP of a registry that runs as a process of its own, with accounts"""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import ccatune
from serving.access.token_text import public_id_of
from tests.serving.api import make_ensemble
from tests.serving.process import Process
from tests.serving.running import CHAMPION, LONG_S

pytestmark = pytest.mark.service

PATIENCE_S = 20
MIB = 1 << 20
HEAD_BYTES = 16 * 1024
HOST = b"Host: localhost\r\n"
SCOPES = ("publish", "move", "report", "read")


class Guarded:
    """The process, and clients with the tokens of its users."""

    def __init__(self, process: Process, admin: str) -> None:
        self.process, self.url = process, process.url
        self._clients = ExitStack()
        self.admin = self.client(admin)

    def client(self, token: str) -> httpx.Client:
        """A client with this token."""
        headers = {"Authorization": f"Bearer {token}"}
        return self._clients.enter_context(httpx.Client(base_url=self.url, headers=headers, timeout=LONG_S))

    def end(self) -> None:
        """Close the clients, and end the process."""
        self._clients.close()
        self.process.end(signal.SIGKILL)

    def new_token(self, *scopes: str, **limits: object) -> str:
        """A new token."""
        body = {"principal": "someone", "kind": "ci", "scopes": scopes, **limits}
        return str(self.admin.post("/v1/tokens", json=body).raise_for_status().json()["token"])

    def move(self, number: int = 0) -> httpx.Response:
        """Publish an ensemble, and move the champion to it."""
        ensemble = make_ensemble(number)
        self.admin.post("/v1/ensembles", json=ensemble.to_json()).raise_for_status()
        return self.admin.put(CHAMPION, json={"digest": ensemble.digest}).raise_for_status()

    def peak_bytes(self) -> int:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def connect(self) -> socket.socket:
        """A connection that has sent nothing."""
        place = urlsplit(self.url)
        return socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=PATIENCE_S)

    def answers(self, *parts: bytes) -> bytes:
        """What the registry answers to these bytes, sent one part after the other, until it ends the connection."""
        with self.connect() as connection:
            received = []
            for part in parts:
                connection.sendall(part)
            while some := connection.recv(65536):
                received.append(some)
        return b"".join(received)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Guarded]]:
    """Starts registries on one database; they end with the module."""
    folder = tmp_path_factory.mktemp("hostile")
    token_file = folder / "admin.token"
    database = f"sqlite:///{folder}/registry.db"
    assert ccatune.run(["serve", "--database", database, "--init", "--token-file", str(token_file)]) == 0
    started: list[Guarded] = []

    def begin() -> Guarded:
        own = folder / str(len(started))
        own.mkdir()
        (own / "registry.db").symlink_to(folder / "registry.db")
        started.append(Guarded(Process(own, with_accounts=True), token_file.read_text(encoding="ascii").strip()))
        return started[-1]

    yield begin
    for registry in started:
        registry.end()


@pytest.fixture(scope="module")
def registry(start: Callable[..., Guarded]) -> Guarded:
    """A registry with a champion."""
    made = start()
    made.move()
    return made


@pytest.fixture(scope="module")
def junk() -> bytes:
    """A body of almost 2 MiB with as many unknown keys as it can have."""
    return json.dumps({f"{number:x}": 1 for number in range(180_000)}, separators=(",", ":")).encode()


def post(authorization: str, *headers: bytes) -> bytes:
    """The head of a request to publish."""
    token = f"Authorization: {authorization}\r\n".encode()
    return b"POST /v1/ensembles HTTP/1.1\r\n" + HOST + token + b"".join(line + b"\r\n" for line in headers)


def test_no_token_makes_the_registry_parse_bodies_that_it_has_no_use_for(registry, junk):
    before_bytes = registry.peak_bytes()
    targets = [("POST", "/v1/tokens", "admin"), ("POST", "/v1/roots", "admin"), ("PUT", CHAMPION, "move"),
               ("POST", f"{CHAMPION}/rollback", "move"), ("POST", "/v1/ensembles", "publish"),
               ("POST", "/v1/agents/a/reports", "report")]  # fmt: skip
    tokens = {scope: registry.client(registry.new_token(scope)) for scope in SCOPES}
    headers = {"Content-Type": "application/json"}
    for scope, client in tokens.items():
        for method, path, needed in targets:
            answer = client.request(method, path, content=junk, headers=headers)
            # The junk is no ensemble, and too large for anything else.
            expected = 403 if scope != needed else 422 if needed == "publish" else 413
            assert answer.status_code == expected, (scope, path)
            assert len(answer.content) < 4096
    # In parallel, as one hostile client would send them.
    with ThreadPoolExecutor(4) as pool:
        client = tokens["publish"]
        statuses = pool.map(
            lambda _: client.post("/v1/ensembles", content=junk, headers=headers).status_code, range(24)
        )
        # On a busy machine some wait too long in the queue.
        assert {422} <= set(statuses) <= {422, 503}
    assert registry.peak_bytes() - before_bytes < 400 * MIB


def test_the_errors_of_an_answer_are_few_and_short(registry):
    client = registry.client(registry.new_token("move"))
    body = {"digest": "x" * 50_000, "k" * 50_000: 1, **{str(number): 1 for number in range(2000)}}
    answer = client.put(CHAMPION, json=body)
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 20)
    assert len(answer.content) < 10_000
    assert "; and more, 2002 in all" in answer.json()["detail"]


@pytest.mark.parametrize("split", [False, True])
def test_the_body_of_a_request_for_another_protocol_is_read_as_its_body(registry, split):
    inner = b"GET /v1/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
    head = post("Bearer none", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk",
                b"Content-Length: %d" % len(inner)) + b"\r\n"  # fmt: skip
    last = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    received = registry.answers(*([head, inner, last] if split else [head + inner + last]))
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"401", b"200"]


def test_a_client_that_prefers_http2_may_write(registry, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("not installed: curl")
    body = tmp_path / "ensemble.json"
    body.write_text(json.dumps(make_ensemble(1).to_json()), encoding="ascii")
    token = registry.admin.headers["authorization"]
    # The form of --http2 is curl's own; some of its builds lack it.
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--http2", "--max-time", str(PATIENCE_S), "--write-out", "%{http_code}",
         "--output", "-", "--header", f"Authorization: {token}", "--header", "Content-Type: application/json",
         "--data", f"@{body}", f"{registry.url}/v1/ensembles"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout[-3:]) == (0, "201"), done.stderr


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (HOST + b"Host: localhost\r\n", "expected one Host header, got 2"),
        (b"", "expected one Host header, got 0"),
        (HOST + b"X: " + b"x" * HEAD_BYTES, "expected at most 16384 bytes of headers or trailers, got more"),
        (HOST + b"X: 12345678\r\n" * 1300, "expected at most 16384 bytes of headers or trailers, got more"),
    ],
)
def test_a_head_that_is_too_large_or_has_not_one_host_is_refused(registry, lines, why):
    received = registry.answers(b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n\r\n")
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["detail"] == why


def test_a_head_of_almost_the_limit_is_accepted(registry):
    lines = HOST + b"Connection: close\r\nX: " + b"x" * (HEAD_BYTES - 100)
    assert registry.answers(b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_malformed_request_is_not_answered_in_the_place_of_an_earlier_one(registry):
    token = registry.admin.headers["authorization"].encode()
    etag = registry.admin.get(CHAMPION).headers["etag"].encode()
    poll = b"GET %s?wait=60 HTTP/1.1\r\n%sAuthorization: %s\r\nIf-None-Match: %s\r\n\r\n" % (
        CHAMPION.encode(), HOST, token, etag,
    )  # fmt: skip
    assert registry.answers(poll, b"NO HTTP\r\n\r\n") == b""


def test_a_trailer_does_not_change_the_request(registry):
    token = registry.admin.headers["authorization"].encode()
    body = json.dumps({"digest": make_ensemble().digest}).encode()
    head = b"PUT %s HTTP/1.1\r\n%sAuthorization: %s\r\nContent-Type: application/json\r\nConnection: close\r\n" % (
        CHAMPION.encode(), HOST, token,
    )  # fmt: skip
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(body), body)
    assert registry.answers(head + chunks + b'If-Match: "999"\r\n\r\n').startswith(b"HTTP/1.1 200 ")


def test_malformed_requests_do_not_fill_the_log(start):
    registry = start()
    for part in (b"NO HTTP\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"):
        for _ in range(50):
            registry.answers(part)
    _, _, log = registry.process.end()
    assert 1 <= len(log.splitlines()) <= 3, log


def held_poll(client: httpx.Client, *, held_s: float) -> tuple[threading.Thread, list[httpx.Response]]:
    """A long poll that is held for so long already, and the list that gets its answer."""
    etag = client.get(CHAMPION).headers["etag"]
    answers: list[httpx.Response] = []
    poll = threading.Thread(
        target=lambda: answers.append(client.get(f"{CHAMPION}?wait=60", headers={"If-None-Match": etag}))
    )
    poll.start()
    poll.join(held_s)
    assert poll.is_alive()
    return poll, answers


def test_a_revocation_by_another_process_reaches_a_held_poll_before_the_offer(registry, start):
    other = start()
    token = registry.new_token("read")
    poll, answers = held_poll(registry.client(token), held_s=0.5)
    other.admin.delete(f"/v1/tokens/{public_id_of(token.encode())}").raise_for_status()
    other.move(2)
    poll.join()
    assert answers[0].status_code == 401


def test_a_held_poll_whose_token_expires_receives_no_offer(registry):
    poll, answers = held_poll(registry.client(registry.new_token("read", lifetime_s=2)), held_s=2.5)
    registry.move(3)
    poll.join()
    assert answers[0].status_code == 401
