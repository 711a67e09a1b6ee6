# SPDX-License-Identifier: MIT
"""The whole agent in this process: fake registry, fake tree, real state folder, real threads."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.agent import Agent, AgentSettings, State, StateDirError, Store, Table, read_boot_id
from serving.agent.runner import notify_systemd
from serving.agent.store import LAST_KNOWN_GOOD
from tests.serving.agent.fakes import FakeRegistry, FakeTree, answer, fake_registry, log_to, table

ONE, TWO, THREE = table(1), table(2), table(3)
NOBODY = "http://127.0.0.1:9"
WAIT_S = 20


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as fake:
        yield fake


def agent_of(folder: Path, tree: FakeTree, url: str) -> Agent:
    settings = AgentSettings(
        url=url,
        ccas=("gr",),
        state_dir=folder / "state",
        agent_id="host",
        interval_s=0.05,
        wait_s=30,
        timeout_s=20,
        backoff_max_s=0.2,
        report_spread_s=0,
    )
    return Agent(settings, tree=tree, log=log_to(), boot_id="boot-1", rng=random.Random(1))


@contextmanager
def running(folder: Path, tree: FakeTree, url: str) -> Iterator[Agent]:
    """Run an agent in a thread; it has applied its last known good when the block begins."""
    agent = agent_of(folder, tree, url)
    ready = threading.Event()
    thread = threading.Thread(target=agent.run, kwargs={"on_ready": ready.set})
    thread.start()
    try:
        assert ready.wait(WAIT_S)
        yield agent
    finally:
        agent.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def reported(registry: FakeRegistry, state: State, serial: int) -> dict[str, object]:
    return registry.wait_for_report(lambda r: (r["state"], r["effective_serial"]) == (state.value, serial))


def test_each_run_reports_under_a_run_id_of_its_own(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.offer(ONE)
    runs = set()
    for _ in range(2):
        agent = agent_of(tmp_path, FakeTree(), registry.url)
        runs |= {report.run_id for report in agent.run_once()[0]} | {registry.reports[-1]["run_id"]}
    assert len(runs) == 2
    assert all(len(run) == 16 for run in runs if run is not None)


def keep(folder: Path, good: Table) -> None:
    """Leave a last known good as an earlier run would have."""
    store = Store(folder / "state")
    with store.acquire():
        store.save("gr", LAST_KNOWN_GOOD, good.to_json())


def test_channels_moves_reach_the_kernel_and_the_registry_hears_of_it(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url):
        reported(registry, State.UNSIGNED, 1)
        registry.offer(TWO)
        report = reported(registry, State.UNSIGNED, 2)
    assert tree.text == TWO.text
    assert report["path"] == "/v1/agents/host/reports"
    assert report["offered_digest"] == report["effective_digest"] == TWO.ensemble.digest


def test_last_known_good_is_in_force_before_the_registry_is_asked(tmp_path: Path) -> None:
    tree = FakeTree()
    keep(tmp_path, ONE)
    with running(tmp_path, tree, NOBODY):
        assert tree.text == ONE.text


def test_agent_that_ends_reverts_nothing(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url):
        reported(registry, State.UNSIGNED, 1)
    assert tree.text == ONE.text


def test_bad_answer_is_reported_and_the_next_good_one_taken(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url):
        reported(registry, State.UNSIGNED, 1)
        registry.answer_with(200, answer(TWO, digest="sha256:" + "0" * 64))
        report = reported(registry, State.REJECTED, 1)
        assert "expected digest" in str(report["error"])
        assert tree.text == ONE.text
        registry.offer(TWO)
        reported(registry, State.UNSIGNED, 2)


def test_registry_that_fails_makes_the_agent_offline_until_it_is_back(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url):
        reported(registry, State.UNSIGNED, 1)
        registry.answer_with(503)
        reported(registry, State.OFFLINE, 1)
        registry.offer(ONE)
        reported(registry, State.UNSIGNED, 1)
    assert tree.accepted == [ONE.text]


def test_change_by_hand_is_reported_and_resume_ends_it(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url) as agent:
        reported(registry, State.UNSIGNED, 1)
        tree.write("gr", "ensemble", table(77).text)
        reported(registry, State.DEGRADED, 77)
        registry.offer(THREE)
        registry.wait_for_report(lambda r: r["offered_serial"] == 3)
        assert tree.text == table(77).text
        agent.resume()
        reported(registry, State.UNSIGNED, 3)
    assert tree.text == THREE.text


def test_module_loaded_anew_gets_its_table_back_while_the_agent_runs(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    with running(tmp_path, tree, registry.url):
        reported(registry, State.UNSIGNED, 1)
        tree.loaded = False
        reported(registry, State.INCOMPATIBLE, 0)
        tree.reload()
        tree.loaded = True
        reported(registry, State.UNSIGNED, 1)
    assert tree.text == ONE.text


def test_second_agent_on_the_same_folder_does_not_start(
    tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.agent.store._LOCK_ATTEMPTS", 1)
    tree = FakeTree()
    with running(tmp_path, tree, registry.url), pytest.raises(StateDirError, match="expected no other agent"):
        agent_of(tmp_path, tree, registry.url).run()


def test_once_applies_reports_and_ends(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(ONE)
    (report,), _ = agent_of(tmp_path, tree, registry.url).run_once()
    assert (report.state, tree.text) == (State.UNSIGNED, ONE.text)
    assert [sent["state"] for sent in registry.reports] == ["Unsigned"]


def test_once_without_a_registry_keeps_the_last_known_good(tmp_path: Path) -> None:
    tree = FakeTree()
    keep(tmp_path, ONE)
    (report,), _ = agent_of(tmp_path, tree, NOBODY).run_once()
    assert (report.state, tree.text) == (State.OFFLINE, ONE.text)


def test_boot_is_known_by_the_systems_word_for_it(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("5a1c\n", encoding="ascii")
    assert read_boot_id(tmp_path / "boot_id") == "5a1c"
    assert read_boot_id(tmp_path / "none") == "unknown"


def test_systemd_is_told_when_it_asks_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_systemd()
        assert systemd.recv(100) == b"READY=1"
