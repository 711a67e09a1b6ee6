# SPDX-License-Identifier: MIT
"""The HTTP client against registries that behave and that do not; all on 127.0.0.1."""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.agent.client import MAX_ANSWER_BYTES, RegistryClient, parse_offer
from serving.agent.errors import OfferRefusedError, SettingsError
from serving.agent.state import CcaReport, State
from serving.agent.table import Table
from tests.serving.agent.fakes import FakeRegistry, answer, client_to, ensemble, etag, table

ONE, TWO = table(1), table(2)
REPORT = CcaReport(
    cca="gr",
    channel="champion",
    offered_digest=ONE.ensemble.digest,
    offered_serial=1,
    effective_digest=None,
    effective_urgent=False,
    effective_serial=0,
    state=State.STARTING,
    error=None,
    kernel_version="6.1",
    module_version=None,
    agent_version="0.1.0",
)


_made: list[RegistryClient] = []


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def client_of(url: str, *, timeout_s: float = 20, **more: Any) -> RegistryClient:
    """A client that is closed at the end of the test."""
    _made.append(client_to(url, timeout_s=timeout_s, **more))
    return _made[-1]


def no_answer(client: RegistryClient) -> str:
    """Why the registry gave no usable answer."""
    result = client.poll("gr", "champion")
    assert (result.state, result.table) == (State.OFFLINE, None)
    return str(result.error)


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer connections with whatever `serve` does; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    done = threading.Event()

    def accept() -> None:
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                try:
                    connection.recv(65536)
                    serve(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        thread.join(timeout=10)
        listener.close()


def test_offer_comes_with_its_strong_etag(registry: FakeRegistry) -> None:
    registry.offer(ONE)
    offer = client_of(registry.url).poll("gr", "champion")
    assert (offer.table, offer.etag) == (ONE, etag(ONE))
    assert registry.asked == [("/v1/channels/gr/champion", None)]


def test_weak_etag_is_not_sent_back(registry: FakeRegistry) -> None:
    registry.answer_with(200, answer(ONE), ETag='W/"1"')
    offer = client_of(registry.url).poll("gr", "champion")
    assert (offer.table, offer.etag) == (ONE, None)


def test_current_etag_gives_nothing_new(registry: FakeRegistry) -> None:
    registry.offer(ONE)
    offer = client_of(registry.url).poll("gr", "champion", etag=etag(ONE))
    assert (offer.table, offer.etag) == (None, etag(ONE))


def test_long_poll_returns_when_the_channel_moves(registry: FakeRegistry) -> None:
    registry.offer(ONE)
    mover = threading.Timer(0.2, registry.offer, [TWO])
    mover.start()
    offer = client_of(registry.url).poll("gr", "champion", etag=etag(ONE), wait_s=60)
    mover.join()
    assert offer.table == TWO
    assert registry.asked[-1] == ("/v1/channels/gr/champion?wait=60", etag(ONE))


def test_registry_below_a_path_is_asked_there(registry: FakeRegistry) -> None:
    registry.offer(ONE)
    client_of(registry.url + "/behind/a/proxy/").poll("gr", "champion")
    assert registry.asked[-1][0] == "/behind/a/proxy/v1/channels/gr/champion"


def test_report_is_posted_under_the_agents_name(registry: FakeRegistry) -> None:
    client_of(registry.url).post_report(lambda: "host:1", REPORT)
    assert registry.reports == [{"path": "/v1/agents/host%3A1/reports", **asdict(REPORT)}]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_refused_and_not_followed(registry: FakeRegistry, status: int) -> None:
    registry.answer_with(status, Location=registry.url + "/elsewhere")
    assert re.search(f"got {status} to .*redirects are refused", no_answer(client_of(registry.url)))
    assert len(registry.asked) == 1


def test_error_of_the_registry_is_told_with_its_detail(registry: FakeRegistry) -> None:
    result = client_of(registry.url).poll("gr", "champion")
    assert result.state is State.NO_CHANNEL
    assert re.search(r"expected 200 or 304, got 404 \(no channel champion\)", str(result.error))


@pytest.mark.parametrize("status", [201, 204, 206, 304, 400, 500, 503])
def test_any_other_answer_is_no_offer(registry: FakeRegistry, status: int) -> None:
    registry.answer_with(status, b"" if status in {204, 304} else answer(ONE))
    assert re.search(f"got {status}", no_answer(client_of(registry.url)))


def test_answer_over_4_mib_is_refused_before_it_is_parsed(registry: FakeRegistry) -> None:
    registry.answer_with(200, answer(ONE) + b" " * MAX_ANSWER_BYTES)
    assert re.search("at most 4194304 bytes", no_answer(client_of(registry.url)))


def test_compressed_answer_is_refused(registry: FakeRegistry) -> None:
    registry.answer_with(200, answer(ONE), Content_Encoding="gzip")
    assert re.search("compressed", no_answer(client_of(registry.url)))


def drip(connection: socket.socket, data: bytes) -> None:
    """Send a byte every 20 ms, each well within any timeout of a single receive."""
    for byte in itertools.chain(data):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def test_slow_body_ends_at_the_deadline() -> None:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b" " * 1000
    with raw_server(lambda c: drip(c, body)) as url:
        assert "no whole one" in no_answer(client_of(url, timeout_s=0.3))


def test_server_that_says_nothing_ends_at_the_deadline() -> None:
    answered = threading.Event()

    def say_nothing(_: socket.socket) -> None:
        answered.wait(20)

    with raw_server(say_nothing) as url:
        assert re.search("no whole one", no_answer(client_of(url, timeout_s=0.2)))
        answered.set()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
    ],
    ids=["nothing", "other protocol", "cut short", "bad chunk", "long header", "many headers", "no status"],
)
def test_answer_that_is_not_whole_http_is_unavailable(data: bytes) -> None:
    with raw_server(lambda c: c.sendall(data)) as url:
        assert no_answer(client_of(url))


