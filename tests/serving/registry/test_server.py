# SPDX-License-Identifier: MIT
"""The registry as a process: `ccatune serve`"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

import ccatune
from serving.errors import SettingsError
from serving.registry.server import bind
from serving.settings import ServingSettings
from tests.serving.process import START_S, Process

pytestmark = pytest.mark.service


@pytest.fixture
def process(tmp_path) -> Iterator[Process]:
    """A running registry."""
    running = Process(tmp_path, "--registry-name", "lab")
    yield running
    running.end(signal.SIGKILL)


def test_it_makes_its_database_says_where_it_is_and_ends_cleanly_on_sigterm(process):
    url = process.url
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "registry": "lab"}
    status, out, err = process.end()
    assert (status, err) == (0, "")
    assert out.splitlines()[-1].split() == ["url", url]
    assert not process.ready_file.exists()


def test_a_held_poll_does_not_hold_up_the_end(process, ensemble_json):
    digest = httpx.post(f"{process.url}/v1/ensembles", json=ensemble_json()).json()["digest"]
    channel = f"{process.url}/v1/channels/gr/champion"
    etag = httpx.put(channel, json={"digest": digest}).headers["etag"]
    place = urlsplit(process.url)
    with contextlib.closing(http.client.HTTPConnection(str(place.hostname), place.port, timeout=600)) as poll:
        poll.request("GET", "/v1/channels/gr/champion?wait=3600", headers={"If-None-Match": etag})
        assert select.select([poll.sock], [], [], 0.5)[0] == [], "the poll is held"
        assert process.end()[0] == 0
        assert poll.getresponse().status == 304


def test_what_was_acknowledged_is_there_after_a_kill_and_the_serial_goes_on(tmp_path, ensemble_json):
    process = Process(tmp_path)
    digest = httpx.post(f"{process.url}/v1/ensembles", json=ensemble_json()).json()["digest"]
    first = httpx.put(f"{process.url}/v1/channels/gr/champion", json={"digest": digest}).json()
    assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
    (tmp_path / "ready").unlink()
    again = Process(tmp_path)
    try:
        url = again.url
        offer = httpx.get(f"{url}/v1/channels/gr/champion").json()
        assert offer.pop("ensemble") == ensemble_json()
        assert offer.pop("signatures")["deployment"] is None
        assert offer == first
        assert httpx.put(f"{url}/v1/channels/gr/champion", json={"digest": digest}).json()["serial"] == 2
    finally:
        again.end()


def test_json_output_is_one_object_with_the_address(tmp_path):
    process = Process(tmp_path, "--json")
    url = process.url
    status, out, _ = process.end(signal.SIGINT)
    facts = json.loads(out)
    assert (status, facts["url"], facts["registry"]) == (0, url, "local")


def serve(*options: str) -> int:
    """Run `ccatune serve` in this process, for a start that fails."""
    return ccatune.run(["serve", *options])


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_others_reach_needs_its_own_word(sqlite_url, capsys, host):
    assert serve("--database", sqlite_url, "--host", host, "--port", "0") == 2
    error = capsys.readouterr().err
    assert error.startswith("ccatune: host: expected a loopback address, or TLS")
    assert "--insecure-bind-anyway" in error
    assert "--tls-cert-file" in error
    assert "in plain text" in error


def test_with_its_own_word_any_address_is_bound():
    settings = ServingSettings.model_validate({"host": "0.0.0.0", "port": 0, "insecure_bind": True})
    with bind(settings) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


def test_answers_are_sent_without_waiting_for_the_ack_of_their_head():
    # What asyncio looks at before it sets TCP_NODELAY on an accepted connection.
    with bind(ServingSettings(port=0)) as listener:
        listener.settimeout(START_S)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_an_error_in_words(sqlite_url, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve("--database", sqlite_url, "--port", str(port)) == 2
    assert f"expected 127.0.0.1 port {port} to be free" in capsys.readouterr().err


def test_a_second_start_on_a_taken_port_leaves_the_ready_file_of_the_first(process, sqlite_url, capsys):
    url = process.url
    port = url.rpartition(":")[2]
    assert serve("--database", sqlite_url, "--port", port, "--ready-file", str(process.ready_file)) == 2
    assert "to be free" in capsys.readouterr().err
    assert process.url == url


def test_a_ready_file_that_cannot_be_is_refused_before_a_database_is_made(sqlite_url, tmp_path, capsys):
    (tmp_path / "file").touch()
    for folder in ("file", "none"):
        ready = tmp_path / folder / "ready"
        assert serve("--database", sqlite_url, "--port", "0", "--ready-file", str(ready)) == 2
        assert f"expected the folder {ready.parent} to exist" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_cannot_be_looked_up_is_an_error_in_words(host):
    with pytest.raises(SettingsError, match="host: expected an address of this machine"):
        bind(ServingSettings.model_validate({"host": host, "port": 0}))


def test_a_host_that_is_not_this_machine_is_an_error_in_words():
    with pytest.raises(SettingsError, match=r"expected 192\.0\.2\.1 port"):
        bind(ServingSettings.model_validate({"host": "192.0.2.1", "port": 0, "insecure_bind": True}))


def test_without_migrating_a_missing_database_is_refused_and_not_made(sqlite_url, tmp_path, capsys):
    assert serve("--database", sqlite_url, "--port", "0", "--no-migrate") == 2
    assert "expected a database, there is none; start once without --no-migrate" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_stale_ready_file_is_removed_once_the_port_is_bound(sqlite_url, tmp_path):
    stale = tmp_path / "ready"
    stale.write_text("http://127.0.0.1:1\n", encoding="utf-8")
    assert serve("--database", sqlite_url, "--port", "0", "--no-migrate", "--ready-file", str(stale)) == 2
    assert not stale.exists()
