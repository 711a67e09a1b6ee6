# SPDX-License-Identifier: MIT
"""Backups that are made while the registry is written to, what they restore to, and the serials afterwards"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ccatune
from serving.agent import cli as agent_cli
from serving.agent.loop import Agent
from serving.agent.settings import AgentSettings
from serving.agent.state import CcaReport, State
from serving.client import RegistryClient
from serving.database import Database
from tests.serving.agent.fakes import FakeTree, header, log_to
from tests.serving.api import api_of, make_ensemble
from tests.serving.running import Running

pytestmark = pytest.mark.service

CHANNELS = ("champion", "canary")
Restore = Callable[[], Database]


@pytest.fixture
def back_up(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Restore]]:
    """Backs the database up; the result restores it as a new database."""
    numbers = itertools.count(1)
    opened: list[Database] = []

    def make() -> Restore:
        file = tmp_path / f"backup{next(numbers)}"
        if database_url.startswith("sqlite"):
            assert ccatune.run(["registry", "backup", str(file), "--database", database_url]) == 0
            urls = iter([f"sqlite:///{file}"])
        else:
            server = request.getfixturevalue("postgresql")
            server.dump(database_url, file)
            urls = (server.restored(file) for _ in range(1))

        def restore() -> Database:
            opened.append(Database(next(urls)))
            return opened[-1]

        return restore

    yield make
    for database in opened:
        database.close()


def content(database: Database) -> dict[str, Any]:
    """What the registry of this database says of each channel, and its ensembles."""
    api = api_of(database, open=True)

    def pages(path: str) -> list[dict[str, Any]]:
        rows, cursor = [], {}
        while True:
            page = api.get(path, params={"limit": 200, **cursor}).json()
            rows += page["items"]
            if page["next_cursor"] is None:
                return rows
            cursor = {"cursor": page["next_cursor"]}

    return {
        "histories": {
            row["channel"]: pages(f"/v1/channels/gr/{row['channel']}/history") for row in pages("/v1/channels")
        },
        "ensembles": {
            row["digest"]: api.get(f"/v1/ensembles/{row['digest']}").json() for row in pages("/v1/ensembles")
        },
    }


class Writer:
    """Moves one channel, with a new ensemble each time, until it is stopped."""

    def __init__(self, url: str, channel: str, *, first: int) -> None:
        self.acknowledged: list[int] = []
        self._url, self._channel, self._first = url, channel, first
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with RegistryClient(self._url) as client:
            for number in itertools.count(self._first):
                if self._stopping.is_set():
                    return
                digest = client.publish(make_ensemble(number))["digest"]
                self.acknowledged.append(client.move("gr", self._channel, digest=digest)["serial"])

    def wait_for(self, moves: int) -> None:
        """Wait until so many more moves are acknowledged."""
        pause, wanted = threading.Event(), len(self.acknowledged) + moves
        while len(self.acknowledged) < wanted:
            assert self._thread.is_alive()
            pause.wait(0.01)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()


def test_backup_under_writes_is_whole_and_has_all_that_was_acknowledged_before(api, back_up):
    backups: list[tuple[dict[str, int], Restore, dict[str, int]]] = []
    with Running(api.database) as registry:
        writers = {name: Writer(registry.url, name, first=1000 * n) for n, name in enumerate(CHANNELS)}

        def acknowledged() -> dict[str, int]:
            return {name: max(writer.acknowledged, default=0) for name, writer in writers.items()}

        for _ in range(3):
            for writer in writers.values():
                writer.wait_for(5)
            before = acknowledged()
            restore = back_up()
            backups.append((before, restore, acknowledged()))
        for writer in writers.values():
            writer.stop()
    live = content(api.database)
    for before, restore, after in backups:
        found = content(restore())
        for name, history in found["histories"].items():
            # One more move than the acknowledged ones may have been under way.
            assert before[name] <= history[0]["serial"] <= after[name] + 1
            assert history == [row for row in live["histories"][name] if row["serial"] <= history[0]["serial"]]
            assert all(row["digest"] in found["ensembles"] for row in history)
        assert found["ensembles"].items() <= live["ensembles"].items()


class Server:
    """A server with an agent, whose kernel is a fake."""

    def __init__(self, folder: Path) -> None:
        self.tree = FakeTree()
        self.state_dir = folder / "agent"

    def follow(self, registry: Running) -> CcaReport:
        """Let the agent ask once, apply and report."""
        settings = AgentSettings(
            url=registry.url, ccas=("gr",), state_dir=self.state_dir, agent_id="server-1", timeout_s=20
        )
        (report,), _ = Agent(settings, tree=self.tree, log=log_to(), boot_id="boot-1").run_once()
        return report

    @property
    def serial(self) -> int:
        """The serial in the kernel."""
        return int(header(self.tree.text)["serial"])

    def command(self, name: str) -> None:
        """Run `ccatune-agent NAME` for it."""
        assert agent_cli.run([name, "--state-dir", str(self.state_dir)]) == 0


@pytest.fixture
def server(api, back_up, tmp_path) -> Iterator[tuple[Server, Running]]:
    """A server that runs serial 6, and its registry as restored from a backup at serial 3."""
    server = Server(tmp_path)
    for number in range(3):
        api.move(number)
    restore = back_up()
    for number in range(3, 6):
        api.move(number)
    with Running(api.database) as registry:
        assert server.follow(registry).state == State.UNSIGNED
    assert server.serial == 6
    with Running(restore()) as restored:
        refused = server.follow(restored)
        assert refused.state == "Rejected"
        assert "expected serial 6 of lab/champion or a later one, got 3, which is older" in str(refused.error)
        assert server.serial == 6
        yield server, restored


def test_moves_past_the_agents_serials_lead_out(server, capsys):
    agent, registry = server
    digest = make_ensemble(2).digest

    def command(*words: str) -> Any:
        capsys.readouterr()
        assert ccatune.run([*words, "--url", registry.url, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    highest = max(row["effective_serial"] for row in command("agents", "list", "--cca", "gr", "--channel", "champion"))
    assert highest == 6
    while command("channels", "set", "gr", "champion", digest, "--note", "restored")["serial"] <= highest:
        pass
    assert agent.follow(registry).state == State.UNSIGNED
    assert (agent.serial, header(agent.tree.text)["digest"]) == (7, digest)


def test_agents_that_forget_and_resume_lead_out_with_the_restored_serial(server):
    agent, registry = server
    agent.command("forget")
    assert "ESTALE" in str(agent.follow(registry).error)
    agent.command("resume")
    assert agent.follow(registry).state == State.UNSIGNED
    assert (agent.serial, header(agent.tree.text)["digest"]) == (3, make_ensemble(2).digest)
