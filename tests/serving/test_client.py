# SPDX-License-Identifier: MIT
"""The registry's API for Python, against answers that are none of a registry's"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from serving.client import RegistryClient
from serving.errors import RegistryClientError
from serving.signatures import Envelope
from tests.serving.threads import served

DIGEST = "sha256:" + "0" * 64
MOVED = json.dumps(
    {"registry": "r", "cca": "gr", "channel": "c", "serial": 1, "digest": "d", "restores_serial": None, "urgent": False}
)


class _Handler(BaseHTTPRequestHandler):
    text = ""
    bodies: ClassVar[list[bytes]] = []

    def do_GET(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.fixture
def answering() -> Iterator[Callable[[str], RegistryClient]]:
    """Gives a client whose every request is answered with a 200 of that text."""
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    with served(server):
        clients: list[RegistryClient] = []

        def make(text: str) -> RegistryClient:
            server.RequestHandlerClass = type("Handler", (_Handler,), {"text": text})
            _Handler.bodies.clear()
            clients.append(RegistryClient(f"http://user:hunter2@127.0.0.1:{server.server_port}"))
            return clients[0]

        yield make
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "url",
    [
        "", "nonsense", "ftp://h", "http://", "http://127.0.0.1:abc", "http://[::1", "http://a..b",
        f"http://{'a' * 64}", "http://h/\n", "http://h\udcff", "http://h?x=1", "http://h#x",
    ],
)  # fmt: skip
def test_text_that_is_no_address_of_a_registry_is_refused(url):
    with pytest.raises(RegistryClientError, match="registry: expected a URL such as http"):
        RegistryClient(url)


@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:1", "http://user:hunter2@127.0.0.1:abc"])
def test_a_password_in_the_address_is_in_no_error(url):
    with pytest.raises(RegistryClientError) as error, RegistryClient(url) as client:
        client.health()
    assert "hunter2" not in str(error.value)
    assert "127.0.0.1" in str(error.value)


@pytest.mark.parametrize(
    ("cca", "channel", "digest", "note", "named"),
    [
        ("gr/..", "champion", DIGEST, "", "cca"),
        ("gr", "champion\n", DIGEST, "", "channel"),
        ("gr", "\udcff", DIGEST, "", "channel"),
        ("gr", "..", DIGEST, "", "channel"),
        ("gr", "champion", "", "", "digest"),
        ("gr", "champion", DIGEST, "n" * 1001, "note"),
    ],
)
def test_what_the_registry_would_not_take_is_not_sent(cca, channel, digest, note, named):
    with pytest.raises(RegistryClientError, match=f"^{named}: .*, got '"):
        RegistryClient().move(cca, channel, digest=digest, note=note)


def test_a_note_that_is_no_unicode_is_sent_as_the_registry_would_keep_it(answering):
    assert answering(MOVED).move("gr", "c", digest=DIGEST, note="\udcff")["serial"] == 1


@pytest.mark.parametrize("urgent", [None, True, False])
def test_urgency_that_is_left_to_the_registry_is_not_sent(answering, urgent: bool | None):
    client = answering(MOVED)
    client.move("gr", "c", digest=DIGEST, urgent=urgent)
    client.roll_back("gr", "c", urgent=urgent)
    bodies = [json.loads(body) for body in _Handler.bodies]
    assert [body.get("urgent") for body in bodies] == [urgent, urgent]
    assert ["urgent" in body for body in bodies] == [urgent is not None] * 2


@pytest.mark.parametrize("text", ["<html>", "", "[]", "{}", "[" * 5000, '{"items": [1], "next_cursor": null}'])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.move("gr", "champion", digest=DIGEST),
        lambda client: client.roll_back("gr", "champion"),
        lambda client: list(client.ensembles()),
        lambda client: list(client.history("gr", "champion")),
    ],
)
def test_an_answer_that_is_no_registrys_is_an_error_in_words(answering, text, ask):
    with pytest.raises(RegistryClientError, match=re.escape("is it a registry?")) as error:
        ask(answering(text))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda client: client.root(), "expected a root document, got envelope: expected"),
        (lambda client: client.root(7), "expected a root document, got envelope: expected"),
        (lambda client: client.publish_root(Envelope("t", b"{}", {})), "is it a registry?"),
        (lambda client: client.add_signature(DIGEST, Envelope("t", b"{}", {})), "is it a registry?"),
    ],
)
@pytest.mark.parametrize("text", ["<html>", "", "[]", "{}", "[" * 5000])
def test_an_answer_without_the_signed_document_is_an_error_in_words(answering, ask, message, text):
    with pytest.raises(RegistryClientError, match=re.escape(message)) as error:
        ask(answering(text))
    assert "hunter2" not in str(error.value)


def test_a_signature_is_sent_for_a_digest_alone():
    with pytest.raises(RegistryClientError, match=r"^digest: "):
        RegistryClient().add_signature("../roots", Envelope("t", b"{}", {}))


def test_a_list_that_never_ends_is_left(answering):
    with pytest.raises(RegistryClientError, match="got the cursor '7' again"):
        list(answering('{"items": [], "next_cursor": "7"}').agents())
