# SPDX-License-Identifier: MIT
"""The agent in this process against a real registry by TLS, and against a fake one that requires a token."""

from __future__ import annotations

import io
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from serving.access.first import make_admin_token
from serving.agent.client import RegistryClient
from serving.agent.connection import ClientTls, TlsFiles
from serving.agent.errors import RegistryUnavailableError, SettingsError
from serving.agent.loop import Agent
from serving.agent.state import CcaReport, State
from serving.agent.store import AGENT_ID, STATE, Store
from serving.client import RegistryClient as OperatorClient
from serving.database import open_database
from serving.errors import RegistryClientError
from serving.registry.app import utc_now
from serving.settings import ServingSettings
from tests.serving.agent.fakes import FakeRegistry, FakeTree, client_to, log_to, settings_of, table, wait_until
from tests.serving.agent.test_client import REPORT
from tests.serving.certificates import Authority
from tests.serving.running import Running
from tests.serving.threads import beside

ONE = table(1)
WAIT_S = 20.0
TOKEN, OTHER = "ccat_abc_hunter2", "ccat_def_hunter3"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def registry_by_tls(folder: Path, authority: Authority, **changed: object) -> Iterator[tuple[Running, str]]:
    """A real registry, and its address by a name, so that its handshakes can be counted."""
    pair = authority.issue()
    database = open_database(ServingSettings.model_validate({"database_url": f"sqlite:///{folder}/registry.db"}))
    files = {"tls_cert_file": pair.cert, "tls_key_file": pair.key}
    with Running(database, wake_spread_ms=0, **files, **changed) as running:
        yield running, running.url.replace("127.0.0.1", "localhost")
    database.close()


@contextmanager
def agent(folder: Path, url: str, tree: FakeTree, *, log: io.StringIO | None = None, **changed: Any) -> Iterator[None]:
    """An agent in a thread."""
    settings = settings_of(folder, url, **{"wait_s": 0.2, "report_every_s": 1.0, **changed})
    running = Agent(settings, tree=tree, log=log_to(log), boot_id="boot-1", rng=random.Random(1))
    with beside(running.run, stop=running.stop):
        yield


def reports_of(url: str, authority: Authority) -> list[dict[str, Any]]:
    with OperatorClient(url, tls=TlsFiles(str(authority.file))) as client:
        return list(client.agents())


def deploy(url: str, authority: Authority, serial: int, *, token: str | None = None) -> None:
    with OperatorClient(url, token=token, tls=TlsFiles(str(authority.file))) as client:
        client.publish(table(serial).ensemble)
        client.move("gr", "champion", digest=table(serial).ensemble.digest)


def test_agent_follows_a_registry_by_tls_with_one_handshake_for_each_thread(
    authority: Authority, tmp_path: Path
) -> None:
    tree = FakeTree()
    with registry_by_tls(tmp_path, authority) as (running, url):
        deploy(url, authority, 1)
        handshakes: list[str | None] = []
        running.tls.context.sni_callback = lambda _socket, name, _context: handshakes.append(name)
        # Ten polls, and the reports that are due meanwhile.
        with agent(tmp_path, url, tree, ca_file=str(authority.file), report_every_s=1.0):
            wait_until(lambda: len(tree.accepted) == 1)
            time.sleep(2.5)
            assert len(handshakes) == 2
            deploy(url, authority, 2)
            wait_until(lambda: len(tree.accepted) == 2)
            wait_until(lambda: [row["effective_serial"] for row in reports_of(url, authority)] == [2])


def test_agent_shows_its_certificate_where_the_registry_wants_one(authority: Authority, tmp_path: Path) -> None:
    clients = Authority(tmp_path, "clients")
    pair = clients.issue("web-1")
    report = REPORT
    with registry_by_tls(tmp_path, authority, client_ca_file=clients.file) as (_, url):
        own = TlsFiles(str(authority.file), str(pair.cert), str(pair.key))
        with (
            client_to(url, ca_file=str(authority.file)) as client,
            pytest.raises(RegistryUnavailableError),
        ):
            client.post_report(lambda: "web-1", report)
        with client_to(
            url, ca_file=own.ca_file, client_cert_file=own.client_cert_file, client_key_file=own.client_key_file
        ) as client:
            client.post_report(lambda: "web-1", report)
        with OperatorClient(url, tls=own) as operator:
            assert [row["agent_id"] for row in operator.agents()] == ["web-1"]