def test_abort_ends_a_poll_that_is_held(registry: FakeRegistry) -> None:
    registry.offer(ONE)
    client = client_of(registry.url, timeout_s=60)
    threading.Timer(0.2, client.abort).start()
    assert client.poll("gr", "champion", etag=etag(ONE), wait_s=60).state is State.OFFLINE
    assert "stopping" in no_answer(client)


def test_https_asks_for_a_certificate_that_is_trusted(registry: FakeRegistry) -> None:
    assert no_answer(client_of(registry.url.replace("http:", "https:")))
    with pytest.raises(SettingsError, match="expected certificates"):
        client_of("https://127.0.0.1:1", ca_file="/nonexistent.pem")


def test_proxy_of_the_environment_is_not_used(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    registry.offer(ONE)
    assert client_of(registry.url).poll("gr", "champion").table == ONE


def test_passwords_in_addresses_are_in_no_error(registry: FakeRegistry) -> None:
    for url in ("http://user:hunter2@r", "http://user:hunter2@[r", "http://user:hun/ter2@r:x", "user:hunter2@r"):
        with pytest.raises(SettingsError) as refused:
            client_of(url)
        assert "hun" not in str(refused.value)
    registry.answer_with(302, Location="http://user:hunter2@elsewhere/")
    redirected = no_answer(client_of(registry.url))
    assert "got 302 to '...@elsewhere/'" in redirected
    assert "hunter2" not in redirected


def test_control_characters_of_a_registry_are_shown_as_escapes(registry: FakeRegistry) -> None:
    registry.answer_with(503, b'{"detail": "\\u001b[2Jgone"}')
    assert re.search(r"\(\\x1b\[2Jgone\)", no_answer(client_of(registry.url)))


# -- the content of an offer -----------------------------------------------------------

GOOD = answer(table(7))


def offer_in(body: bytes) -> Table:
    return parse_offer(body, cca="gr", channel="champion")[1]


def test_offer_becomes_the_table_that_was_published() -> None:
    assert offer_in(GOOD) == table(7)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null", b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_answer_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(OfferRefusedError, match="answer is refused"):
        offer_in(body)


@pytest.mark.parametrize(
    "changes",
    [
        {"cca": "reno"},
        {"channel": "canary"},
        {"serial": 0},
        {"serial": "7"},
        {"serial": True},
        {"serial": 2**63},
        {"registry": "a b"},
        {"registry": None},
        {"hold_back_permille": 1001},
        {"hold_back_permille": None},
        {"urgent": None},
        {"urgent": 1},
        {"urgent": "true"},
        {"digest": "sha256:" + "0" * 64},
        {"digest": None},
        {"ensemble": None},
        {"ensemble": []},
        {"ensemble": {**ensemble().to_json(), "epoch_ms": 20_000}},
        {"ensemble": {**ensemble().to_json(), "columns": [["nested"]]}},
    ],
    ids=str,
)
def test_offer_with_one_wrong_field_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OfferRefusedError, match="is refused"):
        offer_in(answer(table(7), **changes))


@given(position=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255))
def test_damaged_byte_never_changes_the_content(position: int, value: int) -> None:
    damaged = GOOD[:position] + bytes([value]) + GOOD[position + 1 :]
    try:
        offered = offer_in(damaged)
    except OfferRefusedError:
        return
    # Registry, serial, hold-back share and the mark are outside of the digest: they belong to the deployment.
    assert offered.ensemble == table(7).ensemble
    assert json.loads(damaged)["digest"] == table(7).ensemble.digest
