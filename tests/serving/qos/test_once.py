# SPDX-License-Identifier: MIT
"""A real agent and a real registry that is killed after it has committed a report, before the agent has its answer"""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from serving.agent import connection
from serving.agent.loop import Agent
from serving.client import RegistryClient
from tests.serving.agent.fakes import FakeTree, log_to, settings_of, wait_until
from tests.serving.agent.kernel_rows import row
from tests.serving.api import make_ensemble
from tests.serving.process import Process
from tests.serving.threads import beside

pytestmark = pytest.mark.service


class Killer:
    """Kills the registry when it has answered a report with sums, and loses the answer: once after each `arm`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_armed = self._cuts_off = self._is_cut_off = False
        self.kills = 0
        self.registry = Process(folder)
        self.url = self.registry.url
        self._send = connection.Connection.run

    def arm(self, *, cuts_off: bool) -> None:
        """Kill the registry at the next report with sums. cuts_off: the agent does not reach the restarted one."""
        self._is_armed, self._cuts_off, self._is_cut_off = True, cuts_off, False

    def disarm(self) -> None:
        """Let every request pass."""
        self._is_armed = self._is_cut_off = False

    def run(self, client: connection.Connection, request: connection.Request, **limits: Any) -> connection.Answer:
        """Send a request in the place of `Connection.run`."""
        if self._is_cut_off:
            raise ConnectionRefusedError("the agent is cut off")
        answer = self._send(client, request, **limits)
        if self._is_armed and b'"sums"' in (request.body or b""):
            assert answer.status == 204
            self._is_armed, self._is_cut_off = False, self._cuts_off
            self.registry.end(signal.SIGKILL)
            self.registry.ready_file.unlink()
            self.registry = Process(self._folder, "--port", self.url.rpartition(":")[2])
            assert self.registry.url == self.url
            self.kills += 1
            raise ConnectionResetError("the registry was killed")
        return answer


def test_each_epoch_counts_once_while_the_registry_is_killed_before_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = Killer(tmp_path)
    # A function, which becomes a method of the connection.
    monkeypatch.setattr(connection.Connection, "run", lambda *request, **limits: killer.run(*request, **limits))  # noqa: PLW0108
    with RegistryClient(killer.url) as client:
        client.move("gr", "champion", digest=client.publish(make_ensemble(0))["digest"])
    tree = FakeTree()
    settings = settings_of(tmp_path, killer.url, report_every_s=1.0)
    epochs = 0

    def count(more: int) -> None:
        nonlocal epochs
        epochs += more
        tree.rows = row(epochs) + row(epochs, state=2, flows="followers")

    def agent(number: int) -> Agent:
        return Agent(settings, tree=tree, log=log_to(), boot_id="boot-1", rng=random.Random(number))

    # The first and the last life of the agent end with a delta that the registry has, and that is not acknowledged.
    for number in range(3):
        killer.arm(cuts_off=number != 1)
        running = agent(number)
        with beside(running.run, stop=running.stop):
            wait_until(lambda: bool(tree.text))
            count(5)
            wait_until(lambda n=number: killer.kills > n)
            count(1)
    killer.disarm()
    # The first of these sends the delta that is outstanding, if there is one.
    for number in range(2):
        agent(number).run_once()
    with RegistryClient(killer.url) as client:
        assert {item["state"]: item["epochs"] for item in client.qos(["state"])} == {0: epochs, 2: epochs}
        assert epochs == 18
    killer.registry.end()