@contextmanager
def registry_with_accounts(folder: Path) -> Iterator[tuple[str, OperatorClient]]:
    """A real registry with accounts, and an administrator's client of it."""
    settings = ServingSettings.model_validate({"database_url": f"sqlite:///{folder}/registry.db", "registry": "lab"})
    admin, _ = make_admin_token(settings, is_first=True, token_file=None, now=utc_now())
    database = open_database(settings)
    with (
        Running(database, wake_spread_ms=0, open=False) as running,
        OperatorClient(running.url, token=admin.text) as operator,
    ):
        operator.publish(ONE.ensemble)
        operator.move("gr", "champion", digest=ONE.ensemble.digest)
        yield running.url, operator
    database.close()


def test_agent_takes_its_id_from_its_token_and_a_contradiction_is_an_error(tmp_path: Path) -> None:
    with registry_with_accounts(tmp_path) as (url, operator):
        made = operator.create_token("web-1", kind="agent", scopes=["read", "report"], agent_id="web-1")
        path = str(token_file(tmp_path, made["token"]))

        def once(state: str, **changed: Any) -> tuple[CcaReport, dict[str, str]]:
            settings = settings_of(tmp_path / state, url, **{"agent_id": "", "token_file": path, **changed})
            (report,), unsent = Agent(settings, tree=FakeTree(), log=log_to(), boot_id="b").run_once()
            return report, unsent

        report, unsent = once("one")
        assert (report.state, unsent) == (State.UNSIGNED, {})
        assert [row["agent_id"] for row in operator.agents()] == ["web-1"]
        assert not (tmp_path / "one" / "state" / AGENT_ID).exists(), "no other id is chosen"
        report, unsent = once("two", agent_id="web-2")
        assert report.state == State.TOKEN_REFUSED
        assert "agent_id: expected web-1, for which the token" in (report.error or "")
        assert unsent.keys() == {"gr"}
        reader = operator.create_token("reader", kind="agent", scopes=["read"])
        report, unsent = once("three", token_file=str(token_file(tmp_path, reader["token"])))
        assert report.state == State.UNSIGNED
        assert "the scope report, got the scopes read" in unsent["gr"]


def test_agent_says_that_its_channel_does_not_exist_or_was_removed(tmp_path: Path) -> None:
    with registry_with_accounts(tmp_path) as (url, operator):
        made = operator.create_token("host", kind="agent", scopes=["read", "report"])
        tree, path = FakeTree(), str(token_file(tmp_path, made["token"]))
        with agent(tmp_path / "typo", url, FakeTree(), token_file=path, channel="champoin"):
            wait_until(lambda: state_of(tmp_path / "typo").get("state") == State.NO_CHANNEL)
            assert "got gr/champoin, which does not exist" in state_of(tmp_path / "typo")["error"]
        with agent(tmp_path, url, tree, token_file=path):
            wait_until(lambda: state_of(tmp_path).get("state") == State.UNSIGNED)
            operator.remove_channel("gr", "champion")
            wait_until(lambda: [row["state"] for row in operator.agents()] == ["NoChannel"])
            assert tree.read("gr", "ensemble") == tree.accepted[0]
            operator.move("gr", "champion", digest=ONE.ensemble.digest)
            wait_until(lambda: [row["effective_serial"] for row in operator.agents()] == [3])


def test_agent_reaches_a_registry_that_was_restarted_at_the_same_place(authority: Authority, tmp_path: Path) -> None:
    tree = FakeTree()
    with ExitStack() as stack:
        with registry_by_tls(tmp_path, authority) as (_, url):
            deploy(url, authority, 1)
            stack.enter_context(agent(tmp_path, url, tree, ca_file=str(authority.file)))
            wait_until(lambda: len(tree.accepted) == 1)
        stack.enter_context(registry_by_tls(tmp_path, authority, port=int(url.rpartition(":")[2])))
        deploy(url, authority, 2)
        wait_until(lambda: len(tree.accepted) == 2)


def test_certificate_of_the_agent_is_loaded_again_when_it_is_renewed(authority: Authority) -> None:
    pair = authority.issue("web-1")
    tls = ClientTls(TlsFiles(str(authority.file), str(pair.cert), str(pair.key)))
    first = tls.context()
    assert tls.context() is first
    authority.issue("web-1")
    assert tls.context() is not first
    pair.key.chmod(0o644)
    pair.key.write_bytes(pair.key.read_bytes() + b"\n")
    with pytest.raises(SettingsError, match=r"client_key_file .*: expected a file that others cannot read"):
        tls.context()


@contextmanager
def unanswering(n_silent: int) -> Iterator[tuple[int, list[str]]]:
    """A port, and addresses that do not connect there. The last one connects, and then says nothing."""
    hosts = [f"127.0.0.{number}" for number in range(2, n_silent + 3)]
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((hosts[0], 0), backlog=0))]
        port = int(listeners[0].getsockname()[1])
        listeners += [stack.enter_context(socket.create_server((host, port), backlog=0)) for host in hosts[1:-1]]
        stack.enter_context(socket.create_server((hosts[-1], port)))
        for listener in listeners:
            # The kernel answers no connection once the queue of those that nobody accepts is full.
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
        yield port, hosts


