# SPDX-License-Identifier: MIT
"""The whole agent in this process: fake registry, fake tree, real state folder, real threads."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from serving.agent.loop import Agent, notify_systemd
from serving.agent.state import State
from tests.serving.agent.fakes import FakeRegistry, FakeTree, log_to, settings_of, table
from tests.serving.threads import beside

ONE, TWO = table(1), table(2)
NOBODY = "http://127.0.0.1:9"
WAIT_S = 20


def agent_of(folder: Path, tree: FakeTree, url: str) -> Agent:
    return Agent(settings_of(folder, url), tree=tree, log=log_to(), boot_id="boot-1", rng=random.Random(1))


@contextmanager
def running(folder: Path, tree: FakeTree, url: str) -> Iterator[Agent]:
    """Run an agent in a thread; it has applied its last known good when the block begins."""
    agent = agent_of(folder, tree, url)
    ready = threading.Event()
    with beside(partial(agent.run, on_ready=ready.set), stop=agent.stop):
        assert ready.wait(WAIT_S)
        yield agent


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


def test_systemd_is_told_when_it_asks_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_systemd()
        assert systemd.recv(100) == b"READY=1"