@pytest.mark.parametrize("kind", [client_to, OperatorClient])
def test_all_addresses_and_the_handshake_share_one_deadline(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., RegistryClient | OperatorClient]
) -> None:
    timeout_s = 1.0
    with unanswering(3) as (port, hosts):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in hosts]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with kind(f"https://registry.example:{port}", timeout_s=timeout_s) as client:
            began_s = time.monotonic()
            if isinstance(client, RegistryClient):
                assert client.poll("gr", "champion").state is State.OFFLINE
            else:
                with pytest.raises(RegistryClientError):
                    client.health()
            # One deadline for each address would take four times as long.
            assert timeout_s * 0.9 < time.monotonic() - began_s < timeout_s * 3


@pytest.mark.parametrize("kind", [client_to, OperatorClient])
def test_an_address_that_does_not_connect_leaves_time_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., RegistryClient | OperatorClient], fake: FakeRegistry
) -> None:
    fake.token = None
    port = int(fake.url.rpartition(":")[2])
    with unanswering(1) as (silent_port, hosts):
        places = [(hosts[0], silent_port), ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with kind("http://registry.example", timeout_s=2.0) as client:
            if isinstance(client, RegistryClient):
                assert client.poll("gr", "champion").table == ONE
            else:
                assert client.channel("gr", "champion")


@pytest.fixture
def fake(registry: FakeRegistry) -> FakeRegistry:
    """A registry that requires a token."""
    registry.token = TOKEN
    registry.offer(ONE)
    return registry


def token_file(folder: Path, token: str) -> Path:
    path = folder / "token"
    path.write_text(f"{token}\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def state_of(folder: Path) -> dict[str, Any]:
    return Store(folder / "state").load("gr", STATE, dict) or {}


def test_agent_with_a_token_is_served_and_a_new_token_needs_no_restart(tmp_path: Path, fake: FakeRegistry) -> None:
    path = token_file(tmp_path, OTHER)
    log = io.StringIO()
    with agent(tmp_path, fake.url, FakeTree(), log=log, token_file=str(path)):
        wait_until(lambda: state_of(tmp_path).get("state") == State.TOKEN_REFUSED)
        error = state_of(tmp_path)["error"]
        assert f"got 401; it does not accept the token in {path}" in error
        assert "from its administrator" in error
        token_file(tmp_path, TOKEN)
        fake.wait_for_report(lambda report: report["state"] == "Unsigned")
    assert fake.shown[-1] == f"Bearer {TOKEN}"
    written = log.getvalue() + "".join(path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert "hunter" not in written


def test_agent_without_a_readable_token_keeps_its_table_and_says_what_to_do(tmp_path: Path, fake: FakeRegistry) -> None:
    path = token_file(tmp_path, TOKEN)
    tree = FakeTree()
    with agent(tmp_path, fake.url, tree, token_file=str(path)):
        fake.wait_for_report(lambda report: report["state"] == "Unsigned")
        path.chmod(0o644)
        wait_until(lambda: state_of(tmp_path)["state"] == State.OFFLINE)
        assert "expected a file that others cannot read, got the mode 0644" in state_of(tmp_path)["error"]
        assert tree.text == ONE.text
        path.chmod(0o600)
        wait_until(lambda: state_of(tmp_path).get("state") == State.UNSIGNED)


def answer_of(fake: FakeRegistry) -> tuple[State, str]:
    with client_to(fake.url) as client:
        result = client.poll("gr", "champion")
    return result.state, str(result.error)


def test_registry_that_wants_a_token_is_told_apart_from_one_that_refuses_it(fake: FakeRegistry) -> None:
    state, error = answer_of(fake)
    assert state is State.TOKEN_REFUSED
    assert "the registry requires a token" in error
    assert "set --token-file or CCATUNE_AGENT_TOKEN_FILE" in error
    assert "the token was not accepted" not in error, "advice to users of `ccatune`"


def test_token_that_does_not_permit_the_request_is_an_error_with_the_scopes(fake: FakeRegistry) -> None:
    fake.token = None
    fake.answer_with(403, b'{"type": "urn:ccatune:problem:not-permitted", "detail": "expected the scope read"}')
    state, error = answer_of(fake)
    assert state is State.TOKEN_REFUSED
    assert "(expected the scope read)" in error
    assert "the scopes read and report" in error
    fake.answer_with(403, b'{"type": "urn:ccatune:problem:foreign-request", "detail": "wrong name"}')
    assert answer_of(fake)[0] is State.OFFLINE
